// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/env"
)

// Rows of docs/conformance.md about tasks. Others are in the files of what they test;
// `go test -run 'TestBLK|TestEVT'` finds all.

// IF-01, step by step: an undeferred task that is ready runs at once; one that is not ready stops
// only its creator. The creator waits for its body, not for its children and events.
func TestIF01_UndeferredSteps(t *testing.T) {
	play(t, `
		undeferred A inout(x)     | main? A
		end A                     |
		spawn P                   | P
		spawn Q inout(x)          | P Q
		undeferred P.1 inout(y)   | P? Q P.1
		spawn P.1.1 inout(y)      | P? Q P.1 P.1.1
		hold P.1                  | P? Q P.1 P.1.1
		end P.1                   | P Q P.1.1
		spawn P.2 in(y)           | P Q P.1.1
		event P.1                 | P Q P.1.1
		end P.1.1                 | P Q P.2
		undeferred B in(x)        | main? P Q P.2
		end Q                     | main? P P.2 B
		end B                     | P P.2
	`)
}

// EVT-01, step by step: accesses are held until the body is over and the last of its events, and
// Wait until then too.
func TestEVT01_EventSteps(t *testing.T) {
	play(t, `
		spawn P                   | P
		spawn P.1 out(x)          | P P.1
		hold P.1                  | P P.1
		hold P.1                  | P P.1
		spawn P.2 in(x)           | P P.1
		spawn P.1.1 in(x)         | P P.1 P.1.1
		wait P                    | P? P.1 P.1.1
		event P.1                 | P? P.1 P.1.1
		end P.1                   | P? P.1.1
		event P.1                 | P? P.2 P.1.1
		end P.1.1                 | P? P.2
		hold P.2                  | P? P.2
		end P.2                   | P?
		event P.2                 | P
	`)
}

// LOOP-04: the chunks share the variables that the loop's body captures, whatever their types; each
// chunk has its own lo and hi.
func TestLOOP04_LoopCaptures(t *testing.T) {
	type data struct {
		name  string
		in    []string
		out   map[int]string
		sizes [3]int
		f     func(string) string
		err   error
	}
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		var m Mutex
		d := data{name: "loop", out: map[int]string{}, sizes: [3]int{1, 2, 3}, f: func(s string) string { return s + "!" }, err: errBody}
		for i := range 200 {
			d.in = append(d.in, fmt.Sprint(i))
		}
		spawn := func(t *Task, d data) { // d is a copy: the map and the slice are the same ones
			t.LoopWith(LoopAttrs{Grain: 7}, 0, len(d.in), func(t *Task, lo, hi int) error {
				if d.name != "loop" || d.sizes != [3]int{1, 2, 3} || d.err != errBody {
					return errors.New("a captured value has changed")
				}
				for i, s := range d.in[lo:hi] {
					if err := t.Critical(&m, func() error { d.out[lo+i] = d.f(s); return nil }); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			spawn(t, d)
			d.name, d.sizes = "another", [3]int{} // Loop has returned, and the chunks have theirs
			return nil
		}))
		require.Len(t, d.out, 200)
		require.Equal(t, "199!", d.out[199])
	}
}

// LOOP-05: n queens with a loop over the columns of each row, no Wait, final below a depth; the
// counts meet in the order of the accesses.
func TestLOOP05_Queens(t *testing.T) {
	const n = 8
	for _, workers := range []int{1, 2, 4} {
		for _, cut := range []int{0, 2, n} { // all final, some, none
			if underRace && cut == n {
				continue
			}
			rt := newTestRuntime(t, Config{Workers: workers, Window: 64})
			count := 0
			var sum atomic.Int64
			var place func(t *Task, board [n]int8, row int) error
			place = func(t *Task, board [n]int8, row int) error {
				t.LoopWith(LoopAttrs{Attrs: Attrs{Final: row >= cut}, Grain: 2}, 0, n, func(t *Task, lo, hi int) error {
					for col := lo; col < hi; col++ {
						if !safe(board[:row], col) {
							continue
						}
						if row == n-1 {
							sum.Add(1)
							continue
						}
						next := board
						next[row] = int8(col)
						if err := place(t, next, row+1); err != nil {
							return err
						}
					}
					return nil
				}, deps.Concurrent(&count))
				return nil
			}
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				if err := place(t, [n]int8{}, 0); err != nil {
					return err
				}
				t.Spawn(func(*Task) error { count = int(sum.Load()); return nil }, deps.Out(&count))
				return nil
			}))
			require.Equal(t, 92, count)
		}
	}
}

