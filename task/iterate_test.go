// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// ITR-01: 100 iterations of 50 tasks give what the sequential loop gives, counted and with a
// condition, with every unrolling, whether it divides the iterations or not.
func TestITR01_PlainLoop(t *testing.T) {
	const iterations, tasks = 100, 50
	body := func(v []int64, i, k int) {
		v[k] = v[k]*3 + v[(k+7)%tasks] + v[(k+13)%tasks] + int64(i*k)
	}
	var want [tasks]int64
	for i := range iterations {
		for k := range tasks {
			body(want[:], i, k)
		}
	}
	unrolls := []int{0, 1, 2, 3, 7, 50, 99, 100, 101}
	if inLintMode() { // 300,000 bodies with a goroutine each are too many on a busy machine
		unrolls = []int{0, 7, 101}
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, form := range []string{"counted", "while", "while, bounded"} {
			for _, unroll := range unrolls {
				var v [tasks]int64
				a := IterAttrs{Unroll: unroll}
				if form != "while" {
					a.Iterations = iterations
				}
				asked := 0
				if form != "counted" {
					if max(unroll, 1) > 1 && iterations%unroll != 0 && form == "while" {
						continue // the plain loop of this form runs whole groups of iterations
					}
					a.While = func(t *Task) (bool, error) {
						asked++
						return t.Iteration() < iterations, nil
					}
				}
				err := rt.Run(bg, func(t *Task) error {
					t.IterateWith(a, func(it *Iteration) error {
						for k := range tasks {
							it.Spawn(func(t *Task) error { body(v[:], t.Iteration(), k); return nil },
								deps.InOut(&v[k]), deps.In(&v[(k+7)%tasks]), deps.In(&v[(k+13)%tasks]))
						}
						return nil
					})
					return nil
				})
				what := fmt.Sprintf("%s, unroll %d, %d workers", form, unroll, workers)
				require.NoError(t, err, what)
				require.Equal(t, want, v, what)
			}
		}
	}
}

// Number and Iteration tell which iteration it is: while it is recorded, in the task, and in its
// descendants.
func TestIterNumbers(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	var x int
	var got []string
	note := func(label string, t *Task) error {
		got = append(got, fmt.Sprint(label, t.Iteration()))
		return nil
	}
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		_ = note("main", t)
		t.IterateWith(IterAttrs{Iterations: 3, Unroll: 2}, func(it *Iteration) error {
			n := it.Number()
			it.Spawn(func(t *Task) error {
				_ = note(fmt.Sprint(n, "."), t)
				t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { return note("child", t) })
				t.Iterate(2, func(it *Iteration) error {
					it.Spawn(func(t *Task) error { return note("inner", t) })
					return nil
				})
				return t.Wait()
			}, deps.InOut(&x))
			return nil
		}, deps.InOut(&x))
		t.Spawn(func(t *Task) error { return note("after", t) }, deps.In(&x))
		return nil
	}))
	require.Equal(t, []string{
		"main-1", "0.0", "child0", "inner0", "inner1", "1.1", "child1", "inner0", "inner1",
		"0.2", "child2", "inner0", "inner1", "after-1",
	}, got)
}

// The loop is one task for its siblings: it starts after what it depends on, and they after all of
// it. Accesses count as strong.
func TestIterIsOneTaskForSiblings(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for range 50 {
			x := 1
			var seen int
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				release := t.Hold()
				t.Spawn(func(t *Task) error { end := t.Hold(); go func() { x = 5; end(nil); release(nil) }(); return nil }, deps.Out(&x))
				t.Iterate(10, func(it *Iteration) error {
					it.Spawn(func(*Task) error { x += 2; return nil }, deps.InOut(&x))
					it.Spawn(func(*Task) error { x *= 2; return nil }, deps.InOut(&x).Weak())
					return nil
				}, deps.InOut(&x).Weak())
				t.Spawn(func(*Task) error { seen = x; return nil }, deps.In(&x))
				return nil
			}))
			want := 5
			for range 10 {
				want = (want + 2) * 2
			}
			require.Equal(t, want, seen)
		}
	}
}

func TestIterNothing(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2})
	asked := 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		bad := func(*Iteration) error { panic("recorded") }
		t.Iterate(0, bad)
		t.Iterate(-3, bad)
		t.IterateWith(IterAttrs{}, bad)
		t.IterateWith(IterAttrs{Iterations: -1, While: func(*Task) (bool, error) { panic("asked") }}, bad)
		// Loops without tasks end, and their conditions are called all the same.
		t.Iterate(1<<60, func(*Iteration) error { return nil })
		t.IterateWith(IterAttrs{Unroll: 3, While: func(t *Task) (bool, error) { asked++; return asked < 10, nil }},
			func(*Iteration) error { return nil })
		return nil
	}))
	require.Equal(t, 10, asked)
}

