// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Rows ADD of docs/conformance.md: what the originals' tests leave out.

// ADD-02: many creators at the same time, each in its own domain, all on the same objects by
// weak accesses; the domains follow one another, object by object.
func TestADD02_ManyCreators(t *testing.T) {
	creators, objects, each := 64, 7, 40
	if underRace {
		creators, each = 24, 12
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 16})
		got := make([][]int, objects)
		want := make([][]int, objects)
		key := make([]int, objects)
		var started atomic.Int32
		second := make(chan struct{})
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for c := range creators {
				rng := rand.New(rand.NewPCG(2, uint64(c)))
				var accs []deps.Access
				var uses []int
				for o := range objects {
					if rng.IntN(3) > 0 {
						accs = append(accs, deps.InOut(&key[o]).Weak())
						uses = append(uses, o)
					}
				}
				plan := make([]int, each)
				for i := range plan {
					if len(uses) == 0 {
						plan = nil
						break
					}
					plan[i] = uses[rng.IntN(len(uses))]
					want[plan[i]] = append(want[plan[i]], c*1000+i)
				}
				t.Spawn(func(t *Task) error {
					// The first creator goes on when the second is there too, so that creators
					// overlap.
					switch started.Add(1) {
					case 1:
						t.Blocking(func() { <-second })
					case 2:
						close(second)
					}
					for i, o := range plan {
						t.Spawn(func(*Task) error { got[o] = append(got[o], c*1000+i); return nil }, deps.InOut(&key[o]))
						if i%8 == 0 {
							t.Blocking(runtime.Gosched) // others create meanwhile, on one slot too
						}
					}
					return nil
				}, accs...)
			}
			return nil
		}))
		require.Equal(t, want, got)
	}
}

// ADD-03: lists far beyond 256 accesses, strong, weak and doubled. Each access delays the tasks
// that need its object and no others.
func TestADD03_LongLists(t *testing.T) {
	const n = 2000
	for _, workers := range []int{1, 2} {
		rt, err := open(Config{Workers: workers}, tuning{})
		require.NoError(t, err)
		s := newHarness(t, rt, gateAwait)
		var all []string
		for i := range n {
			all = append(all, fmt.Sprint(i))
		}
		list := strings.Join(all, ",")
		s.run(func() {
			for _, l := range []struct{ step, run string }{
				{"spawn A inout(" + list + ")", "A"},
				{"spawn B in(" + list + ")", "A"},
				{"spawn C weakinout(" + list + ")", "A C"},
				{"spawn D in(" + list + ") inout(0) in(" + list + ")", "A C"},
				{"spawn E in(1999)", "A C"},
				{"release A inout(5,700,1999)", "A C"},
				{"end A", "B C"},
				{"end B", "C"},
				{"spawn C.1 inout(1999)", "C C.1"},
				{"release C weakinout(0)", "C C.1"},
				{"end C", "C.1"},
				{"end C.1", "D E"},
			} {
				s.step(strings.Fields(l.step))
				require.Equal(t, strings.Fields(l.run), slices.Sorted(slices.Values(s.states())), "%.40s", l.step)
			}
		})
		require.NoError(t, rt.Close())
	}
}

// ADD-04: a panic ends the run with its value, its stack and the task's name, wherever it happens;
// later tasks are skipped.
func TestADD04_PanicInTask(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		boom := func(*Task) error { panic(errBody) }
		label := Attrs{Label: "boom"}
		for name, spawn := range map[string]func(t *Task, x *int){
			"body":       func(t *Task, x *int) { t.SpawnWith(label, boom, deps.InOut(x)) },
			"undeferred": func(t *Task, x *int) { t.SpawnWith(Attrs{Label: "boom", Undeferred: true}, boom, deps.InOut(x)) },
			"included": func(t *Task, x *int) {
				t.SpawnWith(Attrs{Final: true}, func(t *Task) error { t.SpawnWith(label, boom, deps.InOut(x)); return nil }, deps.InOut(x).Weak())
			},
			"on ready": func(t *Task, x *int) {
				t.SpawnWith(Attrs{Label: "boom", OnReady: boom}, func(*Task) error { return nil }, deps.InOut(x))
			},
			"chunk": func(t *Task, x *int) {
				t.LoopWith(LoopAttrs{Attrs: label, Grain: 1}, 0, 3, func(*Task, int, int) error { panic(errBody) }, deps.InOut(x))
			},
			"chunk of a tree": func(t *Task, x *int) {
				t.LoopWith(LoopAttrs{Attrs: label, Grain: 1}, 0, 90, func(*Task, int, int) error { panic(errBody) })
			},
			"Blocking": func(t *Task, x *int) {
				t.SpawnWith(label, func(t *Task) error { t.Blocking(func() { panic(errBody) }); return nil }, deps.InOut(x))
			},
			"Await": func(t *Task, x *int) {
				t.SpawnWith(label, func(t *Task) error { return t.Await(func(func()) { panic(errBody) }) }, deps.InOut(x))
			},
			"a critical section": func(t *Task, x *int) {
				t.SpawnWith(label, func(t *Task) error { return t.Critical(new(Mutex), func() error { panic(errBody) }) }, deps.InOut(x))
			},
			"Wait's stack": func(t *Task, x *int) {
				t.SpawnWith(Attrs{Label: "outer"}, func(t *Task) error { t.SpawnWith(label, boom); return t.Wait() }, deps.InOut(x))
			},
		} {
			x, ran := 0, false
			err := rt.Run(bg, func(t *Task) error {
				spawn(t, &x)
				t.Wait()
				t.Spawn(func(*Task) error { ran = true; return nil }, deps.In(&x))
				return nil
			})
			var e *Error
			require.ErrorAs(t, err, &e, name)
			require.ErrorIs(t, err, errBody, name)
			require.Equal(t, "boom", e.Label, name)
			require.Equal(t, errBody, e.Panic, name)
			require.Contains(t, string(e.Stack), "TestADD04_PanicInTask", name)
			require.Contains(t, err.Error(), "conform_add_test.go:", name)
			require.False(t, ran, name)
		}
		d := rt.SpawnWith(bg, label, boom)
		require.ErrorIs(t, d.Wait(bg), errBody)
	}
}

