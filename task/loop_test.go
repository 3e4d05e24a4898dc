// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// span is a chunk as a body saw it.
type span struct{ lo, hi int }

// spans collects the chunks of a loop.
type spans struct {
	mu   sync.Mutex
	list []span
}

func (s *spans) body(t *Task, lo, hi int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, span{lo, hi})
	return nil
}

// LOOP-01: each iteration is in one chunk, for every size and grain, in a tree and in a row. All
// chunks but the last have the grain's size.
func TestLOOP01_LoopCoversAll(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 8})
		for _, n := range []int{0, 1, 2, 3, 7, 16, 17, 64, 100, 1000, 1025} {
			if underRace && n > 100 {
				continue
			}
			for _, grain := range []int{0, 1, 2, 3, 16, 63, 1000, 5000, math.MaxInt} {
				for _, lo := range []int{0, -5, 1 << 40, math.MinInt, math.MaxInt - n} {
					for _, linear := range []bool{false, true} {
						for i, a := range []Attrs{{}, {Priority: 1}, {Undeferred: true}, {Final: true, Wait: true}} {
							if i > 0 && n%16 == 0 {
								continue // fewer cases, to save time
							}
							var s spans
							l := LoopAttrs{Attrs: a, Grain: grain}
							x := 0
							asked := 0
							if linear {
								l.Accesses = func(lo, hi int) []deps.Access { asked++; return []deps.Access{deps.In(&x)} }
							}
							require.NoError(t, rt.Run(bg, func(t *Task) error {
								t.LoopWith(l, lo, lo+n, s.body)
								t.LoopWith(l, lo, lo, s.body) // nothing
								err := t.Wait()
								if a.Undeferred && !slices.IsSortedFunc(s.list, func(a, b span) int { return a.lo - b.lo }) {
									err = errors.New("undeferred chunks out of order")
								}
								return err
							}))
							slices.SortFunc(s.list, func(a, b span) int { return (a.lo - lo) - (b.lo - lo) })
							size := grain
							if size == 0 {
								size = (n + 4*workers - 1) / (4 * workers)
							}
							at := 0
							for i, c := range s.list {
								require.Equal(t, lo+at, c.lo)
								got := c.hi - c.lo
								require.Positive(t, got)
								if i < len(s.list)-1 {
									require.Equal(t, size, got)
								} else {
									require.LessOrEqual(t, got, size)
								}
								at += got
							}
							require.Equal(t, n, at)
							if linear {
								require.Equal(t, len(s.list), asked)
							}
						}
					}
				}
			}
		}
	}
}

// All of int can be the bounds.
func TestLoopOverAllInts(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var s spans
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.LoopWith(LoopAttrs{Grain: math.MaxInt / 20}, math.MinInt, math.MaxInt, s.body)
		return nil
	}))
	slices.SortFunc(s.list, func(a, b span) int { return a.lo/2 - b.lo/2 })
	require.Len(t, s.list, 41)
	for i, c := range s.list {
		require.Less(t, c.lo, c.hi)
		if i > 0 {
			require.Equal(t, s.list[i-1].hi, c.lo)
		}
	}
	require.Equal(t, math.MinInt, s.list[0].lo)
	require.Equal(t, math.MaxInt, s.list[40].hi)
}

// LOOP-02: loops with accesses by chunk, several over the same data; each value sees the loops in
// their order.
func TestLOOP02_LoopWithAccesses(t *testing.T) {
	const n, grain = 200, 7
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 4})
		for range 10 {
			var y, x [n]int
			key := func(i int) *int { return &y[i/grain*grain] } // a block by its first element
			done := 0
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.LoopWith(LoopAttrs{Grain: grain, Accesses: func(lo, hi int) []deps.Access {
					return []deps.Access{deps.Out(key(lo))}
				}}, 0, n, func(t *Task, lo, hi int) error {
					for i := lo; i < hi; i++ {
						y[i], x[i] = i, 1
					}
					return nil
				})
				for round := range 5 {
					buf := make([]deps.Access, 0, 1) // one list for all chunks
					t.LoopWith(LoopAttrs{Grain: grain, Accesses: func(lo, hi int) []deps.Access {
						return append(buf[:0], deps.InOut(key(lo)))
					}}, 0, n, func(t *Task, lo, hi int) error {
						for i := lo; i < hi; i++ {
							y[i] = 3*y[i] + round*x[i]
						}
						return nil
					}, deps.In(&done))
				}
				t.Spawn(func(*Task) error { done++; return nil }, deps.InOut(&done))
				return nil
			}))
			require.Equal(t, 1, done)
			for i := range n {
				want := i
				for round := range 5 {
					want = 3*want + round
				}
				require.Equal(t, want, y[i])
			}
		}
	}
}

