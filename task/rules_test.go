// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// What OmpSs-2 and its runtimes leave undefined, and weft decides: a test for each decision. Those
// about the order of accesses alone are in package deps.

// startEarly runs one task for each list of accesses to x. The first task holds its accesses until
// all others have had the chance to start. startEarly returns which started before the first ended.
func startEarly(t *testing.T, x *int, lists ...[]deps.Access) (early []int) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		over := false
		var end func(error)
		for i, l := range lists {
			if i == 0 {
				t.Spawn(func(t *Task) error { end = t.Hold(); return nil }, l...)
				continue
			}
			t.Spawn(func(*Task) error {
				if !over {
					early = append(early, i)
				}
				return nil
			}, l...)
		}
		// The slot comes here last, and after what this makes ready.
		t.SpawnWith(Attrs{Priority: -1}, func(*Task) error { over = true; end(nil); return nil })
		return nil
	}))
	return early
}

// One object twice in one task: with one mode that mode, with two modes InOut.
func TestRule_SameObjectTwice(t *testing.T) {
	x := 0
	in, out, con := deps.In(&x), deps.Out(&x), deps.Concurrent(&x)
	one := func(a ...deps.Access) []deps.Access { return a }
	for _, c := range []struct {
		first, second []deps.Access
		early         bool
	}{
		{one(in, in), one(in), true},
		{one(con, con), one(con, con, con), true},
		{one(in, con), one(in), false},
		{one(in), one(in, con), false},
		{one(con), one(con, in), false},
		{one(in, out), one(in), false},
		{one(con, out), one(con), false},
	} {
		got := startEarly(t, &x, c.first, c.second)
		require.Equal(t, c.early, len(got) == 1, "%v then %v", c.first, c.second)
	}
}

// One object weak and strong in one task: strong.
func TestRule_WeakAndStrong(t *testing.T) {
	x := 0
	w := deps.InOut(&x)
	require.Equal(t, []int{1}, startEarly(t, &x, []deps.Access{w}, []deps.Access{w.Weak()}))
	require.Empty(t, startEarly(t, &x, []deps.Access{w}, []deps.Access{w.Weak(), w}))
	require.Empty(t, startEarly(t, &x, []deps.Access{w}, []deps.Access{w, w.Weak()}))
	require.Empty(t, startEarly(t, &x, []deps.Access{w}, []deps.Access{deps.In(&x).Weak(), deps.In(&x)}))
}

// A child names an object that its parent does not: it starts at once, whatever uses the object
// outside.
func TestRule_UndeclaredByParent(t *testing.T) {
	skipInLintMode(t, "the program uses what its tasks have not declared, on purpose, and debug mode, which lint mode includes, ends the run")
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		x, ran := 0, false
		var end func(error)
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { end = t.Hold(); return nil }, deps.InOut(&x))
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
			t.Spawn(func(*Task) error { ran = true; return nil }, deps.InOut(&x))
			return t.Wait()
		})
		end(nil)
		if !ran {
			return errors.New("the child waited")
		}
		return nil
	}))
}

// After Release the object may not be named again: a child that names it is refused, and a second
// Release is an error.
func TestRule_ReleaseThenUse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		x := 0
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
			if err := t.Release(deps.InOut(&x)); err != nil {
				return err
			}
			if t.Release(deps.InOut(&x)) == nil {
				return errors.New("released twice")
			}
			for _, a := range []deps.Access{deps.In(&x), deps.InOut(&x).Weak()} {
				if panicOf(func() { t.Spawn(func(*Task) error { return nil }, a) }) == "" {
					return errors.New("a child may name what was released")
				}
			}
			return nil
		}, deps.InOut(&x))
		return nil
	}))
}

// Any goroutine may bind an event while another one is pending, also after the body; else Hold is
// refused.
func TestRule_EventAfterBody(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, before := range []bool{false, true} { // the body, or after it
			var over atomic.Int32
			x := 0
			var n notes
			first := make(chan func(error), 1)
			var subject *Task
			body := func(t *Task) error { subject = t; first <- t.Hold(); return nil }
			a := Attrs{}
			if before { // events of OnReady are events like others
				a.OnReady = body
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.SpawnWith(a, func(t *Task) error {
					if !before {
						return body(t)
					}
					n.check(over.Load() == 2, "the body starts after %d of 2 events", over.Load())
					return nil
				}, deps.InOut(&x))
				t.Spawn(func(*Task) error { n.check(over.Load() == 2, "%d of 2 events are over", over.Load()); return nil }, deps.In(&x))
				var end func(error)
				t.Blocking(func() {
					end = <-first
					until(func() bool { return subject.holds.Load() >= startHeld })
				})
				second := subject.Hold()
				over.Add(1)
				end(nil)
				over.Add(1)
				second(nil)
				return nil
			}))
			n.require(t)
			require.Contains(t, panicOf(func() { subject.Hold() }), "no pending event")
		}
	}
}