// ADD-08: WaitOn waits for the release of its objects and for nothing else, step by step.
func TestADD08_WaitOnSteps(t *testing.T) {
	play(t, `
		spawn A out(x)              | A
		spawn B inout(y)            | A B
		spawn A.1 inout(z)          | A B A.1
		spawn C in(x)               | A B A.1
		waiton main in(x)           | main? A B A.1
		release A out(x)            | A B A.1 C
		waiton main inout(x)        | main? A B A.1 C
		end C                       | A B A.1
		waiton main                 | A B A.1
		waiton main inout(y) in(x)  | main? A B A.1
		hold B                      | main? A B A.1
		end B                       | main? A A.1
		event B                     | A A.1
		spawn+wait D out(x)         | A A.1 D
		spawn D.1                   | A A.1 D D.1
		waiton main in(x)           | main? A A.1 D D.1
		end D                       | main? A A.1 D.1
		end D.1                     | A A.1
	`)
}

// ADD-09: a parent with many more than 64 objects, of which children use many more than 64. Each of
// these is released when its child is over; the others are released at the end of the parent's
// body.
func TestADD09_ManySymbols(t *testing.T) {
	const n = 200
	for _, workers := range []int{1, 2} {
		rt, err := open(Config{Workers: workers}, tuning{})
		require.NoError(t, err)
		s := newHarness(t, rt, gateBlocking)
		s.run(func() {
			var all []string
			for i := range n {
				all = append(all, fmt.Sprint(i))
			}
			s.step([]string{"spawn", "P", "inout(" + strings.Join(all, ",") + ")"})
			want := map[string]bool{"P": true}
			check := func() {
				t.Helper()
				got := s.states()
				require.Len(t, got, len(want))
				for _, name := range got {
					require.True(t, want[name], name)
				}
			}
			for i := range n {
				if i%2 == 0 {
					s.step([]string{"spawn", fmt.Sprint("P.", i), fmt.Sprintf("inout(%d)", i)})
					want[fmt.Sprint("P.", i)] = true
				}
				s.step([]string{"spawn", fmt.Sprint("S", i), fmt.Sprintf("in(%d)", i)})
			}
			check()
			s.step([]string{"end", "P"})
			delete(want, "P")
			for i := 1; i < n; i += 2 {
				want[fmt.Sprint("S", i)] = true
			}
			check()
			for _, k := range rand.New(rand.NewPCG(9, 9)).Perm(n / 2) {
				s.step([]string{"end", fmt.Sprint("P.", 2*k)})
				delete(want, fmt.Sprint("P.", 2*k))
				want[fmt.Sprint("S", 2*k)] = true
				check()
			}
		})
		require.NoError(t, rt.Close())
	}
}

// ADD-11: a runtime is closed while its tasks are blocked in every way. Close waits. When the run
// is cancelled all tasks go on, and nothing is left.
func TestADD11_CloseWithBlockedTasks(t *testing.T) {
	watch(t)
	for _, workers := range []int{1, 2, 4} {
		base := runtime.NumGoroutine()
		rt := openTest(t, Config{Workers: workers})
		ctx, cancel := context.WithCancelCause(bg)
		var m Mutex
		var in, woken, ran atomic.Int32
		const each = 20
		waits := []func(t *Task) error{
			func(t *Task) error { return t.Block() },
			func(t *Task) error { return t.Await(func(func()) {}) },
			func(t *Task) error { return t.Sleep(time.Hour) },
			func(t *Task) error { _, err := t.BlockFor(time.Hour); return err },
			func(t *Task) error { return m.Lock(t) },
			func(t *Task) error { t.Spawn(func(t *Task) error { return t.Block() }); return t.Wait() },
			func(t *Task) error { t.Blocking(func() { <-t.Context().Done() }); return t.Context().Err() },
		}
		closed := make(chan error, 1)
		done := make(chan error, 1)
		go func() {
			done <- rt.Run(ctx, func(t *Task) error {
				if err := m.Lock(t); err != nil {
					return err
				}
				defer m.Unlock(t)
				x := 0
				for range each {
					for _, wait := range waits {
						t.Spawn(func(t *Task) error {
							in.Add(1)
							if wait(t) == nil {
								return errors.New("the wait has no error")
							}
							woken.Add(1)
							return nil
						}, deps.Concurrent(&x))
					}
				}
				t.Spawn(func(*Task) error { ran.Add(1); return nil }, deps.InOut(&x))
				t.Block()
				return nil
			})
		}()
		until(func() bool { return rt.atRest() && in.Load() == int32(each*len(waits)) })
		go func() { closed <- rt.Close() }()
		until(func() bool { rt.life.mu.Lock(); defer rt.life.mu.Unlock(); return rt.life.closed })
		select {
		case <-closed:
			t.Fatal("Close did not wait")
		default:
		}
		require.Zero(t, woken.Load())
		cancel(errCancel)
		require.Equal(t, errCancel, <-done)
		require.NoError(t, <-closed)
		require.EqualValues(t, each*len(waits), woken.Load())
		require.Zero(t, ran.Load(), "a task ran that was to be skipped")
		settled(t, base)
	}
}
