//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// Two goroutines that load and then store: one addition can get lost.
func lostUpdate(r *explore.Run) {
	var x xatomic.Int32
	r.Name("x", &x)
	for i := range 2 {
		r.Go(fmt.Sprint("adder ", i), func() { x.Store(x.Load() + 1) })
	}
	r.End(func() error {
		if n := x.Load(); n != 2 {
			return fmt.Errorf("x is %d", n)
		}
		return nil
	})
}

func TestLostUpdate(t *testing.T) {
	for _, cfg := range []explore.Config{{}, {Full: true}, {Bound: 2}} {
		res := explore.Explore(cfg, lostUpdate)
		require.NotNil(t, res.Failure)
		require.Equal(t, "x is 1", res.Failure.Why)
		again, err := explore.Replay(res.Failure.Script(), lostUpdate)
		require.NoError(t, err)
		require.Equal(t, res.Failure.String(), again.String())
		require.Contains(t, again.String(), "adder 1      load    x")
		require.Contains(t, again.String(), "explore_test.go:")
	}
	// Without a preemption each goroutine runs to its end.
	res := explore.Explore(explore.Config{Bound: 1}, lostUpdate)
	require.Nil(t, res.Failure)
	require.True(t, res.Complete)
	require.Equal(t, 2, res.Runs)
}

func TestScripts(t *testing.T) {
	for _, s := range []string{"", "x", "1*", "1*0", "-1", "99", "1*2*3"} {
		_, err := explore.Replay(s, lostUpdate)
		require.ErrorContains(t, err, "script", s)
	}
	f, err := explore.Replay("0*9 1*9", lostUpdate)
	require.NoError(t, err)
	require.Nil(t, f)
}

func section(mu *xatomic.Mutex) {
	mu.Lock()
	defer mu.Unlock()
}

