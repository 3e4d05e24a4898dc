//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"testing"

	"weft/internal/chain"
	"weft/internal/explore"
	"weft/internal/xatomic"
)

// TestExploreIdle explores the idle protocol by itself. A task is a function that runs on its slot;
// queueing, hunting, parking and waking are the real code. In the end every task has run once, and
// all slots are parked. A task that waits for another one keeps its slot, so a lost wake-up is a
// deadlock.
func TestExploreIdle(t *testing.T) {
	for _, x := range idlePrograms {
		t.Run(x.name, func(t *testing.T) { explore.TestWithin(t, x.bound, x.big, x.setup) })
	}
}

// exploration is one program of the table.
type exploration struct {
	name  string
	big   bool // only with -explore.big
	bound int  // if not zero: fewer preemptions than this
	setup func(*explore.Run)
}

// gate blocks wait until open, which may also come first.
type gate struct{ c xatomic.Chan[int] }

func newGate() gate  { return gate{make(xatomic.Chan[int], 1)} }
func (g gate) open() { g.c.Send(1) }
func (g gate) wait() { g.c.Recv() }

// idleLab runs functions instead of tasks.
type idleLab struct {
	*explore.Run
	q    *Scheduler
	todo map[*chain.Node]func(s *Slot)
	ran  int
	made int
}

// newIdleLab makes slots that are busy at the start and about to call Pick (b), or parked (p). They
// search all queues once before they park.
func newIdleLab(r *explore.Run, slots string) *idleLab {
	q := new(Scheduler)
	list := make([]*Slot, len(slots))
	for i := range list {
		list[i] = new(Slot)
	}
	q.Init(silentHost{}, list, 1, 0)
	q.Lab(r.Name)
	st := &idleLab{Run: r, q: q, todo: map[*chain.Node]func(*Slot){}}
	for i, s := range q.slots {
		parked := slots[i] == 'p'
		if parked {
			s.Park()
		}
		st.Daemon(fmt.Sprint("slot ", i), func() {
			if parked {
				s.Sleep()
			}
			for {
				n, _ := s.Pick()
				if n == nil {
					if n, _ = s.Hunt(); n == nil {
						continue
					}
				}
				f := st.todo[n]
				if f == nil {
					st.Failf("a task came out twice")
					return
				}
				delete(st.todo, n)
				st.ran++
				f(s)
			}
		})
	}
	st.End(func() error {
		if st.ran != st.made {
			return fmt.Errorf("%d of %d tasks have run", st.ran, st.made)
		}
		return q.AtRest()
	})
	return st
}

// silentHost is a runtime that ignores the scheduler's calls.
type silentHost struct{}

func (silentHost) Poll(*Slot) bool                        { return false }
func (silentHost) Stole(_, _ *Slot, _ *chain.Node, _ int) {}
func (silentHost) Parks(*Slot, bool)                      {}
func (silentHost) Unparks(*Slot)                          {}
func (silentHost) Wakes()                                 {}

func (st *idleLab) task(f func(s *Slot)) *chain.Node {
	n := new(chain.Node)
	st.todo[n] = f
	st.made++
	return n
}

func noWork(*Slot) {}

// pushers queue tasks without a slot: each of them so many, one after the other.
func pushers(slots string, counts ...int) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		for i, n := range counts {
			tasks := make([]*chain.Node, n)
			for k := range tasks {
				tasks[k] = st.task(noWork)
			}
			r.Go(fmt.Sprint("pusher ", i), func() {
				for _, t := range tasks {
					st.q.Ready(t, 0)
				}
			})
		}
	}
}

// producer is a task that pushes others on its slot's own deque, and then keeps the slot until
// these have run.
func producer(slots string, children int) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		g := make([]gate, children)
		tasks := make([]*chain.Node, children)
		for i := range g {
			g[i] = newGate()
			tasks[i] = st.task(func(*Slot) { g[i].open() })
		}
		s := st.q.slots[0]
		s.Next = st.task(func(s *Slot) {
			for _, t := range tasks {
				ready(s, t, 0)
			}
			for _, x := range g {
				x.wait()
			}
		})
	}
}

// chained queues a task that keeps its slot until another one has run, and then queues the other.
func chained(slots string) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		g := newGate()
		first := st.task(func(*Slot) { g.wait() })
		second := st.task(func(*Slot) { g.open() })
		r.Go("pusher", func() {
			st.q.Ready(first, 0)
			st.q.Ready(second, 0)
		})
	}
}

// prioritized queues two tasks with a priority each, without a slot.
func prioritized(slots string, first, second int32) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		for i, prio := range []int32{first, second} {
			t := st.task(noWork)
			r.Go(fmt.Sprint("pusher ", i), func() { st.q.Ready(t, prio) })
		}
	}
}

var idlePrograms = []exploration{
	{"p high and low, 3 preemptions", false, 4, prioritized("p", 1, -1)},
	{"b high twice, 2 preemptions", false, 3, prioritized("b", 1, 2)},
	{"b low twice, 2 preemptions", false, 3, prioritized("b", -1, -2)},
	{"b 1", false, 0, pushers("b", 1)},
	{"b 2", false, 0, pushers("b", 2)},
	{"p 1", false, 0, pushers("p", 1)},
	{"p 2", false, 0, pushers("p", 2)},
	{"p 1 1", false, 0, pushers("p", 1, 1)},
	{"pp 1", false, 0, pushers("pp", 1)},
	{"bp 1", false, 0, pushers("bp", 1)},
	{"bpp 1", false, 0, pushers("bpp", 1)},
	{"bp producer", false, 0, producer("bp", 1)},
	{"bb producer", false, 0, producer("bb", 1)},
	{"pp chained", false, 0, chained("pp")},
	{"bp chained, 2 preemptions", false, 3, chained("bp")},
	{"b 1 1", true, 0, pushers("b", 1, 1)},
	{"bbp producer", true, 0, producer("bbp", 1)},
	{"b 1 1, 3 preemptions", true, 4, pushers("b", 1, 1)},
	{"bb 1, 2 preemptions", false, 3, pushers("bb", 1)},
	{"bp 2, 2 preemptions", false, 3, pushers("bp", 2)},
	{"pp 1 1, 2 preemptions", true, 3, pushers("pp", 1, 1)},
	{"bp 1 1, 2 preemptions", true, 3, pushers("bp", 1, 1)},
	{"bpp producer of 2, 2 preemptions", true, 3, producer("bpp", 2)},
}
