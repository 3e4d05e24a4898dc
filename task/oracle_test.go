// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/event"
	"weft/internal/event/check"
	"weft/trace"
)

// recordAll makes nearly all tests of the package check their traces, too: go test ./task
// -recorded.
var recordAll = flag.Bool("recorded", false, "record the runtimes of the tests and check the events")

// recorded returns cfg with a recorder whose trace records are replayed through the legal states of
// tasks and slots. The test fails if a record is not legal.
func recorded(t testing.TB, cfg Config) Config {
	t.Helper()
	rec, err := event.New(event.Options{Ring: 1 << 17, Sinks: []event.Sink{check.Sink(check.Options{Name: where(&cfg)})}})
	require.NoError(t, err)
	cfg.Trace = (*trace.Recorder)(rec)
	t.Cleanup(func() {
		err := rec.Close()
		if !*recordAll {
			require.Zero(t, rec.Lost(), "the ring of the test is too small")
		}
		require.NoError(t, err)
	})
	return cfg
}

func where(cfg *Config) func(int, uint32) string {
	return func(_ int, spec uint32) string {
		o := (*event.Recorder)(cfg.Trace).Names().Origin(spec)
		return o.Label + " " + o.Where()
	}
}

// Random programs with nested tasks, events, waits, blocking, loops and priorities, under all
// worker counts: their trace records are legal. Half of the runs fail somewhere.
func TestRecordedHammer(t *testing.T) {
	skipInLintMode(t, "the program uses what its tasks have not declared, on purpose, and debug mode, which lint mode includes, ends the run")
	for _, workers := range []int{1, 2, 4} {
		rt := newTestRuntime(t, recorded(t, Config{Workers: workers, Window: 32}))
		for round := range 12 {
			var objects [7]int
			var body func(depth int) func(*Task) error
			body = func(depth int) func(*Task) error {
				return func(t *Task) error {
					for i := range 40 / (depth*depth*depth + 1) {
						a, b := &objects[(i*3+depth)%7], &objects[(i*5+round)%7]
						switch i % 8 {
						case 0:
							t.Spawn(body(depth+1), deps.InOut(a).Weak())
						case 1:
							t.SpawnWith(Attrs{Priority: i%3 - 1}, func(t *Task) error {
								end := t.Hold()
								go end(nil)
								return nil
							}, deps.In(a), deps.InOut(b))
						case 2:
							t.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { return nil }, deps.InOut(a))
						case 3:
							t.Spawn(func(t *Task) error {
								go t.Unblock()
								return t.Block()
							}, deps.In(b))
						case 4:
							t.SpawnWith(Attrs{Wait: true}, body(depth+2), deps.InOut(a))
						case 5:
							t.SpawnWith(Attrs{OnReady: func(t *Task) error {
								end := t.Hold()
								go end(nil)
								return nil
							}}, func(*Task) error { return nil }, deps.Commutative(b))
						case 6:
							t.Iterate(3, func(it *Iteration) error {
								it.Spawn(func(*Task) error { return nil }, deps.InOut(a))
								it.Spawn(func(t *Task) error { t.Spawn(func(*Task) error { return nil }); return nil }, deps.In(a))
								return nil
							}, deps.InOut(a))
						case 7:
							if err := t.WaitOn(deps.In(a)); err != nil {
								return err
							}
							t.Blocking(func() {})
						}
					}
					if round%2 == 1 && depth == 1 {
						return errors.New("on purpose")
					}
					return t.Wait()
				}
			}
			err := rt.Run(t.Context(), body(0))
			require.Equal(t, round%2 == 1, err != nil, "%v", err)
		}
	}
}

// Tasks that run at once where they are spawned have legal trace records, too: combinations in
// final tasks, and undeferred tasks with an OnReady that binds events or does not.
func TestRecordedAtOnce(t *testing.T) {
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, recorded(t, Config{Workers: workers}))
		for range 20 {
			var sum, x, seen, order int
			r := deps.NewReduction(&sum, deps.Sum[int]())
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
					for i := range 5 {
						t.Spawn(func(t *Task) error { *Local(t, r) += i; return nil }, r.Reduce())
					}
					t.Spawn(func(*Task) error { seen = sum; return nil }, deps.In(&sum))
					return nil
				})
				for i := range 4 {
					var end func(error)
					attrs := Attrs{Undeferred: true, OnReady: func(t *Task) error {
						if i%2 == 0 {
							end = t.Hold()
							go end(nil)
						}
						return nil
					}}
					t.SpawnWith(attrs, func(*Task) error { x++; return nil }, deps.InOut(&x))
					if x == i+1 {
						order++
					}
				}
				return t.Wait()
			}))
			require.Equal(t, 10, seen)
			require.Equal(t, 4, order)
		}
	}
}

// A recorded loop whose tasks end on goroutines without a slot has legal trace records in each
// round.
func TestRecordedLoopOffSlots(t *testing.T) {
	const rounds = 50
	for _, workers := range []int{1, 3} {
		rt := newTestRuntime(t, recorded(t, Config{Workers: workers}))
		var x, y, ran int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Iterate(rounds, func(it *Iteration) error {
				it.Spawn(func(t *Task) error {
					end := t.Hold()
					x++
					go end(nil)
					return nil
				}, deps.InOut(&x))
				it.Spawn(func(*Task) error { y += x; return nil }, deps.In(&x), deps.InOut(&y))
				it.Spawn(func(*Task) error { ran++; return nil }, deps.InOut(&y))
				return nil
			})
			return t.Wait()
		}))
		require.Equal(t, rounds, ran)
		require.Equal(t, rounds*(rounds+1)/2, y)
	}
}