// The number of orders.
func TestCounts(t *testing.T) {
	independent := func(r *explore.Run) {
		var x [3]xatomic.Int32
		for i := range x {
			r.Go("", func() { x[i].Add(1); x[i].Add(1) })
		}
	}
	readers := func(r *explore.Run) {
		var x xatomic.Int32
		for range 4 {
			r.Go("", func() { x.Load() })
		}
	}
	writers := func(r *explore.Run) {
		var x xatomic.Int32
		for range 4 {
			r.Go("", func() { x.Add(1) })
		}
	}
	lockers := func(r *explore.Run) {
		var mu xatomic.Mutex
		for range 3 {
			r.Go("", func() { section(&mu) })
		}
	}
	pipe := func(r *explore.Run) {
		c := make(xatomic.Chan[int], 1)
		r.Go("", func() { c.Send(1); c.Send(2) })
		r.Go("", func() { c.Recv(); c.Recv() })
	}
	for name, c := range map[string]struct {
		setup func(*explore.Run)
		runs  int
	}{
		"independent": {independent, 1},
		"readers":     {readers, 1},
		"writers":     {writers, 24},
		"lockers":     {lockers, 6},
		"pipe":        {pipe, 1},
	} {
		res := explore.Explore(explore.Config{}, c.setup)
		require.Nil(t, res.Failure, name)
		require.True(t, res.Complete)
		require.Equal(t, c.runs, res.Runs-res.Redundant, name)
	}
	res := explore.Explore(explore.Config{Full: true}, writers)
	require.Equal(t, 40320/16, res.Runs) // the first steps of the goroutines count as well: 8!/2⁴
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		setup func(*explore.Run)
		want  string
	}{
		"deadlock of two locks": {func(r *explore.Run) {
			var a, b xatomic.Mutex
			r.Go("ab", func() { a.Lock(); section(&b); a.Unlock() })
			r.Go("ba", func() { b.Lock(); section(&a); b.Unlock() })
		}, "deadlock; ab waits for ever in lock; ba waits for ever in lock"},
		"lost wake-up": {func(r *explore.Run) {
			var ready xatomic.Bool
			var asleep xatomic.Bool
			c := make(xatomic.Chan[int], 1)
			r.Go("sleeper", func() {
				if !ready.Load() {
					asleep.Store(true)
					c.Recv()
				}
			})
			r.Go("waker", func() {
				ready.Store(true)
				if asleep.Load() {
					c.Send(1)
				}
			})
		}, "deadlock; sleeper waits for ever in recv"},
		"panic": {func(r *explore.Run) {
			var x xatomic.Int32
			r.Go("a", func() { x.Store(1) })
			r.Go("b", func() {
				if x.Load() == 0 && x.Load() == 1 {
					panic("seen")
				}
			})
		}, "b panics: seen"},
		"livelock": {func(r *explore.Run) {
			var x xatomic.Int32
			r.Go("a", func() {
				for !x.CompareAndSwap(1, 0) {
				}
			})
			r.Go("b", func() { x.Store(2) })
		}, "no end after 300 steps"},
		"assertion": {func(r *explore.Run) {
			var x xatomic.Int32
			r.Go("a", func() { r.Check(x.Add(1) != 2, "second") })
			r.Go("b", func() { x.Add(1) })
		}, "a: second"},
		"goroutine of the program": {func(r *explore.Run) {
			var x xatomic.Int32
			r.Go("a", func() {
				xatomic.Go(func() { r.Check(x.Add(1) == 1, "late") })
				x.Add(1)
			})
		}, "goroutine 1: late"},
		"end": {func(r *explore.Run) {
			r.Daemon("a", func() { make(xatomic.Chan[int], 1).Recv() })
			r.End(func() error { return errors.New("so be it") })
		}, "so be it"},
		"used after free": {func(r *explore.Run) {
			var x, turn xatomic.Int32
			r.Go("a", func() { turn.Add(1); x.Add(1) })
			r.Go("b", func() {
				if turn.Load() == 1 {
					r.Free(&x)
				}
			})
		}, "free"},
		"plain use after free": {func(r *explore.Run) {
			var x xatomic.Int32
			r.Go("a", func() { x.Add(1); r.Plain(&x) })
			r.Go("b", func() {
				if x.Add(1) == 2 {
					r.Free(&x)
				}
			})
		}, "free"},
	} {
		before := runtime.NumGoroutine()
		res := explore.Explore(explore.Config{MaxSteps: 300}, c.setup)
		require.NotNil(t, res.Failure, name)
		require.Contains(t, res.Failure.Why, c.want, name)
		require.NotContains(t, res.Failure.Why, "deterministic", name)
		require.NotEmpty(t, res.Failure.Steps)
		for runtime.NumGoroutine() > before { // those that were stopped take a moment
			runtime.Gosched()
		}
	}
}

// A loop with Pause that waits for a flag: the loop does not repeat without reason.
func TestPause(t *testing.T) {
	res := explore.Explore(explore.Config{MaxSteps: 100}, func(r *explore.Run) {
		var x xatomic.Bool
		r.Go("a", func() {
			for !x.Load() {
				xatomic.Pause()
			}
		})
		r.Go("b", func() { x.Store(true) })
	})
	require.Nil(t, res.Failure)
	require.True(t, res.Complete)
}

func TestBeforeIsOrderAndNotChance(t *testing.T) {
	runs := 0
	res := explore.Explore(explore.Config{}, func(r *explore.Run) {
		var x, y xatomic.Int32
		var m explore.Mark
		set := false
		r.Go("a", func() {
			m, set = r.Now(), true
			x.Store(1)
			y.Add(1)
		})
		r.Go("b", func() {
			y.Add(1) // after a or not: that orders nothing by itself
			seen := x.Load() == 1
			runs++
			r.Check(set && r.Before(m) == seen || !set && !seen, "order")
		})
	})
	require.Nil(t, res.Failure)
	require.Greater(t, runs, 2)
}

func TestNotDeterministic(t *testing.T) {
	calls := 0
	res := explore.Explore(explore.Config{}, func(r *explore.Run) {
		calls++
		var x xatomic.Int32
		r.Go("a", func() { x.Add(1) })
		r.Go("b", func() { x.Add(1) })
		if calls > 1 {
			r.Go("c", func() { x.Add(1) })
		}
	})
	require.NotNil(t, res.Failure)
	require.Contains(t, res.Failure.Why, "not deterministic")
}

