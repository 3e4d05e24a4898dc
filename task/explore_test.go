//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"fmt"
	"testing"

	"weft/internal/chain"
	"weft/internal/explore"
	"weft/internal/xatomic"
)

// lab is a runtime whose slots are run by the explorer. It is the real runtime, except for small
// rings and no goroutines of its own.
type lab struct {
	*explore.Run
	rt *Runtime
}

// newLab builds a runtime. Its slots search everywhere once before they park.
func newLab(r *explore.Run, slots int) *lab {
	rt, err := build(Config{Workers: slots, Window: -1}, tuning{rounds: 1})
	if err != nil {
		panic(err)
	}
	rt.sched.Lab(r.Name)
	r.Name("throttle", &rt.throttle)
	r.Name("pool", &rt.pool)
	for _, s := range rt.slots.all {
		// further free tasks are allocated when they are needed
		s.free = []*chain.Node{&new(Task).node}
	}
	return &lab{r, rt}
}

// loops runs the slots as the runtime does: at the start each is about to search for work (b), or
// is parked (p).
func (st *lab) loops(slots string) {
	for i, s := range st.rt.slots.all {
		parked := slots[i] == 'p'
		if parked {
			s.Park()
		}
		st.Daemon(fmt.Sprint("slot ", i), func() {
			if parked {
				s.Sleep()
			}
			s.loop()
		})
	}
}

// newRun makes a run whose main task, which it returns too, is queued from outside.
func (st *lab) newRun(main func(*Task) error) (*run, *Task) {
	r := &run{rt: st.rt, ctx: context.Background(), cancel: func(error) {}, done: make(chan struct{})}
	st.Name("run", r)
	t := r.main(0, main)
	st.name("main", t)
	st.rt.sched.Inject(&t.node)
	return r, t
}

// name names the words of t.
func (st *lab) name(as string, t *Task) {
	st.Name(as+".holds", &t.holds)
	st.Name(as+".count", &t.count)
	st.Name(as+".idle", &t.idle)
	st.Name(as+".block", &t.block)
}

// atRest checks what must hold when no goroutine can go on: every slot is parked, nothing is
// queued, no completion is delayed.
func (st *lab) atRest() error {
	if err := st.rt.sched.AtRest(); err != nil {
		return err
	}
	for _, s := range st.rt.slots.all {
		if s.delayedOf != nil || s.cur.load() != nil {
			return fmt.Errorf("slot %d sleeps and keeps something", s.ID)
		}
	}
	return nil
}

// over is atRest, and r has ended.
func (st *lab) over(r *run) error {
	select {
	case <-r.done:
	default:
		return fmt.Errorf("the run has not ended")
	}
	if len(r.blocked) != 0 || st.rt.throttle.n.Load() != 0 {
		return fmt.Errorf("%d tasks are blocked and %d throttled after the end", len(r.blocked), st.rt.throttle.n.Load())
	}
	return st.atRest()
}

// exploration is one program of a table.
type exploration struct {
	name  string
	big   bool // only with -explore.big
	bound int  // if not zero: less preemptions than this
	setup func(*explore.Run)
}

func exploreAll(t *testing.T, list []exploration) {
	for _, x := range list {
		t.Run(x.name, func(t *testing.T) { explore.TestWithin(t, x.bound, x.big, x.setup) })
	}
}

// gate lets waiters go on when it is opened, in any order of wait and open.
type gate struct{ c xatomic.Chan[int] }

func newGate() gate  { return gate{make(xatomic.Chan[int], 1)} }
func (g gate) open() { g.c.Send(1) }
func (g gate) wait() { g.c.Recv() }
