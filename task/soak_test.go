// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/race"
	"weft/internal/soak"
	"weft/task/internal/pool"
)

// One runtime runs the same program again and again: many creators, whose children all wait for one
// gate.
func TestSoakRuns(t *testing.T) {
	watchLong(t)
	creators, children := 32, soak.Long(700, 4000)
	rt := New(Config{Workers: 2})
	defer rt.Close()
	var l soak.Series
	for range soak.Long(16, 100) {
		var gate, out int
		require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
			started := make(chan struct{}, creators)
			open := t.opener(&gate)
			for range creators {
				t.Spawn(func(t *Task) error {
					for range children {
						t.Spawn(func(*Task) error { return nil }, deps.In(&gate), deps.Concurrent(&out))
					}
					started <- struct{}{}
					return nil
				}, deps.In(&gate).Weak(), deps.Concurrent(&out).Weak())
			}
			t.Blocking(func() {
				for range creators {
					<-started
				}
			})
			open(nil)
			return nil
		}))
		l = append(l, soak.Take())
	}
	require.Empty(t, l.Growth())
}

// opener spawns a task that keeps gate until open is called.
func (t *Task) opener(gate *int) (open func(error)) {
	made := make(chan func(error), 1)
	t.Spawn(func(t *Task) error { made <- t.Hold(); return nil }, deps.Out(gate))
	t.Blocking(func() { open = <-made })
	return open
}

// A main task that never waits spawns tasks for ever, each with its own objects, and of different
// kinds.
func TestSoakSpawns(t *testing.T) {
	watchLong(t)
	tasks := soak.Long(30_000, 1_000_000)
	// batch is how many tasks are live at once. A quarter of them blocks. Their idle goroutines
	// stay for two seconds, and must be fewer than the growth that a series allows.
	const batch = 32
	for _, cfg := range []Config{{}, {Window: 1 << 16}, {Window: -1}} {
		cfg.Workers = 2
		rt := New(cfg)
		var l soak.Series
		require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
			// the throttle counts neither tasks that wait for events nor tasks that block
			var done sync.WaitGroup
			for i := range tasks {
				if i%batch == 0 {
					t.Blocking(done.Wait)
					if i/batch%(tasks/batch/16) == 0 {
						l = append(l, soak.Take())
					}
				}
				x := make([]byte, 1<<10)
				done.Add(1)
				switch i % 4 {
				case 0:
					t.Spawn(func(*Task) error { x[0]++; done.Done(); return nil }, deps.InOut(&x[0]), deps.InOut(&x[512]))
				case 1:
					t.Spawn(func(t *Task) error {
						end := t.Hold()
						go func() { x[0]++; end(nil); done.Done() }()
						return nil
					}, deps.InOut(&x[0]))
				case 2:
					t.Spawn(func(t *Task) error {
						go t.Unblock()
						defer done.Done()
						return t.Block()
					}, deps.InOut(&x[0]))
				case 3:
					t.Spawn(func(t *Task) error {
						t.Spawn(func(*Task) error { x[0]++; done.Done(); return nil }, deps.InOut(&x[0]))
						return nil
					}, deps.InOut(&x[0]).Weak())
				}
			}
			return nil
		}))
		require.NoError(t, rt.Close())
		require.Empty(t, l.Growth(), "Config.Window %d", cfg.Window)
	}
}

// watchLong is watch for a test that may run for minutes.
func watchLong(t *testing.T) {
	if race.Lint {
		t.Skip("a goroutine for each body takes too long for so many; what lint mode keeps is in TestNothingIsKept and TestLintKeepsNoChains")
	}
	if soak.Long(0, 1) == 0 {
		watch(t)
	}
}

