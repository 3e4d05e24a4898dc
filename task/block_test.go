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
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// BLK-01: a hundred tasks block fifty times each; a foreign goroutine unblocks them.
func TestBLK01_BlockHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		c := make(chan *Task, 100)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for t := range c {
					t.Unblock()
				}
			})
		}
		total := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 100 {
				n := 0
				t.Spawn(func(t *Task) error {
					for range 50 {
						c <- t
						if err := t.Block(); err != nil {
							return err
						}
						n++
					}
					return nil
				}, deps.Out(&n))
				t.Spawn(func(*Task) error { total += n; return nil }, deps.In(&n), deps.InOut(&total))
			}
			return nil
		}))
		close(c)
		wg.Wait()
		require.Equal(t, 5000, total)
	}
}

// Tasks that unblock one another in a ring.
func TestBlockRing(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const n, rounds = 10, 100
		var ring [n]atomic.Pointer[Task]
		count := 0 // guarded by the ring itself
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range n {
				t.Spawn(func(t *Task) error {
					ring[i].Store(t)
					for r := range rounds {
						if r > 0 || i > 0 {
							if err := t.Block(); err != nil {
								return err
							}
						}
						count++
						next := &ring[(i+1)%n]
						t.Blocking(func() { until(func() bool { return next.Load() != nil }) })
						next.Load().Unblock()
					}
					return nil
				})
			}
			return nil
		}))
		require.Equal(t, n*rounds, count)
	}
}

// One early Unblock is remembered, a second is the same as one.
func TestUnblockIsRememberedOnce(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	var second atomic.Bool
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Unblock()
		t.Unblock()
		if err := t.Block(); err != nil {
			return err
		}
		go func() {
			until(func() bool { return t.block.Load() == blocked })
			second.Store(true)
			t.Unblock()
		}()
		if err := t.Block(); err != nil {
			return err
		}
		if !second.Load() {
			return errors.New("the second Block did not wait")
		}
		return nil
	}))
}

// An Unblock that comes too late, when its task is over, does not wake tasks of later runs.
func TestUnblockTooLate(t *testing.T) {
	for name, block := range map[string]func(*Task) error{
		"Block":    (*Task).Block,
		"BlockFor": func(t *Task) error { _, err := t.BlockFor(time.Hour); return err },
	} {
		t.Run(name, func(t *testing.T) { unblockTooLate(t, block) })
	}
}

func unblockTooLate(t *testing.T, block func(*Task) error) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var over []*Task // tasks of earlier runs
	for range 20 {
		var mu sync.Mutex
		var now []*Task
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 50 {
				t.Spawn(func(t *Task) error {
					mu.Lock()
					now = append(now, t)
					mu.Unlock()
					for _, o := range over {
						o.Unblock()
					}
					var meant atomic.Bool
					go func() {
						until(func() bool { return t.block.Load() == blocked })
						meant.Store(true)
						t.Unblock()
					}()
					if err := block(t); err != nil {
						return err
					}
					if !meant.Load() {
						return errors.New("woken by an Unblock of another task")
					}
					return nil
				})
			}
			return nil
		}))
		over = now
	}
}

// Cancelling, and the failure of a sibling, resume blocked tasks that no Unblock wakes.
func TestNOSV02_EndOfRunResumesBlocked(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, byError := range []bool{false, true} {
			rt := newTestRuntime(t, Config{Workers: workers})
			for range 20 {
				const n = 50
				var in, out, late atomic.Int32
				ctx, cancel := context.WithCancelCause(bg)
				err := rt.Run(ctx, func(t *Task) error {
					for range n {
						t.Spawn(func(t *Task) error {
							in.Add(1)
							if t.Block() != nil {
								out.Add(1)
							}
							if t.Block() != nil { // at once
								late.Add(1)
							}
							return nil
						})
					}
					t.Blocking(func() { until(func() bool { return in.Load() == n }) })
					if byError {
						return errBody
					}
					cancel(errCancel)
					return nil
				})
				if byError {
					require.ErrorIs(t, err, errBody)
				} else {
					require.Equal(t, errCancel, err)
				}
				require.EqualValues(t, n, out.Load())
				require.EqualValues(t, n, late.Load())
				cancel(nil)
			}
		}
	}
}