// If a condition is false at first, no recorded task runs. A condition that stays true is stopped
// by the number of iterations.
func TestIterWhile(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for _, tt := range []struct{ iterations, unroll, until, want, asked int }{
			{0, 1, 0, 0, 1}, {0, 1, 5, 5, 6}, {0, 3, 5, 6, 3}, {7, 3, 100, 7, 3}, {7, 1, 100, 7, 7}, {6, 3, 100, 6, 2}, {2, 3, 100, 2, 1},
		} {
			var done, inside, asked atomic.Int32
			var o [4]int
			var n notes
			err := rt.Run(bg, func(t *Task) error {
				t.IterateWith(IterAttrs{Iterations: tt.iterations, Unroll: tt.unroll, While: func(t *Task) (bool, error) {
					asked.Add(1)
					n.check(inside.Load() == 0, "asked while tasks run")
					n.check(int(done.Load()) == 4*t.Iteration(), "asked in iteration %d after %d tasks", t.Iteration(), done.Load())
					n.check(t.Release(deps.In(&o[0])) != nil, "Release in a condition")
					return t.Iteration() < tt.until, nil
				}}, func(it *Iteration) error {
					for i := range o {
						it.Spawn(func(t *Task) error {
							inside.Add(1)
							if i == 0 {
								n.check(t.Release(deps.InOut(&o[0])) == nil, "Release")
							}
							end := t.Hold()
							go func() { done.Add(1); inside.Add(-1); end(nil) }()
							return nil
						}, deps.InOut(&o[i]), deps.In(&o[i/2]))
					}
					return nil
				})
				return nil
			})
			require.NoError(t, err)
			n.require(t)
			require.Equal(t, 4*tt.want, int(done.Load()), tt)
			require.Equal(t, tt.asked, int(asked.Load()), tt)
		}
	}
}

// Release lets the successors start while the body goes on: in the same iteration and in the next
// one, and for each object separately.
func TestIterRelease(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 3})
	const n = 200
	var a, b int
	var log []string
	var got [3]atomic.Int32 // iterations that reader, second reader and the early writer have done
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.Iterate(n, func(it *Iteration) error {
			it.Spawn(func(t *Task) error {
				a++
				b++
				if err := t.Release(deps.Out(&a)); err != nil {
					return err
				}
				// Ends only when a's reader is over.
				k := int32(t.Iteration())
				through := func() { until(func() bool { return got[0].Load() > k }) }
				if k%2 == 0 {
					t.Blocking(through)
				} else {
					through() // the body keeps its slot: others take the reader
				}
				if got[1].Load() > k {
					return errors.New("b was passed on with a")
				}
				return t.Release(deps.InOut(&b))
			}, deps.Out(&a), deps.InOut(&b))
			it.Spawn(func(t *Task) error {
				if a != t.Iteration()+1 {
					log = append(log, "a")
				}
				got[0].Add(1)
				return nil
			}, deps.In(&a))
			it.Spawn(func(t *Task) error {
				if b != t.Iteration()+1 {
					log = append(log, "b")
				}
				got[1].Add(1)
				return nil
			}, deps.In(&b))
			return nil
		}, deps.InOut(&a), deps.InOut(&b))
		return nil
	}))
	require.Empty(t, log)
	require.Equal(t, n, a)
}

// All attributes work in recorded tasks, in each iteration.
func TestIterAttrs(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, TraceSpawns: true})
	const n = 50
	var x int
	var ready, ran atomic.Int32
	var bad notes
	err := rt.Run(bg, func(t *Task) error {
		t.IterateWith(IterAttrs{Iterations: n, Attrs: Attrs{Label: "loop", Priority: 1, Undeferred: true}}, func(it *Iteration) error {
			it.SpawnWith(Attrs{
				Label: "task", Priority: -3, Cost: 7, Final: true, Wait: true,
				OnReady: func(t *Task) error {
					ready.Add(1)
					bad.check(t.Cost() == 7 && t.Label() == "task", "attributes in OnReady")
					if t.Iteration()%2 == 0 {
						end := t.Hold()
						go end(nil)
					}
					return nil
				},
			}, func(t *Task) error {
				ran.Add(1)
				bad.check(ready.Load() == ran.Load(), "OnReady came %d times before run %d", ready.Load(), ran.Load())
				bad.check(t.InFinal() && t.Cost() == 7 && t.Label() == "task", "attributes")
				bad.check(t.priority == -3 && strings.Contains(t.name(), "iterate_test.go"), "%s", t.name())
				was := x
				t.Spawn(func(t *Task) error { x++; bad.check(t.InFinal(), "the child is not final"); return nil }, deps.InOut(&x))
				bad.check(x == was+1, "the child of a final task did not run in place")
				return nil
			}, deps.InOut(&x))
			return nil
		}, deps.InOut(&x))
		bad.check(x == n, "an undeferred loop returned after %d iterations", x)
		return nil
	})
	require.NoError(t, err)
	bad.require(t)
	require.EqualValues(t, n, ready.Load())
}