func safe(board []int8, col int) bool {
	for r, c := range board {
		if d := col - int(c); d == 0 || d == len(board)-r || -d == len(board)-r {
			return false
		}
	}
	return true
}

// COR-01: no kind of wait keeps a thread or a slot: on one slot, two thousand tasks wait in eight
// ways at the same time, and the process has as many threads as before.
func TestCOR01_WaitsKeepNoThread(t *testing.T) {
	const each = 250
	rt := newTestRuntime(t, Config{Workers: 1})
	threads := pprof.Lookup("threadcreate")
	before := 0
	ready := make([]*Task, each)
	var ends []func(error)
	var dones []func()
	gates := make([]int, each)
	var m Mutex
	var over atomic.Int32
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		gate := make(chan struct{})
		held := t.Hold()
		if err := m.Lock(t); err != nil {
			return err
		}
		before = threads.Count()
		for i := range each {
			for _, wait := range []func(t *Task) error{
				func(t *Task) error { ready[i] = t; return t.Block() },
				func(t *Task) error { return t.Await(func(done func()) { dones = append(dones, done) }) },
				func(t *Task) error { _, err := t.BlockFor(50 * time.Microsecond); return err },
				func(t *Task) error { return t.Critical(&m, func() error { return nil }) },
				func(t *Task) error { t.Blocking(func() { <-gate }); return nil },
				func(t *Task) error { // for an event of a child
					t.Spawn(func(t *Task) error { ends = append(ends, t.Hold()); return nil })
					return t.Wait()
				},
				func(t *Task) error { // for an event that another goroutine ends
					t.Spawn(func(t *Task) error { ends = append(ends, t.Hold()); return nil }, deps.InOut(&gates[i]))
					return t.WaitOn(deps.In(&gates[i]))
				},
				func(t *Task) error {
					x := 0
					t.Spawn(func(t *Task) error { ends = append(ends, t.Hold()); return nil }, deps.Out(&x))
					t.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { return nil }, deps.In(&x))
					return nil
				},
			} {
				t.Spawn(func(t *Task) error { err := wait(t); over.Add(1); return err })
			}
		}
		t.Blocking(func() {
			// the timed ones are over
			until(func() bool { return rt.atRest() && over.Load() == each })
		})
		if n := threads.Count() - before; n > 20 {
			return fmt.Errorf("%d threads more, for %d tasks that wait", n, 7*each)
		}
		if runtime.NumGoroutine() < 7*each {
			return errors.New("the tasks do not wait")
		}
		close(gate)
		m.Unlock(t)
		for _, done := range dones {
			done()
		}
		for _, end := range ends {
			end(nil)
		}
		for _, x := range ready {
			x.Unblock()
		}
		held(nil)
		return t.Wait()
	}))
	require.EqualValues(t, 8*each, over.Load())
}