// A task fails while events are pending: they are waited for, then the run ends with the error.
func TestRule_ErrorWithPendingEvents(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			var ended, skipped atomic.Int32
			x := 0
			err := rt.Run(bg, func(t *Task) error {
				t.Spawn(func(t *Task) error {
					for range 3 {
						end := t.Hold()
						go func() {
							until(t.run.stopped.Load) // the error comes first
							ended.Add(1)
							end(errEvent) // and this one counts for nothing
						}()
					}
					return errBody
				}, deps.InOut(&x))
				t.Spawn(func(*Task) error { skipped.Add(1); return nil }, deps.In(&x))
				return nil
			})
			require.ErrorIs(t, err, errBody)
			require.NotErrorIs(t, err, errEvent)
			require.EqualValues(t, 3, ended.Load())
			require.Zero(t, skipped.Load())
		}
	}
}

// Skipped tasks release their accesses in order: a task that waits for an event is not over before
// the event has ended.
func TestRule_CancelledTasksKeepOrder(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	err := rt.Run(bg, func(t *Task) error {
		x, y := 0, 0
		var end func(error)
		ran := false
		body := func(*Task) error { ran = true; return nil }
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { end = t.Hold(); return nil }, deps.InOut(&x))
		for range 5 {
			t.Spawn(body, deps.InOut(&x))
			t.Spawn(body, deps.InOut(&y))
		}
		t.run.fail(errCancel)
		if t.WaitOn(deps.In(&y)) != errCancel {
			return errors.New("WaitOn has no error")
		}
		t.slot.flush()
		if left := t.spawned + t.count.Load(); left != 6 {
			return fmt.Errorf("%d children that wait for an event are left", left)
		}
		end(nil)
		if t.Wait() != errCancel || ran {
			return errors.New("a body ran")
		}
		return nil
	})
	require.Equal(t, errCancel, err)
}

// A priority belongs to one task: neither its predecessors nor its children get it.
func TestRule_PriorityIsNotInherited(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var log []string
	put := func(s string) func(*Task) error { return func(*Task) error { log = append(log, s); return nil } }
	x := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Spawn(put("predecessor"), deps.InOut(&x))
		t.SpawnWith(Attrs{Priority: 9}, func(t *Task) error {
			log = append(log, "nine")
			t.Spawn(put("child"))
			return nil
		}, deps.InOut(&x))
		t.SpawnWith(Attrs{Priority: 1}, put("one"))
		t.SpawnWith(Attrs{Priority: 1}, put("one"))
		return nil
	}))
	require.Equal(t, []string{"one", "one", "predecessor", "nine", "child"}, log)
}

// WaitOn waits for the release of the object, not for the end of the tasks that used it.
func TestRule_WaitOnIsForRelease(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, early := range []bool{false, true} {
			// Release in the body, or its end with children left
			gate := make(chan struct{})
			over := false
			var n notes
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				x, y, z := 0, 0, 0
				t.Spawn(func(t *Task) error {
					x = 1
					if early {
						if err := t.Release(deps.Out(&x)); err != nil {
							return err
						}
						t.Blocking(func() { <-gate })
						over = true
						return nil
					}
					t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); over = true; return nil }, deps.InOut(&y))
					return nil
				}, deps.Out(&x), deps.InOut(&y))
				// has nothing to do with it
				t.Spawn(func(t *Task) error { t.Blocking(func() { <-gate }); return nil }, deps.Out(&z))
				err := t.WaitOn(deps.In(&x))
				n.check(x == 1, "x is not written")
				close(gate)
				return errors.Join(err, t.WaitOn(deps.InOut(&y)), func() error { n.check(over, "the second WaitOn is early"); return nil }())
			}))
			n.require(t)
		}
	}
}

// A goroutine that is not the body of the task may not add to its domain.
func TestRule_ForeignCreation(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		nothing := func(*Task) error { return nil }
		calls := map[string]func(*Task){
			"Spawn":     func(t *Task) { t.Spawn(nothing) },
			"SpawnWith": func(t *Task) { t.SpawnWith(Attrs{Undeferred: true}, nothing) },
			"Loop":      func(t *Task) { t.Loop(0, 9, func(*Task, int, int) error { return nil }) },
			"LoopWith":  func(t *Task) { t.LoopWith(LoopAttrs{}, 0, 9, func(*Task, int, int) error { return nil }) },
			"WaitOn":    func(t *Task) { t.WaitOn() },
		}
		var wrong []string
		for name, call := range calls {
			t.SpawnWith(Attrs{Label: "other", Undeferred: true}, func(*Task) error {
				if text := panicOf(func() { call(t) }); !contains(text, name+" on the task spawned at", "rules_test.go:", "by task other") {
					wrong = append(wrong, text)
				}
				return nil
			})
			t.Blocking(func() {
				if text := panicOf(func() { call(t) }); !contains(text, name+" on", "a goroutine that runs no task") {
					wrong = append(wrong, text)
				}
			})
		}
		slices.Sort(wrong)
		if t.spawned != int64(len(calls)) || wrong != nil {
			return fmt.Errorf("%d children, messages %q", t.spawned, wrong)
		}
		return nil
	}))
}