// In a final task a loop's tasks run one after the other, in their order.
func TestIterFinal(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 4})
	var order []int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
			t.IterateWith(IterAttrs{Iterations: 5, Unroll: 2}, func(it *Iteration) error {
				for range 3 {
					it.Spawn(func(t *Task) error { order = append(order, t.Iteration()); return nil })
				}
				return nil
			})
			if len(order) != 15 {
				return fmt.Errorf("the loop returned after %d tasks", len(order))
			}
			return nil
		})
		return nil
	}))
	require.Equal(t, []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4}, order)
}

// Loops in the tasks of loops, each run of which records its own.
func TestIterNested(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const blocks, outer, inner = 6, 8, 5
		var v, want [blocks]int
		work := func(v []int, i, k, j int) { v[i] = v[i]*3 + v[(i+1)%blocks] + k*j }
		for k := range outer {
			for i := range blocks {
				for j := range inner {
					work(want[:], i, k, j)
				}
			}
		}
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Iterate(outer, func(it *Iteration) error {
				for i := range blocks {
					accs := []deps.Access{deps.InOut(&v[i]), deps.In(&v[(i+1)%blocks])}
					it.Spawn(func(t *Task) error {
						k := t.Iteration()
						t.Iterate(inner, func(it *Iteration) error {
							it.Spawn(func(t *Task) error { work(v[:], i, k, t.Iteration()); return nil }, accs...)
							return nil
						}, accs...)
						return nil
					}, accs...)
				}
				return nil
			})
			return nil
		}))
		require.Equal(t, want, v)
	}
}

// Many small loops at once, on few slots, with tasks that are often ready on two slots at a time.
func TestIterHammer(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers, Window: 4})
		rounds, loops := 40, 16
		if underRace {
			rounds = 8
		}
		for range rounds {
			v := make([][4]int, loops)
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				for l := range loops {
					o := &v[l]
					t.Iterate(60, func(it *Iteration) error {
						for i := range o {
							it.Spawn(func(t *Task) error {
								o[i]++
								if t.Iteration()%16 == i {
									end := t.Hold()
									go end(nil)
								}
								return nil
							}, deps.InOut(&o[i]), deps.In(&o[(i+1)%4]))
						}
						return nil
					}, deps.InOut(o))
				}
				return nil
			}))
			for l := range v {
				require.Equal(t, [4]int{60, 60, 60, 60}, v[l])
			}
		}
	}
}

// Ranges of memory that overlap in every way, with Release of a part.
func TestIterRanges(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		for seed := range uint64(30) {
			r := rand.New(rand.NewPCG(seed, 3))
			const cells, iterations = 40, 30
			var v, want [cells]int
			type job struct{ from, to, at, end int } // reads from:to, writes at:end
			jobs := make([]job, 1+r.IntN(12))
			for i := range jobs {
				j := &jobs[i]
				j.from, j.at = r.IntN(cells), r.IntN(cells)
				j.to, j.end = j.from+r.IntN(cells-j.from), j.at+r.IntN(cells-j.at)
			}
			work := func(v []int, j job, k int) {
				sum := k
				for _, x := range v[j.from:j.to] {
					sum = sum*3 + x
				}
				for i := j.at; i < j.end; i++ {
					v[i] += sum + i
				}
			}
			for k := range iterations {
				for _, j := range jobs {
					work(want[:], j, k)
				}
				want[7]--
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.Iterate(iterations, func(it *Iteration) error {
					for i, j := range jobs {
						writes := deps.Slice(v[j.at:j.end]).InOut()
						it.Spawn(func(t *Task) error {
							work(v[:], j, t.Iteration())
							if i%3 == 0 {
								half := (j.at + j.end) / 2
								return t.Release(deps.Slice(v[j.at:half]).Out(), deps.Slice(v[half:j.end]).InOut())
							}
							return nil
						}, deps.Slice(v[j.from:j.to]).In(), writes)
					}
					it.Spawn(func(*Task) error { v[7]--; return nil }, deps.InOut(&v[7]))
					return nil
				}, deps.Slice(v[:]).InOut())
				return nil
			}))
			require.Equal(t, want, v, "seed %d", seed)
		}
	}
}
