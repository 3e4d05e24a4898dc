// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package taskbench

import (
	"context"
	"sync"

	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"
)

// The ways in which a Go programmer would run a graph without weft. All but channels wait for all
// tasks of a step before they begin the next step. The graph does not need that, but it is the
// usual way to write it.

// sequential is plain calls.
func (in *instance) sequential() error {
	in.graph.each(func(t, p int, _ *point) { in.execute(t, p) })
	return nil
}

// goroutines is a goroutine per task, and a WaitGroup per step.
func (in *instance) goroutines() error {
	for t, s := range in.graph.steps {
		var wg sync.WaitGroup
		for i := range s.points {
			wg.Go(func() { in.execute(t, s.first+i) })
		}
		wg.Wait()
	}
	return nil
}

// errgroup is an errgroup per step.
func (in *instance) errgroup() error {
	for t, s := range in.graph.steps {
		var g errgroup.Group
		for i := range s.points {
			g.Go(func() error { in.execute(t, s.first+i); return nil })
		}
		if err := g.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// openAnts makes the system that submits the tasks of a step to a pool of goroutines. The pool has
// no limit: with a limit Submit blocks, and the pool is slower.
func openAnts(_ context.Context, g *Graph, k Kernel, workers int) (*Machine, error) {
	pool, err := ants.NewPool(-1)
	if err != nil {
		return nil, err
	}
	in := newInstance(g, k, workers)
	closer := func() error { pool.Release(); return nil }
	return in.machine(workers, func(context.Context) error { return in.ants(pool) }, closer), nil
}

func (in *instance) ants(pool *ants.Pool) error {
	for t, s := range in.graph.steps {
		var wg sync.WaitGroup
		for i := range s.points {
			wg.Add(1)
			if err := pool.Submit(func() {
				in.execute(t, s.first+i)
				wg.Done()
			}); err != nil {
				wg.Done()
				wg.Wait()
				return err
			}
		}
		wg.Wait()
	}
	return nil
}

// channels is a goroutine per task. It receives from the channels of the tasks that it follows and
// closes its own.
func (in *instance) channels() error {
	var all sync.WaitGroup
	var made [2][]chan struct{} // of the last two steps
	for t, s := range in.graph.steps {
		older, before := made[t&1], made[(t+1)&1]
		own := make([]chan struct{}, in.graph.Width)
		for i := range s.points {
			self, p, done := &s.points[i], s.first+i, make(chan struct{})
			own[p] = done
			all.Go(func() {
				for _, f := range self.follows {
					<-before[f]
				}
				if self.older {
					<-older[p]
				}
				in.execute(t, p)
				close(done)
			})
		}
		made[t&1] = own
	}
	all.Wait()
	return nil
}
