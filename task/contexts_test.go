// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A countedContext counts the registered functions that have been neither unregistered nor started.
type countedContext struct {
	context.Context // for Deadline
	done            chan struct{}

	mu    sync.Mutex
	err   error
	funcs map[*func()]bool
	all   int // registrations ever
}

func newCountedContext() *countedContext {
	return &countedContext{Context: bg, done: make(chan struct{}), funcs: map[*func()]bool{}}
}

func (c *countedContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all++
	if c.err != nil {
		go f()
		return func() bool { return false }
	}
	c.funcs[&f] = true
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		was := c.funcs[&f]
		delete(c.funcs, &f)
		return was
	}
}

func (c *countedContext) cancel() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = context.Canceled
	close(c.done)
	for f := range c.funcs {
		go (*f)()
	}
	clear(c.funcs)
}

func (c *countedContext) Done() <-chan struct{} { return c.done }
func (c *countedContext) Value(any) any         { return nil }
func (c *countedContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *countedContext) counts() (now, ever int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.funcs), c.all
}

// A run leaves no function registered with its context, however it ends, and registers none with a
// context that has ended. Its overdueReport has stopped, too.
func TestRunLeavesNothingInItsContext(t *testing.T) {
	skipInLintMode(t, "the test shares variables with bodies that no access orders")
	rt := newTestRuntime(t, Config{Workers: 2})
	for name, c := range map[string]struct {
		first bool // the context ends before the run begins
		main  func(t *Task, cancel func()) error
		want  error
	}{
		"ends":                 {false, func(*Task, func()) error { return nil }, nil},
		"fails":                {false, func(*Task, func()) error { return errBody }, errBody},
		"panics":               {false, func(*Task, func()) error { panic(errBody) }, errBody},
		"Goexit":               {false, func(*Task, func()) error { runtime.Goexit(); return nil }, errGoexit},
		"is cancelled":         {false, func(t *Task, cancel func()) error { cancel(); return t.Block() }, context.Canceled},
		"is cancelled, and ok": {false, func(t *Task, cancel func()) error { cancel(); until(t.run.stopped.Load); return nil }, context.Canceled},
		"was cancelled":        {true, func(*Task, func()) error { panic("a body of a run that has ended") }, context.Canceled},
	} {
		for launch, start := range map[string]func(ctx context.Context, main func(*Task) error) error{
			"Run":   rt.Run,
			"Spawn": func(ctx context.Context, main func(*Task) error) error { return rt.Spawn(ctx, main).Wait(bg) },
		} {
			ctx := newCountedContext()
			if c.first {
				ctx.cancel()
			}
			err := start(ctx, func(t *Task) error { return c.main(t, ctx.cancel) })
			require.ErrorIs(t, err, c.want, "%s: %s", launch, name)
			now, ever := ctx.counts()
			require.Zero(t, now, "%s: %s", launch, name)
			require.Equal(t, c.first, ever == 0, "%s: %s: registered %d times", launch, name, ever)
		}
	}
}

// A heldContext blocks callers of Err when it has ended.
type heldContext struct {
	context.Context
	held atomic.Bool
	in   chan struct{}
	gate chan struct{}
}

func (c *heldContext) Err() error {
	if c.held.CompareAndSwap(true, false) {
		close(c.in)
		<-c.gate
	}
	return c.Context.Err()
}

// What the end of a context has started is over before Run returns; for a detached task, before
// Close returns. Afterwards the runtime does not read the context, nor what tasks wait for.
func TestRunWaitsForWhatItsContextStarts(t *testing.T) {
	skipInLintMode(t, "the test shares variables with bodies that no access orders")
	for _, detached := range []bool{false, true} {
		for _, early := range []bool{false, true} { // the function is over before the run is
			base := runtime.NumGoroutine()
			rt := openTest(t, Config{Workers: 2})
			inner, cancel := context.WithCancel(bg)
			ctx := &heldContext{Context: inner, in: make(chan struct{}), gate: make(chan struct{})}
			var r *run
			begun := make(chan struct{})
			main := func(t *Task) error {
				r = t.run
				close(begun)
				ctx.held.Store(true)
				cancel()
				t.Blocking(func() { <-ctx.in })
				if early {
					close(ctx.gate)
					t.Blocking(func() { until(func() bool { return r.hook.v.Load()&wordDone != 0 }) })
				}
				return nil
			}
			over := make(chan error, 1)
			if detached {
				d := rt.Spawn(ctx, main)
				go func() {
					<-d.Done()
					<-begun
					over <- rt.Close()
				}()
			} else {
				go func() { over <- rt.Run(ctx, main) }()
			}
			<-begun
			if early {
				err := <-over
				require.True(t, detached && err == nil || errors.Is(err, context.Canceled), "%v", err)
			} else {
				until(func() bool { return r.hook.v.Load()&wordWaiting != 0 || len(over) > 0 })
				for range 100 {
					runtime.Gosched()
					require.Empty(t, over, "it returns while contextEnds reads the context")
				}
				require.False(t, rt.life.idle())
				close(ctx.gate)
				require.NoError(t, <-over) // the run was over before it was cancelled
				require.EqualValues(t, wordDone|wordWaiting, r.hook.v.Load())
			}
			closeTest(t, rt, base)
		}
	}
}
