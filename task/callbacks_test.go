// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// callbacks are the kinds of user functions that a runtime calls; each calls f here. They return
// when f is called, or is about to be called.
var callbacks = []struct {
	name   string
	start  func(rt *Runtime, f func()) (run <-chan error) // nil: no Run waits for f
	counts int                                            // runs that are under way while f runs
}{
	{"OnDone", func(rt *Runtime, f func()) <-chan error {
		gate := make(chan struct{})
		d := rt.Spawn(bg, func(t *Task) error { t.Blocking(func() { <-gate }); return nil })
		d.OnDone(func(error) { f() })
		close(gate)
		return nil
	}, 1},
	{"OnDone, where an event ends", func(rt *Runtime, f func()) <-chan error {
		ends := make(chan func(error), 1)
		d := rt.Spawn(bg, func(t *Task) error { ends <- t.Hold(); return nil })
		d.OnDone(func(error) { f() })
		go func() { (<-ends)(nil) }()
		return nil
	}, 1},
	{"Poll", func(rt *Runtime, f func()) <-chan error {
		_ = rt.Run(bg, func(*Task) error { // when it is over, a slot searches for work
			rt.Poll(func() bool { f(); return false })
			return nil
		})
		return nil
	}, 0},
	{"OnReady", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error {
			t.SpawnWith(Attrs{OnReady: func(*Task) error { f(); return nil }}, nothing)
			return nil
		})
	}, 1},
	{"Blocking", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error { t.Blocking(f); return nil })
	}, 1},
	{"Await's start", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error { return t.Await(func(done func()) { done(); f() }) })
	}, 1},
	{"a loop's record", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error { t.Iterate(2, func(*Iteration) error { f(); return nil }); return nil })
	}, 1},
	{"a loop's condition", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error {
			t.IterateWith(IterAttrs{While: func(*Task) (bool, error) { f(); return false, nil }}, func(*Iteration) error { return nil })
			return nil
		})
	}, 1},
	{"a loop's accesses", func(rt *Runtime, f func()) <-chan error {
		return running(rt, func(t *Task) error {
			t.LoopWith(LoopAttrs{Accesses: func(int, int) []deps.Access { f(); return nil }}, 0, 1, func(*Task, int, int) error { return nil })
			return nil
		})
	}, 1},
}

func running(rt *Runtime, main func(*Task) error) <-chan error {
	over := make(chan error, 1)
	go func() { over <- rt.Run(bg, main) }()
	return over
}

// A user function that a runtime calls returns before Close does, and before the Run to which it
// belongs does. None is called later.
func TestCallbacksAreOver(t *testing.T) {
	skipInLintMode(t, "the test shares variables with bodies that no access orders")
	for _, c := range callbacks {
		base := runtime.NumGoroutine()
		rt := openTest(t, Config{Workers: 2})
		in, gate := make(chan struct{}), make(chan struct{})
		var calls, inside atomic.Int32
		run := c.start(rt, func() {
			inside.Add(1)
			if calls.Add(1) == 1 {
				close(in)
				<-gate
			}
			inside.Add(-1)
		})
		<-in
		closed := make(chan int32, 1)
		go func() {
			_ = rt.Close()
			closed <- inside.Load()
		}()
		until(rt.closing)
		for range 300 {
			runtime.Gosched()
			require.Empty(t, closed, "%s: Close returns", c.name)
			require.Empty(t, run, "%s: Run returns", c.name)
		}
		rt.life.mu.Lock()
		require.Equal(t, c.counts, rt.life.runs, c.name)
		rt.life.mu.Unlock()
		close(gate)
		if run != nil {
			require.NoError(t, <-run, c.name)
		}
		require.Zero(t, <-closed, c.name)
		n := calls.Load()
		settled(t, base)
		require.Equal(t, n, calls.Load(), "%s: called after Close", c.name)
	}
}

// The report of an overdue run is written before the run is over, or never.
func TestLateReportsAreOver(t *testing.T) {
	skipInLintMode(t, "not all slots of a runtime without a run sleep there")
	for name, tell := range map[string]func(r *run){
		"failure": func(r *run) { r.overdue.reportFailure(r, errBody) },
		"holders": func(r *run) { r.overdue.reportHolders(r, errBody) },
	} {
		in, gate := make(chan struct{}), make(chan struct{})
		out := &gatedWriter{in: in, gate: gate}
		rt := newTestRuntime(t, Config{Workers: 1, Reports: out})
		clean(t, rt) // so that only events are left to wait for
		r := &run{rt: rt}
		told, over := make(chan int, 1), make(chan int, 1)
		go func() { tell(r); told <- 1 }()
		<-in
		go func() { r.overdue.stop(); over <- out.writes }()
		for range 300 {
			runtime.Gosched()
			require.Empty(t, over, "%s: the run is over while its report is written", name)
		}
		close(gate)
		<-told
		require.Equal(t, 1, <-over)
		require.True(t, r.overdue.timer == nil || !r.overdue.timer.Stop(), "%s: more is to be said", name)
		tell(r)
		require.Equal(t, 1, out.writes, "%s: it is said after the end", name)
	}
}

// A gatedWriter blocks its first Write.
type gatedWriter struct {
	in, gate chan struct{}
	writes   int
}

func (w *gatedWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 1 {
		close(w.in)
		<-w.gate
	}
	return len(p), nil
}