// Cancelling races with Unblock: each Block returns once.
func TestCancelRacesWithUnblockHammer(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 300 {
		ctx, cancel := context.WithCancelCause(bg)
		var wg sync.WaitGroup
		err := rt.Run(ctx, func(t *Task) error {
			for i := range 8 {
				t.Spawn(func(t *Task) error {
					wg.Go(func() {
						if i == 4 {
							cancel(errCancel)
						}
						t.Unblock()
					})
					t.Block()
					return nil
				})
			}
			return nil
		})
		wg.Wait()
		require.True(t, err == nil || err == errCancel, "%v", err)
		cancel(nil)
	}
}

// A blocked task in the middle of a stack of waits: the tasks beneath it go on when it does.
func TestBlockUnderWait(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			leaves := atomic.Int32{}
			var nest func(t *Task, depth int) error
			nest = func(t *Task, depth int) error {
				if depth == 0 {
					go t.Unblock()
					leaves.Add(1)
					return t.Block()
				}
				for range 2 {
					t.Spawn(func(t *Task) error { return nest(t, depth-1) })
				}
				if depth%2 == 0 {
					go t.Unblock()
					if err := t.Block(); err != nil {
						return err
					}
				}
				return t.Wait()
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error { return nest(t, 5) }))
			require.EqualValues(t, 32, leaves.Load())
		}
	}
}

// At most as many bodies run at one time as there are slots, however many block and resume.
func TestSlotsBoundRunningBodies(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var running, most atomic.Int32
		enter := func() {
			n := running.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			runtime.Gosched()
		}
		leave := func() { running.Add(-1) }
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for range 100 {
				t.Spawn(func(t *Task) error {
					for range 10 {
						enter()
						leave()
						go t.Unblock()
						if err := t.Block(); err != nil {
							return err
						}
						enter()
						leave()
						t.Blocking(runtime.Gosched)
					}
					return nil
				})
			}
			return nil
		}))
		require.LessOrEqual(t, most.Load(), int32(workers))
	}
}

// Blocking gives the slot away: on one slot, the function waits for another task.
func TestBlockingGivesUpTheSlot(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		c := make(chan int)
		sum := 0
		t.Spawn(func(t *Task) error {
			for i := range 10 {
				t.Blocking(func() { c <- i })
			}
			return nil
		})
		for range 10 {
			t.Blocking(func() { sum += <-c })
		}
		if sum != 45 {
			return errors.New("wrong sum")
		}
		return nil
	}))
}

// A panic in Blocking passes on, with the slot held again: the body can recover and go on.
func TestBlockingPanics(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	n := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		if text := panicOf(func() { t.Blocking(func() { panic("inside") }) }); text != "inside" {
			return errors.New("panic " + text)
		}
		return countTo(t, 10, &n)
	}))
	require.Equal(t, 10, n)
	err := rt.Run(bg, func(t *Task) error { t.Blocking(func() { panic(errBody) }); return nil })
	require.ErrorIs(t, err, errBody)
}

// Await returns when done has been called: in start, later, twice, after the task is over. The
// words of two calls of Await are independent of each other and of Block's word.
func TestAwait(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var stale []func()
		for range 50 {
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Unblock() // for the Block below, not for Await
				if err := t.Await(func(done func()) { stale = append(stale, done); done(); done() }); err != nil {
					return err
				}
				called := false
				err := t.Await(func(done func()) {
					go func() {
						for _, f := range stale {
							f()
						}
						called = true
						done()
					}()
				})
				if err == nil && !called {
					err = errors.New("a stale done ended the wait")
				}
				return errors.Join(err, t.Block())
			}))
		}
	}
}

// The end of the run ends an Await whose done never comes, and a done that comes afterwards does no
// harm.
func TestEndOfRunEndsAwait(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	for range 50 {
		ctx, cancel := context.WithCancelCause(bg)
		late := make(chan func(), 20)
		err := rt.Run(ctx, func(t *Task) error {
			for range cap(late) {
				t.Spawn(func(t *Task) error { return t.Await(func(done func()) { late <- done }) })
			}
			t.Blocking(func() { until(func() bool { return len(late) == cap(late) }) })
			cancel(errCancel)
			return nil
		})
		require.Equal(t, errCancel, err)
		for range cap(late) {
			(<-late)()
		}
	}
}
