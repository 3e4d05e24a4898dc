//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"

	"weft/deps"
	"weft/internal/xatomic"
)

// TestExploreEvents: the counters of events and of children. A task that is over too early, or
// twice, ends the run twice or with something left; one that is never over leaves the run open.
// Objects show that accesses are kept.
func TestExploreEvents(t *testing.T) { exploreAll(t, eventPrograms) }

// ends ends an event on a goroutine without a slot.
func ends(release func(error)) { xatomic.Go(func() { release(nil) }) }

// holding is a body with n events that other goroutines end.
func holding(n int) func(st *lab, t *Task) error {
	return func(_ *lab, t *Task) error {
		for range n {
			ends(t.Hold())
		}
		return nil
	}
}

// parent is a body with children that have one event each, which other goroutines end.
func parent(children int, waits bool) func(st *lab, t *Task) error {
	return func(st *lab, t *Task) error {
		for range children {
			t.Spawn(func(t *Task) error { return holding(1)(st, t) })
		}
		if waits {
			err := t.Wait()
			st.Check(t.spawned+t.count.Load() == 0, "Wait returns with %d children, count %d", t.spawned, t.count.Load())
			st.holds(t)
			return err
		}
		return nil
	}
}

var eventPrograms = []exploration{
	{"one event", false, 0, body("b", holding(1))},
	{"two events", false, 0, body("b", holding(2))},
	{"one event, ended by two", false, 0, body("b", func(_ *lab, t *Task) error {
		f := t.Hold()
		ends(f)
		ends(f)
		return nil
	})},
	{"an event begets one", false, 0, body("b", func(_ *lab, t *Task) error {
		f := t.Hold()
		xatomic.Go(func() {
			g := t.Hold()
			ends(g)
			f(nil)
		})
		return nil
	})},
	{"one ends here, one there", false, 0, body("b", func(_ *lab, t *Task) error {
		f := t.Hold()
		ends(t.Hold())
		f(nil)
		return nil
	})},
	{"an event fails", false, 0, failing("b", func(_ *lab, t *Task) error {
		f := t.Hold()
		xatomic.Go(func() { f(errExplored) })
		return nil
	})},
	{"a child with an event", false, 0, body("b", parent(1, false))},
	{"two children with events", false, 0, body("b", parent(2, false))},
	{"waiting for a child with an event", false, 0, body("b", parent(1, true))},
	{"waiting for two", false, 0, body("b", parent(2, true))},
	{"the parent has an event too", false, 0, body("b", func(st *lab, t *Task) error {
		ends(t.Hold())
		return parent(1, false)(st, t)
	})},
	{"grandchild", false, 0, body("b", func(st *lab, t *Task) error {
		t.Spawn(func(t *Task) error { return parent(1, false)(st, t) })
		return nil
	})},
	{"accesses are kept", false, 0, body("b", func(st *lab, t *Task) error {
		var x int
		ended := false
		t.Spawn(func(t *Task) error {
			f := t.Hold()
			xatomic.Go(func() {
				ended = true
				f(nil)
			})
			return nil
		}, deps.InOut(&x))
		t.Spawn(func(*Task) error { st.Check(ended, "the accesses are given up before the event has ended"); return nil }, deps.In(&x))
		return nil
	})},
	{"onready", false, 0, body("b", func(st *lab, t *Task) error {
		t.SpawnWith(Attrs{OnReady: func(t *Task) error { ends(t.Hold()); return nil }}, func(*Task) error { return nil })
		return nil
	})},
	{"onready with two events", false, 0, body("b", func(st *lab, t *Task) error {
		runs := 0
		t.SpawnWith(Attrs{OnReady: func(t *Task) error { ends(t.Hold()); ends(t.Hold()); return nil }},
			func(*Task) error { runs++; return nil })
		err := t.Wait()
		st.Check(runs == 1, "the body has run %d times", runs)
		return err
	})},
	{"onready, then an event of the body", false, 0, body("b", func(st *lab, t *Task) error {
		t.SpawnWith(Attrs{OnReady: func(t *Task) error { ends(t.Hold()); return nil }},
			func(t *Task) error { return holding(1)(st, t) })
		return nil
	})},
	{"WaitOn", false, 0, body("b", func(st *lab, t *Task) error {
		var x int
		over := false
		t.Spawn(func(t *Task) error {
			f := t.Hold()
			xatomic.Go(func() { over = true; f(nil) })
			return nil
		}, deps.InOut(&x))
		err := t.WaitOn(deps.In(&x))
		st.Check(over, "WaitOn returns too early")
		st.holds(t)
		return err
	})},
	{"throttle, 2 preemptions", false, 3, body("b", func(st *lab, t *Task) error {
		st.rt.cfg.Window = 1
		t.unchecked = throttleEvery - 2 // the next child but one is the last before a check
		return parent(2, true)(st, t)
	})},
	{"throttle, all slots park, 1 preemption", false, 2, body("b", func(st *lab, t *Task) error {
		st.rt.cfg.Window = 1
		t.unchecked = throttleEvery - 3
		var x int
		c := make(xatomic.Chan[func(error)], 1)
		t.Spawn(func(t *Task) error { c.Send(t.Hold()); return nil }, deps.InOut(&x))
		for range 2 {
			t.Spawn(func(*Task) error { return nil }, deps.In(&x))
		}
		c.Recv()(nil) // the children wait for what the creator does after it was throttled
		return t.Wait()
	})},
	// All slots park twice, and one wakes between. The backoff timer of the first time may be
	// checking the slots meanwhile.
	{"throttle, all slots park twice, 1 preemption", false, 2, body("b", func(st *lab, t *Task) error {
		st.rt.cfg.Window = 1
		t.unchecked = throttleEvery - 5
		var x, y int
		first, second := make(xatomic.Chan[func(error)], 1), make(xatomic.Chan[func(error)], 1)
		t.Spawn(func(t *Task) error { first.Send(t.Hold()); return nil }, deps.InOut(&x))
		t.Spawn(func(t *Task) error { second.Send(t.Hold()); return nil }, deps.InOut(&y))
		xatomic.Go(func() { first.Recv()(nil) })
		t.Spawn(func(*Task) error { return nil }, deps.In(&x))
		for range 2 {
			t.Spawn(func(*Task) error { return nil }, deps.In(&y))
		}
		second.Recv()(nil) // after the creator was throttled
		return t.Wait()
	})},
	{"two slots, two children, 2 preemptions", false, 3, body("bp", func(st *lab, t *Task) error {
		for range 2 {
			t.Spawn(func(*Task) error { return nil })
		}
		return nil
	})},
	{"two slots, child and grandchild, 2 preemptions", false, 3, body("bp", func(st *lab, t *Task) error {
		t.Spawn(func(t *Task) error {
			t.Spawn(func(*Task) error { return nil })
			return nil
		})
		return t.Wait()
	})},
}

// TestExploreWaitWord: waiter and finisher agree.
func TestExploreWaitWord(t *testing.T) { exploreAll(t, waitWordPrograms) }