// LOOP-03: nested loops under weak accesses of the outer chunks.
func TestLOOP03_LoopNested(t *testing.T) {
	const n = 24
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 10 {
			var m [n][n]int
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for round := range 4 {
					t.LoopWith(LoopAttrs{Grain: 5, Accesses: func(lo, hi int) (l []deps.Access) {
						for i := lo; i < hi; i++ {
							for j := range n {
								l = append(l, deps.InOut(&m[i][j]).Weak())
							}
						}
						return l
					}}, 0, n, func(t *Task, lo, hi int) error {
						for i := lo; i < hi; i++ {
							t.LoopWith(LoopAttrs{Grain: 3, Accesses: func(lo, hi int) (l []deps.Access) {
								for j := lo; j < hi; j++ {
									l = append(l, deps.InOut(&m[i][j]))
								}
								return l
							}}, 0, n, func(_ *Task, lo, hi int) error {
								for j := lo; j < hi; j++ {
									m[i][j] = 2*m[i][j] + round + i*j
								}
								return nil
							})
						}
						return nil
					})
				}
				return nil
			}))
			for i := range n {
				for j := range n {
					want := 0
					for round := range 4 {
						want = 2*want + round + i*j
					}
					require.Equal(t, want, m[i][j])
				}
			}
		}
	}
}

// LOOP-06: the attribute Wait, and a loop in each of many tasks: successors see all chunks.
func TestLOOP06_LoopInTasksWithWait(t *testing.T) {
	outer, inner := 300, 300
	if underRace || testing.Short() {
		outer, inner = 40, 100
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var n notes
		var count atomic.Int64
		x := 0
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range outer {
				t.SpawnWith(Attrs{Wait: true}, func(t *Task) error {
					n.check(count.Load() == int64(i*inner), "%d iterations before task %d", count.Load(), i)
					t.LoopWith(LoopAttrs{Grain: 1 + i%9}, 0, inner, func(t *Task, lo, hi int) error {
						count.Add(int64(hi - lo))
						return nil
					})
					return nil
				}, deps.InOut(&x))
			}
			return nil
		}))
		n.require(t)
		require.EqualValues(t, outer*inner, count.Load())
	}
}

// A chunk may wait for its own children: it waits for no other chunk.
func TestLoopChunksAreTasksOfTheirOwn(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const n = 200
		var last atomic.Bool
		var over atomic.Int32
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.LoopWith(LoopAttrs{Grain: 1}, 0, n, func(t *Task, lo, hi int) error {
				child := false
				t.Spawn(func(*Task) error { child = true; return nil })
				if err := t.Wait(); err != nil || !child {
					return errors.New("Wait in a chunk")
				}
				if over.Add(1) == n {
					last.Store(true)
					return nil
				}
				// All other chunks have to come here too: no chunk waits for a chunk that waits.
				t.Blocking(func() { until(last.Load) })
				return nil
			})
			return nil
		}))
		require.EqualValues(t, n, over.Load())
	}
}

// A loop of millions of chunks keeps few of them alive, in a row and in a tree.
func TestLoopIsThrottled(t *testing.T) {
	n := 300_000
	if underRace || testing.Short() {
		n = 30_000
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 128})
		for _, a := range []LoopAttrs{{Grain: 1}, {Grain: 1, Attrs: Attrs{Priority: 1}},
			{Grain: 1, Accesses: func(lo, hi int) []deps.Access { return nil }}} {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var count atomic.Int64
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.LoopWith(a, 0, n, func(t *Task, lo, hi int) error { count.Add(1); return nil })
				return nil
			}))
			runtime.GC()
			runtime.ReadMemStats(&after)
			require.EqualValues(t, n, count.Load())
			if !underRace {
				// Live tasks stay on the free lists: their memory shows how many there were.
				require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(2<<20))
			}
		}
	}
}