// A mortal goroutine ends before each of its steps; what follows it sees the steps before, and none
// after.
func TestMortal(t *testing.T) {
	for life := range 5 {
		seen := map[int32]bool{}
		res := explore.Explore(explore.Config{}, func(r *explore.Run) {
			var x, over xatomic.Int32
			r.Mortal("a", life, func() {
				defer x.Add(10)
				x.Add(1)
				x.Add(1)
			}, func() { over.Store(x.Load()) })
			r.Go("b", func() { x.Load() })
			r.End(func() error {
				seen[over.Load()] = true
				return nil
			})
		})
		require.Nil(t, res.Failure)
		require.Equal(t, map[int32]bool{[]int32{0, 1, 2, 12, 12}[life]: true}, seen, life)
	}
}

// A random program: a few goroutines, each with a list of operations on words, locks and channels.
// Its outcome is the result of each operation.
type action struct{ kind, obj, arg int }

func randomProgram(rng *rand.Rand) [][]action {
	procs := make([][]action, 2+rng.IntN(2))
	for i := range procs {
		locked := -1
		for range 1 + rng.IntN(9/len(procs)-1) {
			a := action{rng.IntN(10), rng.IntN(2), rng.IntN(3)}
			if a.kind == 5 { // a section
				if locked >= 0 {
					a = action{6, locked, 0}
					locked = -1
				} else {
					locked = a.obj
				}
			} else if a.kind == 6 {
				a.kind = 0
			}
			procs[i] = append(procs[i], a)
		}
		if locked >= 0 && rng.IntN(3) != 0 {
			procs[i] = append(procs[i], action{6, locked, 0})
		}
	}
	return procs
}

func outcomes(cfg explore.Config, procs [][]action) (map[string]int, explore.Result) {
	out := map[string]int{}
	res := explore.Explore(cfg, func(r *explore.Run) {
		var words [2]xatomic.Int32
		var locks [2]xatomic.Mutex
		chans := [2]xatomic.Chan[int]{make(xatomic.Chan[int], 1), make(xatomic.Chan[int], 1)}
		got := make([][]string, len(procs))
		for i, list := range procs {
			r.Daemon("", func() {
				note := func(v any) { got[i] = append(got[i], fmt.Sprint(v)) }
				for _, a := range list {
					w := &words[a.obj]
					switch a.kind {
					case 0:
						note(w.Load())
					case 1:
						w.Store(int32(a.arg))
					case 2:
						note(w.Add(int32(a.arg)))
					case 3, 4:
						note(w.CompareAndSwap(int32(a.arg), int32(a.arg)+1))
					case 5:
						locks[a.obj].Lock()
						note("in")
					case 6:
						locks[a.obj].Unlock()
					case 7:
						chans[a.obj].Send(10*i + a.arg)
						note("sent")
					case 8:
						note(chans[a.obj].Recv())
					case 9:
						note(xatomic.Len(chans[a.obj]))
					}
				}
			})
		}
		r.End(func() error {
			var b strings.Builder
			for i := range got {
				fmt.Fprint(&b, got[i])
			}
			fmt.Fprint(&b, words[0].Load(), words[1].Load())
			out[b.String()]++
			return nil
		})
	})
	return out, res
}

// The reduction loses no outcome of random programs, and saves most of the orders.
func TestReductionLosesNothing(t *testing.T) {
	full, reduced := 0, 0
	count := 400
	if testing.Short() {
		count = 80
	}
	for seed := range uint64(count) {
		procs := randomProgram(rand.New(rand.NewPCG(seed, 7)))
		want, resF := outcomes(explore.Config{Full: true, MaxRuns: 30000}, procs)
		if !resF.Complete {
			continue
		}
		got, res := outcomes(explore.Config{}, procs)
		require.True(t, res.Complete)
		full += resF.Runs
		reduced += res.Runs
		for o := range want {
			require.Contains(t, got, o, "seed %d: %v", seed, procs)
		}
		require.Len(t, got, len(want))
	}
	t.Logf("%d orders, reduced to %d", full, reduced)
	require.Less(t, 10*reduced, full)
}
