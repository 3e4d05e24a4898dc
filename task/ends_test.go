// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/deps"
)

// lateRow is one test of a wait that ends long after it has begun.
type lateRow struct {
	rt       *Runtime
	cancel   context.CancelCauseFunc
	answer   func()               // ends the wait; set before it begins
	blocker  atomic.Pointer[Task] // the task in Block that others wait for
	deadline chan struct{}        // of the context, when it is closed
	sibling  chan struct{}        // lets the sibling go on
	event    chan func(error)     // of the sibling
	entered  atomic.Bool          // the wait begins
	returned atomic.Bool          // it is over
	err      error                // what it has returned
	keep     chan struct{}        // keeps a slot, so that the throttle holds; nil in other rows
	helper   *Detached            // the detached task that Join waits for
}

// A deadlineContext exceeds its deadline when done is closed.
type deadlineContext struct {
	context.Context
	done chan struct{}
}

func (c deadlineContext) Done() <-chan struct{} { return c.done }

func (c deadlineContext) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// blocks spawns a task with accs that waits in Block until answer is called.
func (l *lateRow) blocks(t *Task, accs ...deps.Access) {
	t.Spawn(func(t *Task) error { l.blocker.Store(t); return t.Block() }, accs...)
	l.answer = func() { l.blocker.Load().Unblock() }
}

// lateWaits are all kinds of waits of a task.
var lateWaits = []struct {
	name string
	wait func(l *lateRow, t *Task) error
}{
	{"Wait", func(l *lateRow, t *Task) error { l.blocks(t); return t.Wait() }},
	{"Wait for a grandchild", func(l *lateRow, t *Task) error {
		t.Spawn(func(t *Task) error { l.blocks(t); return nil })
		l.answer = func() { l.blocker.Load().Unblock() }
		return t.Wait()
	}},
	{"WaitOn", func(l *lateRow, t *Task) error {
		var x int
		l.blocks(t, deps.InOut(&x))
		return t.WaitOn(deps.In(&x))
	}},
	{"WaitOn a reduction", func(l *lateRow, t *Task) error {
		var x int
		l.blocks(t, deps.NewReduction(&x, deps.Sum[int]()).Reduce())
		return t.WaitOn(deps.In(&x))
	}},
	{"undeferred Spawn", func(l *lateRow, t *Task) error {
		var x int
		l.blocks(t, deps.InOut(&x))
		t.SpawnWith(Attrs{Undeferred: true}, nothing, deps.Commutative(&x))
		return t.run.cause()
	}},
	{"undeferred loop", func(l *lateRow, t *Task) error {
		var x int
		l.answer = func() { l.blocker.Load().Unblock() }
		t.IterateWith(IterAttrs{Attrs: Attrs{Undeferred: true}, Iterations: 2}, func(it *Iteration) error {
			it.Spawn(func(t *Task) error {
				if t.Iteration() == 0 {
					return nil
				}
				l.blocker.Store(t)
				return t.Block()
			}, deps.InOut(&x))
			return nil
		})
		return t.run.cause()
	}},
	{"Block", func(l *lateRow, t *Task) error { l.answer = t.Unblock; return t.Block() }},
	{"BlockFor", func(l *lateRow, t *Task) error {
		l.answer = t.Unblock
		unblocked, err := t.BlockFor(time.Hour)
		if err == nil && !unblocked {
			return errors.New("the hour is over")
		}
		return err
	}},
	{"Sleep", func(l *lateRow, t *Task) error { return t.Sleep(time.Hour) }},
	{"Await", func(l *lateRow, t *Task) error { return t.Await(func(done func()) { l.answer = done }) }},
	{"AwaitFor", func(l *lateRow, t *Task) error { return t.AwaitFor("it", func(done func()) { l.answer = done }) }},
	{"Context in Blocking", func(l *lateRow, t *Task) error {
		done := make(chan struct{})
		l.answer = func() { close(done) }
		t.Blocking(func() {
			select {
			case <-done:
			case <-t.Context().Done():
				until(t.run.stopped.Load) // which comes a moment later
			}
		})
		return t.run.cause()
	}},
	{"Lock", func(l *lateRow, t *Task) error {
		var m Mutex
		locked := make(chan struct{})
		t.Spawn(func(t *Task) error {
			if err := m.Lock(t); err != nil {
				return err
			}
			close(locked)
			l.blocker.Store(t)
			err := t.Block()
			m.Unlock(t)
			return err
		})
		l.answer = func() { l.blocker.Load().Unblock() }
		t.Blocking(func() { <-locked })
		return t.Critical(&m, func() error { return nil })
	}},
	{"Join", func(l *lateRow, t *Task) error {
		l.helper = l.rt.Spawn(bg, func(t *Task) error { l.blocker.Store(t); return t.Block() })
		l.answer = func() { l.blocker.Load().Unblock() }
		return l.helper.Join(t)
	}},
	{"throttle", func(l *lateRow, t *Task) error {
		var x int
		l.keep = make(chan struct{})
		kept := make(chan struct{})
		// else all slots park, and the throttle lets the creator go on
		t.Spawn(func(*Task) error { close(kept); <-l.keep; return nil })
		t.Blocking(func() { <-kept })
		l.blocks(t, deps.InOut(&x))
		for range 3 * throttleEvery {
			t.Spawn(nothing, deps.InOut(&x))
		}
		return t.run.cause()
	}},
}