// A runtime frees memory that it needs no more: tasks, queues and tables.
func TestSoakBurst(t *testing.T) {
	watchLong(t)
	const burst = 200_000
	rt := New(Config{Workers: 2, Window: -1})
	defer rt.Close()
	objects := make([]int64, burst)
	before := soak.Take()
	// What earlier tests have left in pools is freed by two or three collections; the first may
	// free nothing.
	for still := 0; still < 3; still++ {
		last := before
		if before = soak.Take(); before.Heap+1<<16 < last.Heap {
			still = -1
		}
	}
	var live uint64
	require.NoError(t, rt.Run(t.Context(), func(task *Task) error {
		var gate int
		open := task.opener(&gate)
		for i := range objects {
			task.Spawn(func(*Task) error { return nil }, deps.In(&gate), deps.InOut(&objects[i]))
		}
		live = soak.Take().Heap
		open(nil)
		return task.Wait()
	}))
	require.Greater(t, live, before.Heap+burst*320, "all live at once")
	// a slot that does not park keeps its memory
	until(func() bool { return rt.sched.Parked() == 2 })
	// The timer may fire at any time. It does not run if there is nothing to free.
	for p := &rt.pool; ; runtime.Gosched() {
		runs := false
		p.Inspect(func(_ []*chain.Node, armed bool) { runs = armed })
		if !runs {
			break
		}
		p.Check()
	}
	require.Less(t, soak.Take().Heap, before.Heap+pool.Kept*400)
}

// The memory of a chain on one object, however long, depends only on its live tasks. So it does
// where messages come late, so that nodes are left to the collector.
func TestSoakChains(t *testing.T) {
	watchLong(t)
	rounds := soak.Long(500, 30_000)
	nothing := func(*Task) error { return nil }
	for name, round := range map[string]func(t *Task, x *int){
		"weak writers": func(t *Task, x *int) {
			t.Spawn(func(*Task) error { runtime.Gosched(); return nil }, deps.In(x))
			t.Spawn(nothing, deps.InOut(x).Weak())
		},
		"weak members": func(t *Task, x *int) {
			t.Spawn(func(*Task) error { runtime.Gosched(); return nil }, deps.In(x))
			t.Spawn(nothing, deps.Concurrent(x).Weak())
			t.Spawn(nothing, deps.Concurrent(x).Weak())
		},
		"weak parents": func(t *Task, x *int) {
			for range 3 {
				t.Spawn(func(*Task) error { runtime.Gosched(); return nil }, deps.In(x))
			}
			t.Spawn(func(t *Task) error {
				t.Spawn(nothing, deps.In(x).Weak())
				t.Spawn(nothing, deps.In(x))
				return nil
			}, deps.InOut(x).Weak())
		},
		"blocked tasks": func(t *Task, x *int) {
			t.Spawn(func(t *Task) error { t.Unblock(); return t.Block() }, deps.InOut(x))
		},
	} {
		t.Run(name, func(t *testing.T) {
			rt := New(Config{Workers: 2})
			defer rt.Close()
			var l soak.Series
			require.NoError(t, rt.Run(t.Context(), func(task *Task) error {
				x := new(int)
				for range 16 {
					for range rounds {
						round(task, x)
						for task.spawned+task.count.Load() > 50 {
							task.Blocking(runtime.Gosched)
						}
					}
					l = append(l, soak.Take())
				}
				return nil
			}))
			require.Empty(t, l.Growth())
		})
	}
}

// A body that never ends, and never waits for all its children, keeps nothing of children that are
// over, whatever they were like.
func TestSoakFeatures(t *testing.T) {
	watchLong(t)
	rounds := soak.Long(40, 4000)
	for _, k := range keepers {
		t.Run(k.name, func(t *testing.T) {
			rt := New(Config{Workers: 2})
			defer rt.Close()
			var l soak.Series
			require.NoError(t, rt.Run(t.Context(), func(task *Task) error {
				for range 16 {
					for range rounds {
						x := new(things)
						k.make(task, x)
						// Few tasks are live, and the main task's table is never swept as a whole.
						for task.spawned+task.count.Load() > 8 {
							task.Blocking(runtime.Gosched)
						}
					}
					l = append(l, soak.Take())
				}
				return nil
			}))
			require.Empty(t, l.Growth())
		})
	}
}