// CPU-01: three phases with more, fewer and more processors, while tasks are under way. As many
// bodies run at the same time as there are slots, never more, and nothing is lost. The number of
// slots of a runtime is fixed; another number needs another runtime.
func TestCPU01_Processors(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		require.Equal(t, workers, rt.Workers())
		var n notes
		var running, ran atomic.Int32
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for _, procs := range []int{4, 1, 2} {
				runtime.GOMAXPROCS(procs)
				if err := t.Wait(); err != nil {
					return err
				}
				// As many as there are slots meet, each keeping its slot.
				var met atomic.Int32
				t.Blocking(func() { until(rt.atRest) })
				for range workers - 1 {
					t.Spawn(func(*Task) error { met.Add(1); until(func() bool { return met.Load() == int32(workers) }); return nil })
				}
				met.Add(1)
				until(func() bool { return met.Load() == int32(workers) })
				for range 200 {
					t.Spawn(func(t *Task) error {
						n.check(running.Add(1) <= int32(workers), "more bodies run than there are slots")
						runtime.Gosched()
						running.Add(-1)
						t.Blocking(runtime.Gosched)
						ran.Add(1)
						return nil
					})
				}
			}
			return nil
		}))
		n.require(t)
		require.EqualValues(t, 600, ran.Load())
	}
	for _, workers := range []int{-1, env.MaxWorkers + 1} {
		_, err := Open(Config{Workers: workers})
		require.ErrorContains(t, err, "Config.Workers")
	}
}

// NST-01, step by step: Wait waits for the children spawned so far and their descendants, and for
// no other task.
func TestNST01_WaitSteps(t *testing.T) {
	play(t, `
		spawn P                 | P
		spawn P.1               | P P.1
		spawn P.1.1             | P P.1 P.1.1
		spawn Q                 | P P.1 P.1.1 Q
		wait P                  | P? P.1 P.1.1 Q
		end P.1                 | P? P.1.1 Q
		spawn P.1.1.1           | P? P.1.1 Q P.1.1.1
		end P.1.1               | P? Q P.1.1.1
		end P.1.1.1             | P Q
		wait P                  | P Q
		spawn P.2               | P Q P.2
		wait main               | main? P Q P.2
		wait P                  | main? P? Q P.2
		end P.2                 | main? P Q
		end P Q                 |
	`)
}

// Final, step by step: what a final task spawns runs before it goes on, in order.
func TestFinalSteps(t *testing.T) {
	play(t, `
		spawn+final F inout(x)     | F
		spawn F.1 inout(x)         | F? F.1
		spawn F.1.1 inout(x)       | F? F.1? F.1.1
		end F.1.1                  | F? F.1
		end F.1                    | F
		spawn G in(x)              | F
		end F                      | G
	`)
}

// Streams are tasks with InOut of one object each: tasks in order within one, and any order between
// them.
func TestADD10_Streams(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, Config{Workers: workers})
		const streams, length = 5, 200
		var key [streams]int
		var log [streams][]int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			for i := range length {
				for s := range streams {
					t.SpawnWith(Attrs{Priority: i % 3}, func(*Task) error { log[s] = append(log[s], i); return nil }, deps.InOut(&key[s]))
				}
				if i%50 == 20 { // to synchronise with one stream
					if err := t.WaitOn(deps.InOut(&key[i%streams])); err != nil {
						return err
					}
					if len(log[i%streams]) != i+1 {
						return errors.New("the stream is not empty")
					}
				}
			}
			return nil
		}))
		for s := range streams {
			require.Len(t, log[s], length)
			require.True(t, slices.IsSorted(log[s]))
		}
	}
	// Detached tasks without accesses start in the order in which they are spawned, on one slot;
	// those with a priority before.
	rt := newTestRuntime(t, Config{Workers: 1})
	var log []int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i := range 100 {
			p := 0
			if i%10 == 9 {
				p = 1
			}
			rt.SpawnWith(bg, Attrs{Priority: p}, func(*Task) error { log = append(log, i); return nil })
		}
		t.Blocking(func() { until(rt.atRest) })
		return nil
	}))
	require.Len(t, log, 100)
	for i := range log {
		if i < 10 {
			require.Equal(t, 10*i+9, log[i])
		}
	}
	require.True(t, slices.IsSorted(log[10:]))
	// Streams do not wait for each other.
	play(t, `
		spawn A inout(s)     | A
		spawn B inout(s)     | A
		spawn C inout(r)     | A C
		spawn D inout(r)     | A C
		end C                | A D
		end D A              | B
	`)
}