// lateEnds are the ends of a wait, with the error that the wait and the run have then.
var lateEnds = []struct {
	name    string
	sibling func(l *lateRow, t *Task) error
	end     func(l *lateRow)
	err     error
}{
	{"answer", nil, func(l *lateRow) { l.answer() }, nil},
	{"answer while closing", nil, func(l *lateRow) {
		go l.rt.Close()
		until(func() bool { l.rt.life.mu.Lock(); defer l.rt.life.mu.Unlock(); return l.rt.life.closed })
		l.answer()
	}, nil},
	{"cancel", nil, func(l *lateRow) { l.cancel(errCancel) }, errCancel},
	{"deadline", nil, func(l *lateRow) { close(l.deadline) }, context.DeadlineExceeded},
	{"error of a sibling", func(l *lateRow, t *Task) error {
		t.Blocking(func() { <-l.sibling })
		return errBody
	}, func(l *lateRow) { close(l.sibling) }, errBody},
	{"panic of a sibling", func(l *lateRow, t *Task) error {
		t.Blocking(func() { <-l.sibling })
		panic(errBody)
	}, func(l *lateRow) { close(l.sibling) }, errBody},
	{"error of an event", func(l *lateRow, t *Task) error { l.event <- t.Hold(); return nil },
		func(l *lateRow) { (<-l.event)(errEvent) }, errEvent},
}

// asleep reports whether the wait has begun and nothing happens any more.
func (l *lateRow) asleep() bool {
	if !l.entered.Load() {
		return false
	}
	if l.rt.atRest() {
		return true
	}
	b := l.blocker.Load()
	return l.rt.throttle.n.Load() == 1 && b != nil && b.block.Load() == blocked
}

// Every kind of wait, after 300 ms in which nothing has happened, ends by every kind of end, with
// that end's error. The run has the error, too, and the runtime can be used or closed afterwards.
func TestWaitsThatEndLate(t *testing.T) {
	skipInLintMode(t, "tasks and the test share variables that no access orders")
	watch(t)
	var all sync.WaitGroup
	for _, w := range lateWaits {
		for _, e := range lateEnds {
			if w.name == "Sleep" && e.err == nil {
				continue // nothing but the time ends it
			}
			all.Go(func() {
				what := w.name + ", " + e.name
				l := &lateRow{deadline: make(chan struct{}), sibling: make(chan struct{}), event: make(chan func(error), 1)}
				var err error
				l.rt, err = open(Config{Workers: 2, Window: throttleEvery}, tuning{})
				require.NoError(t, err)
				ctx, cancel := context.WithCancelCause(bg)
				defer cancel(nil)
				l.cancel = cancel
				if e.name == "deadline" {
					ctx = deadlineContext{bg, l.deadline}
				}
				over := make(chan error, 1)
				go func() {
					over <- l.rt.Run(ctx, func(t *Task) error {
						if e.sibling != nil {
							t.Spawn(func(t *Task) error { return e.sibling(l, t) })
						}
						t.Spawn(func(t *Task) error {
							l.entered.Store(true)
							l.err = w.wait(l, t)
							l.returned.Store(true)
							return nil
						})
						return nil
					})
				}()
				until(l.asleep)
				time.Sleep(300 * time.Millisecond)
				assert.False(t, l.returned.Load(), "%s: it has not waited", what)
				e.end(l)
				until(l.returned.Load)
				if l.keep != nil {
					close(l.keep)
				}
				err = <-over
				assert.ErrorIs(t, err, e.err, what)
				assert.ErrorIs(t, l.err, e.err, what)
				if l.helper != nil && e.err != nil {
					l.blocker.Load().Unblock()
					assert.NoError(t, l.helper.Wait(bg), what)
				}
				if e.name != "answer while closing" {
					assert.NoError(t, l.rt.Run(bg, nothing), what)
				}
				assert.NoError(t, l.rt.Close(), what)
			})
		}
	}
	all.Wait()
}
