// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// Calls that could never work panic at once, say what is legal, and leave the runtime usable: Close
// returns.
func TestMisuseIsRefused(t *testing.T) {
	nothing := func(*Task) error { return nil }
	var none context.Context
	for _, c := range []struct {
		name string
		call func(rt *Runtime)
		text string
	}{
		{"nil context of Run", func(rt *Runtime) { _ = rt.Run(none, nothing) }, "Run with a nil context; use context.Background"},
		{"nil context of Spawn", func(rt *Runtime) { rt.Spawn(none, nothing) }, "Spawn with a nil context; use context.Background"},
		{"nil callback", func(rt *Runtime) { rt.Spawn(bg, nothing).OnDone(nil) }, "OnDone of a nil function"},
		{"nil poller", func(rt *Runtime) { rt.Poll(nil) }, "Poll with a nil function"},
		{"zero Runtime's Run", func(*Runtime) { _ = new(Runtime).Run(bg, nothing) }, "Run on a Runtime that New did not make"},
		{"zero Runtime's Spawn", func(*Runtime) { new(Runtime).Spawn(bg, nothing) }, "Spawn on a Runtime that New did not make"},
		{"zero Runtime's Close", func(*Runtime) { _ = new(Runtime).Close() }, "Close on a Runtime that New did not make"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := New(Config{Workers: 1})
			require.Contains(t, panicOf(func() { c.call(rt) }), c.text)
			require.NoError(t, rt.Close())
		})
	}
}

// The methods of a task refuse a nil function before they change anything.
func TestNilFunctionsOfATask(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var m Mutex
	for op, call := range map[string]func(t *Task){
		"Await":    func(t *Task) { _ = t.Await(nil) },
		"AwaitFor": func(t *Task) { _ = t.AwaitFor("nothing", nil) },
		"Blocking": func(t *Task) { t.Blocking(nil) },
		"Critical": func(t *Task) { _ = t.Critical(&m, nil) },
	} {
		var text string
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			text = panicOf(func() { call(t) })
			return t.Critical(&m, func() error { return t.Wait() })
		}), op)
		require.Contains(t, text, "task: "+op+" with a nil function")
	}
}

// A task cannot wait for the run that it belongs to, at any depth; it can wait for another run.
func TestJoinOfOwnRun(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var own, other *Detached
		known := make(chan struct{})
		var texts [2]string
		var err error
		own = rt.Spawn(bg, func(t *Task) error {
			t.Blocking(func() { <-known })
			texts[0] = panicOf(func() { _ = own.Join(t) })
			t.Spawn(func(t *Task) error {
				texts[1] = panicOf(func() { _ = own.Join(t) })
				err = other.Join(t)
				return nil
			})
			return nil
		})
		other = rt.Spawn(bg, func(*Task) error { return nil })
		close(known)
		require.NoError(t, own.Wait(bg))
		require.NoError(t, err)
		for _, s := range texts {
			require.Contains(t, s, "the detached task that it belongs to")
		}
	}
}

// A task whose body the runtime has wrapped has the name of the user's function.
func TestErrorsNameTheUsersLines(t *testing.T) {
	nothing := func(*Task) error { return nil }
	for _, traced := range []bool{false, true} {
		rt := newTestRuntime(t, Config{Workers: 1, TraceSpawns: traced})
		for name, body := range map[string]func(t *Task){
			"error of a recording": func(t *Task) {
				t.Iterate(2, func(*Iteration) error { return context.DeadlineExceeded })
			},
			"panic of a recording": func(t *Task) {
				t.IterateWith(IterAttrs{Iterations: 2}, func(it *Iteration) error { it.Spawn(nil); return nil })
			},
			"panic of the loop's task": func(t *Task) {
				t.Iterate(2, func(it *Iteration) error { t.Spawn(nothing); return nil })
			},
			"chunk of a loop": func(t *Task) {
				t.Loop(0, 100, func(*Task, int, int) error { return context.DeadlineExceeded })
			},
			"condition": func(t *Task) {
				t.IterateWith(IterAttrs{While: func(*Task) (bool, error) { return false, context.DeadlineExceeded }}, func(*Iteration) error { return nil })
			},
		} {
			err := rt.Run(bg, func(t *Task) error { body(t); return t.Wait() })
			var e *Error
			require.ErrorAs(t, err, &e, name)
			require.Contains(t, e.Site, "misuse_test.go", "%s, traced: %v", name, traced)
		}
	}
}