// Errors, panics and the end of the run: later chunks do not run, the error names the loop's body
// and label.
func TestLoopErrors(t *testing.T) {
	for _, workers := range []int{1, 2} {
		for _, trace := range []bool{false, true} {
			rt := newTestRuntime(t, Config{Workers: workers, TraceSpawns: trace})
			for _, linear := range []bool{false, true} {
				for _, how := range []string{"error", "panic", "cancel", "goexit"} {
					ctx, cancel := context.WithCancelCause(bg)
					x := 0
					a := LoopAttrs{Attrs: Attrs{Label: "chunk"}, Grain: 1}
					if linear {
						a.Accesses = func(lo, hi int) []deps.Access { return []deps.Access{deps.InOut(&x)} }
					}
					var ran atomic.Int32
					err := rt.Run(ctx, func(t *Task) error {
						t.LoopWith(a, 0, 1_000_000_000, func(t *Task, lo, hi int) error {
							if ran.Add(1) < 100 {
								return nil
							}
							switch how {
							case "error":
								return errBody
							case "panic":
								panic(errBody)
							case "goexit":
								runtime.Goexit()
							}
							cancel(errCancel)
							return nil
						})
						return t.Wait()
					})
					cancel(nil)
					if how == "cancel" {
						require.Equal(t, errCancel, err)
						continue
					}
					require.ErrorIs(t, err, map[string]error{"error": errBody, "panic": errBody, "goexit": errGoexit}[how])
					var e *Error
					require.ErrorAs(t, err, &e)
					require.Equal(t, "chunk", e.Label)
					require.Contains(t, e.Site, "loop_test.go:")
					require.Less(t, ran.Load(), int32(10_000_000)) // of a thousand million
				}
			}
		}
	}
}

// OnReady, events and critical sections in chunks.
func TestLoopWithOnReadyAndEvents(t *testing.T) {
	for _, workers := range []int{1, 2} {
		rt := newTestRuntime(t, Config{Workers: workers})
		f := newFulfiller(3)
		var ready, ran, ended atomic.Int32
		sum := 0
		var m Mutex
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.LoopWith(LoopAttrs{Grain: 2, Attrs: Attrs{Cost: 2, OnReady: func(t *Task) error {
				if t.Cost() != 2 {
					return errors.New("cost")
				}
				ready.Add(1)
				f.c <- t.Hold()
				return nil
			}}}, 0, 100, func(t *Task, lo, hi int) error {
				ran.Add(1)
				end := t.Hold()
				f.c <- func(err error) { ended.Add(1); end(err) }
				return t.Critical(&m, func() error { sum += hi - lo; return nil })
			})
			err := t.Wait()
			if ended.Load() != 50 {
				err = fmt.Errorf("Wait returned after %d of 50 events", ended.Load())
			}
			return err
		}))
		f.close()
		require.EqualValues(t, 50, ready.Load())
		require.EqualValues(t, 50, ran.Load())
		require.Equal(t, 100, sum)
	}
}

// Misuse panics with texts that name it.
func TestLoopMisuse(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 1})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		body := func(*Task, int, int) error { return nil }
		for _, c := range []struct {
			f    func()
			part string
		}{
			{func() { t.Loop(0, 1, nil) }, "the body is nil"},
			{func() { t.LoopWith(LoopAttrs{Grain: -2}, 0, 1, body) }, "Grain is -2; legal are 1 and more"},
			{func() { t.Blocking(func() { t.Loop(0, 1, body) }) }, "Loop on"},
		} {
			if text := panicOf(c.f); !contains(text, "task: ", c.part) {
				return fmt.Errorf("%q: %q", c.part, text)
			}
		}
		t.Loop(3, 3, body)
		t.Loop(3, -3, body)
		if t.spawned != 0 {
			return errors.New("an empty loop spawns")
		}
		return nil
	}))
}
