//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"

	"weft/internal/explore"
)

// TestExploreIdle: the idle protocol by itself. The slots take tasks by nextTask, and a task is a function that runs
// with its slot; queueing, hunting, parking and waking are the real ones. In the end every task
// has run once, and all slots are parked. A task that waits for another one keeps its slot, so work that is left to
// nobody is a deadlock.
func TestExploreIdle(t *testing.T) { exploreAll(t, idlePrograms) }

// idleLab runs functions instead of tasks.
type idleLab struct {
	*lab
	todo map[*Task]func(s *slot)
	ran  int
	made int
}

// newIdleLab makes slots that are busy at the start and about to look for work (b), or parked (p).
func newIdleLab(r *explore.Run, slots string) *idleLab {
	st := &idleLab{lab: newLab(r, len(slots)), todo: map[*Task]func(*slot){}}
	for i, s := range st.rt.slots.all {
		parked := slots[i] == 'p'
		if parked {
			st.park(s)
		}
		st.Daemon(fmt.Sprint("slot ", i), func() {
			if parked {
				s.sema.sleep() // the end of sleep
			}
			for t := s.nextTask(); t != nil; t = s.nextTask() {
				f := st.todo[t]
				if f == nil {
					st.Failf("a task came out twice")
					return
				}
				delete(st.todo, t)
				st.ran++
				f(s)
			}
		})
	}
	st.End(func() error {
		if st.ran != st.made {
			return fmt.Errorf("%d of %d tasks have run", st.ran, st.made)
		}
		return st.atRest()
	})
	return st
}

func (st *idleLab) task(f func(s *slot)) *Task {
	t := new(Task)
	st.todo[t] = f
	st.made++
	return t
}

func noWork(*slot) {}

// pushers queue tasks from outside: each of them so many, one after the other.
func pushers(slots string, counts ...int) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		for i, n := range counts {
			tasks := make([]*Task, n)
			for k := range tasks {
				tasks[k] = st.task(noWork)
			}
			r.Go(fmt.Sprint("pusher ", i), func() {
				for _, t := range tasks {
					st.rt.readyOff(t)
				}
			})
		}
	}
}

// producer is a task on a slot that makes others on the slot's own deque and then waits, with
// the slot, until these have run.
func producer(slots string, children int) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		g := make([]gate, children)
		tasks := make([]*Task, children)
		for i := range g {
			g[i] = newGate()
			tasks[i] = st.task(func(*slot) { g[i].open() })
		}
		s := st.rt.slots.all[0]
		s.runnext = st.task(func(s *slot) {
			for _, t := range tasks {
				s.ready(t)
			}
			for _, x := range g {
				x.wait()
			}
		})
	}
}

// chained pushes a task that keeps its slot until another one has run, and then that.
func chained(slots string) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		g := newGate()
		first := st.task(func(*slot) { g.wait() })
		second := st.task(func(*slot) { g.open() })
		r.Go("pusher", func() {
			st.rt.readyOff(first)
			st.rt.readyOff(second)
		})
	}
}

// prioritized queues two tasks with a priority each, from outside.
func prioritized(slots string, first, second int32) func(*explore.Run) {
	return func(r *explore.Run) {
		st := newIdleLab(r, slots)
		for i, prio := range []int32{first, second} {
			t := st.task(noWork)
			t.priority = prio
			t.node.Flags |= flagPriority
			r.Go(fmt.Sprint("pusher ", i), func() { st.rt.readyOff(t) })
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
