// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/chain"
	"weft/task/internal/pool"
	"weft/task/internal/probe"
	"weft/task/internal/sched"
)

// clean waits until rt, which has no run, is at rest, and fails the test if rt still refers to
// anything of its runs. newTestRuntime calls it, so each test of a runtime checks this too.
func clean(t testing.TB, rt *Runtime) {
	t.Helper()
	if inLintMode() {
		return // goroutines of bodies stay
	}
	what, start := rt.unclean(), time.Now()
	for ; what != "" && time.Since(start) < hangLimit/3; what = rt.unclean() {
		time.Sleep(10 * time.Microsecond) // a slot that has just ended a run is about to park
	}
	require.Empty(t, what, "of a runtime at rest")
}

// unclean says what of past runs is left in rt; "" if nothing is.
func (rt *Runtime) unclean() string {
	if what := rt.sched.NotAtRest(); what != "" {
		return what
	}
	w := &rt.throttle
	w.mu.Lock()
	creators := len(w.list)
	w.mu.Unlock()
	switch {
	case creators != 0 || w.n.Load() != 0:
		return fmt.Sprintf("%d creators are throttled, and %d counted", creators, w.n.Load())
	case !rt.life.idle():
		return "a run is counted"
	case rt.polls.all.Load() != nil:
		return "" // the test ends that by itself
	}
	what, seen := "", map[*sched.Slot]bool{}
	rt.sched.EachParked(func(x *sched.Slot) {
		seen[x] = true
		if what == "" {
			what = rt.slots.all[x.ID].unclean()
		}
	})
	switch {
	case what != "":
		return what
	case len(seen) != rt.Workers():
		return fmt.Sprintf("%d of %d slots are parked", len(seen), rt.Workers())
	}
	rt.pool.Inspect(func(list []*chain.Node, _ bool) {
		for _, n := range list {
			if is := fromNode(n).unclean(); is != "" {
				what = "a free task of the pool: " + is
			}
		}
	})
	if g := rt.guests.Any(); g != nil {
		return "a goroutine is in " + g.Op
	}
	return what
}

// unclean says what of past runs is left in s, which is parked; "" if nothing is.
func (s *slot) unclean() string {
	switch {
	case s.cur.load() != nil || s.outer != nil || s.nested != 0 || s.Next != nil || s.delayedOf != nil || s.delayedN != 0:
		return fmt.Sprintf("slot %d has a task", s.ID)
	case !s.flow.Empty():
		return fmt.Sprintf("slot %d has a flow", s.ID)
	case s.polling:
		return fmt.Sprintf("slot %d polls", s.ID)
	case s.und != nil && s.und.creator != nil:
		return fmt.Sprintf("slot %d keeps a creator", s.ID)
	case len(s.free) >= freeMax:
		return fmt.Sprintf("slot %d has %d free tasks", s.ID, len(s.free))
	}
	for _, n := range s.free {
		if what := fromNode(n).unclean(); what != "" {
			return fmt.Sprintf("a free task of slot %d: %s", s.ID, what)
		}
	}
	return ""
}

// unclean says what of its last use is left in t, which is free; "" if nothing is.
func (t *Task) unclean() string {
	switch {
	case t.fn != nil || t.run != nil || t.node.Parent != nil:
		return "what it was"
	case t.node.Flags != flagLeaf:
		return fmt.Sprintf("flags %#x", t.node.Flags)
	case t.slot != nil || t.outer != nil || t.nested != 0 || t.parker != nil:
		return "where it ran"
	case t.spawned != 0 || t.count.Load() != 0 || t.idle.Load() != 0:
		return fmt.Sprintf("children: spawned %d, count %d, idle %d", t.spawned, t.count.Load(), t.idle.Load())
	case t.holds.Load() != 0:
		return fmt.Sprintf("events: %#x", t.holds.Load())
	case t.block.Load() != blockNone:
		return fmt.Sprintf("the word of Block: %d", t.block.Load())
	case t.label != "" || t.pc != 0 || t.priority != 0 || t.cost != 0 || t.final || t.und != nil:
		return fmt.Sprintf("attributes: %q, %d, %d, %v", t.label, t.priority, t.cost, t.final)
	case t.id != 0:
		return "a number"
	case t.more != nil && (t.more.onReady != nil || t.more.held != nil || t.more.noted != probe.Notes{} || t.more.replay != nil ||
		sharesOf(t.more).Len()+groupsOf(t.more).Len() != 0):
		return fmt.Sprintf("more: %+v", *t.more)
	}
	return ""
}

// An Unblock that no Block has used is forgotten when its task ends, in whatever way: no later task
// in the same memory finds it.
func TestNoEarlyUnblockIsLeft(t *testing.T) {
	skipInLintMode(t, "the test shares variables with bodies that no access orders")
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for name, main := range map[string]func(t *Task, early func(*Task) error) error{
			"children": func(t *Task, early func(*Task) error) error { t.Spawn(early); return nil },
			"labelled": func(t *Task, early func(*Task) error) error {
				t.SpawnWith(Attrs{Label: "x", Priority: 1}, early)
				return nil
			},
			"undeferred": func(t *Task, early func(*Task) error) error { t.SpawnWith(Attrs{Undeferred: true}, early); return nil },
			"with events": func(t *Task, early func(*Task) error) error {
				t.Spawn(func(t *Task) error { go t.Hold()(nil); return early(t) })
				return nil
			},
			"accesses": func(t *Task, early func(*Task) error) error { x := 0; t.Spawn(early, deps.InOut(&x)); return nil },
			"one fails": func(t *Task, early func(*Task) error) error {
				t.Spawn(func(t *Task) error { _ = early(t); return errBody })
				return nil
			},
			"recorded": func(t *Task, early func(*Task) error) error {
				t.Iterate(3, func(it *Iteration) error { it.Spawn(early); return nil })
				return nil
			},
		} {
			var n notes
			early := func(t *Task) error {
				n.check(t.block.Load() == blockNone, "%s: a new task finds an earlier Unblock", name)
				t.Unblock()
				t.Unblock()
				return nil
			}
			for range 2 * fresh {
				err := rt.Run(bg, func(t *Task) error { return main(t, early) })
				require.Equal(t, name == "one fails", err != nil, "%s: %v", name, err)
			}
			n.require(t)
			clean(t, rt)
		}
	}
}

// A task whose last event ends on a goroutine without a slot is reused, like a task whose last
// event ends on a slot.
func TestTasksThatEndOffSlotsAreUsedAgain(t *testing.T) {
	const n = 3 * pool.Batch
	rt := newTestRuntime(t, Config{Workers: 1, Window: 2 * n})
	var ends []func(error)
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range n {
			t.Spawn(func(t *Task) error {
				if ends = append(ends, t.Hold()); len(ends) < n {
					return nil
				}
				ended := make(chan struct{})
				go func() { // meanwhile this body keeps the only slot
					defer close(ended)
					for _, end := range ends[:n-1] {
						end(nil)
					}
				}()
				<-ended
				ends[n-1](nil)
				return nil
			})
		}
		return t.Wait()
	}))
	until(func() bool {
		free := 0
		rt.pool.Inspect(func(list []*chain.Node, _ bool) { free = len(list) })
		return free >= n-1
	})
}
