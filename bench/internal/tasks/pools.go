// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"errors"
	"sync"

	"github.com/panjf2000/ants/v2"
	"golang.org/x/sync/errgroup"

	"weft/bench/internal/harness"
)

// pooled makes the peer that submits a program's tasks to a pool of goroutines. The pool has no
// limit. With as many goroutines as workers it is slower for independent tasks, because Submit
// blocks, and a tree of tasks that wait for others would deadlock.
func pooled[P program](newProgram func(size int64) P, run func(P, *ants.Pool) error) harness.Peer {
	open := func(_ context.Context, p harness.Params) (harness.Probe, error) {
		prog := newProgram(p.Size)
		pool, err := ants.NewPool(-1)
		if err != nil {
			return harness.Probe{}, err
		}
		closer := func() error { pool.Release(); return nil }
		return probe(prog, p, func(context.Context) error { return run(prog, pool) }, closer), nil
	}
	return harness.Peer{Name: "ants", Open: open}
}

func (p *independent) ants(pool *ants.Pool) error {
	var wg sync.WaitGroup
	for _, body := range p.bodies {
		wg.Add(1)
		if err := pool.Submit(func() {
			body()
			wg.Done()
		}); err != nil {
			wg.Done()
			wg.Wait()
			return err
		}
	}
	wg.Wait()
	return nil
}

func (p *independent) errgroup() error {
	var g errgroup.Group
	for _, body := range p.bodies {
		g.Go(func() error { body(); return nil })
	}
	return g.Wait()
}

func (p *forkjoin) ants(pool *ants.Pool) error { return fibAnts(pool, p.n, &p.result) }

func fibAnts(pool *ants.Pool, n int, out *int64) error {
	if n < 2 {
		*out = int64(n)
		return nil
	}
	var wg sync.WaitGroup
	r := new(pair)
	var errs [2]error
	for i, child := range []*int64{&r.a, &r.b} {
		wg.Add(1)
		if err := pool.Submit(func() {
			errs[i] = fibAnts(pool, n-1-i, child)
			wg.Done()
		}); err != nil {
			errs[i] = err
			wg.Done()
		}
	}
	wg.Wait()
	*out = r.a + r.b
	return errors.Join(errs[:]...)
}

func (p *forkjoin) errgroup() error { return fibErrgroup(p.n, &p.result) }

func fibErrgroup(n int, out *int64) error {
	if n < 2 {
		*out = int64(n)
		return nil
	}
	var g errgroup.Group
	r := new(pair)
	g.Go(func() error { return fibErrgroup(n-1, &r.a) })
	g.Go(func() error { return fibErrgroup(n-2, &r.b) })
	if err := g.Wait(); err != nil {
		return err
	}
	*out = r.a + r.b
	return nil
}
