// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task"
)

const off = task.EnvLint + "=0"

// With WEFT_LINT=0, a build for lint mode is an ordinary program with the race detector. Programs
// without a mistake are clean, whatever orders their accesses.
func TestRightProgramsAreCleanWithoutLintMode(t *testing.T) {
	for _, x := range mistakes {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, "right plain "+x.name, off, task.EnvDebug+"=0")
			require.NoError(t, err, out)
			require.Empty(t, out)
		})
	}
	t.Run("programs of all features", func(t *testing.T) {
		t.Parallel()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestRightRandomProgramsAreClean|TestFeaturesAreClean)$")
		cmd.Env = append(os.Environ(), off, task.EnvDebug+"=0")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	})
}

// Without lint mode, the race detector still finds a mistake if the two bodies run at the same
// time.
func TestMistakeWithoutLintMode(t *testing.T) {
	out, err := run(t, "plain two at once", off)
	require.Error(t, err)
	require.Contains(t, out, "DATA RACE")
}

// twoAtOnce has two unordered tasks that use x while both run.
var twoAtOnce = mistake{name: "two at once", body: func(t *task.Task, _ bool) error {
	if t.Runtime().Workers() < 2 {
		return nil
	}
	var x int
	var both [2]chan struct{}
	for i := range both {
		both[i] = make(chan struct{})
	}
	for i := range both {
		t.Spawn(func(*task.Task) error {
			runtime.RaceDisable()
			close(both[i])
			<-both[1-i]
			runtime.RaceEnable()
			x++
			return nil
		})
	}
	return t.Wait()
}}

// Each feature orders the accesses of bodies to plain memory, in lint mode and without it.
func TestFeaturesAreClean(t *testing.T) {
	features := map[string]func(t *task.Task) error{
		"spawn and wait": func(t *task.Task) error {
			x := make([]int, 100)
			for i := range x {
				t.Spawn(func(*task.Task) error { x[i]++; return nil })
			}
			err := t.Wait()
			for i := range x {
				x[i]++
			}
			return err
		},
		"undeferred": func(t *task.Task) error {
			var x int
			for range 20 {
				x++
				t.SpawnWith(task.Attrs{Undeferred: true}, func(*task.Task) error { x++; return nil })
			}
			x++
			return nil
		},
		"onready": func(t *task.Task) error {
			x := make([]int, 20)
			var y int
			for i := range x {
				t.SpawnWith(task.Attrs{OnReady: func(t *task.Task) error {
					x[i]++
					end := t.Hold()
					go func() { x[i]++; end(nil) }()
					return nil
				}}, func(*task.Task) error { x[i]++; y++; return nil }, deps.InOut(&y))
			}
			return t.Wait()
		},
		"commutative": func(t *task.Task) error {
			var x int
			for range 50 {
				t.Spawn(func(*task.Task) error { x++; return nil }, deps.Commutative(&x))
			}
			return t.Wait()
		},
		"mutex": func(t *task.Task) error {
			var m task.Mutex
			var x int
			for range 50 {
				t.Spawn(func(t *task.Task) error {
					_ = m.Lock(t)
					defer m.Unlock(t)
					x++
					return nil
				})
			}
			return t.Wait()
		},
		"block": func(t *task.Task) error {
			var x int
			for range 20 {
				t.Spawn(func(t *task.Task) error {
					x++
					go func() { x++; t.Unblock() }()
					err := t.Block()
					x++
					return err
				}, deps.InOut(&x))
			}
			return t.Wait()
		},
		"block for, with an unblock before it": func(t *task.Task) error {
			var x int
			for range 20 {
				t.Spawn(func(t *task.Task) error {
					x++
					go func() { x++; t.Unblock() }()
					time.Sleep(time.Millisecond)
					_, err := t.BlockFor(time.Hour)
					x++
					return err
				}, deps.InOut(&x))
			}
			return t.Wait()
		},
		"blocking, sleep": func(t *task.Task) error {
			var x int
			for range 10 {
				t.Spawn(func(t *task.Task) error {
					x++
					t.Blocking(func() { x++ })
					err := t.Sleep(time.Millisecond)
					x++
					return err
				}, deps.InOut(&x))
			}
			return t.Wait()
		},
		"reduction": func(t *task.Task) error {
			sum := make([]int, 10)
			r := deps.NewSliceReduction(sum, deps.Sum[int]())
			for range 5 {
				for n := range 20 {
					t.Spawn(func(t *task.Task) error {
						l := task.Local(t, r)
						for i := range l {
							l[i]++
						}
						if n%2 == 0 {
							return t.Release(r.Reduce())
						}
						return nil
					}, r.Reduce())
				}
				t.Spawn(func(*task.Task) error { sum[0]++; return nil }, deps.InOut(&sum[0]))
			}
			return t.Wait()
		},
		"reduction by a user's operator": func(t *task.Task) error {
			// the operator uses copies that an earlier round used
			var sum, seen [4]int
			r := deps.NewReduction(&sum, deps.Op[[4]int]{
				Init: func(c *[4]int) { *c = [4]int{} },
				Combine: func(into, from *[4]int) {
					for i := range into {
						into[i] += from[i]
					}
				},
			})
			for range 30 {
				for range 4 {
					t.Spawn(func(t *task.Task) error { task.Local(t, r)[3]++; return nil }, r.Reduce())
				}
				t.Spawn(func(*task.Task) error { seen = sum; return nil }, deps.In(&sum), deps.InOut(&seen))
			}
			return t.Wait()
		},
		"loop": func(t *task.Task) error {
			x := make([]int, 1000)
			for range 5 {
				accesses := func(lo, hi int) []deps.Access { return []deps.Access{deps.Slice(x[lo:hi]).InOut()} }
				t.LoopWith(task.LoopAttrs{Grain: 10, Accesses: accesses}, 0, len(x), func(_ *task.Task, lo, hi int) error {
					for i := lo; i < hi; i++ {
						x[i]++
					}
					return nil
				})
			}
			return t.Wait()
		},
		"recorded loop with a condition": func(t *task.Task) error {
			var x, rounds int
			t.IterateWith(task.IterAttrs{While: func(*task.Task) (bool, error) { rounds++; x++; return rounds < 10, nil }}, func(it *task.Iteration) error {
				it.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
				it.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
				return nil
			})
			return t.Wait()
		},
		"throttle": func(t *task.Task) error {
			var x int
			for range 500 {
				t.Spawn(func(*task.Task) error { x++; return nil }, deps.InOut(&x))
			}
			return t.Wait()
		},
		"release": func(t *task.Task) error {
			var x, y int
			for range 20 {
				t.Spawn(func(t *task.Task) error {
					x++
					if err := t.Release(deps.InOut(&x)); err != nil {
						return err
					}
					y++
					return nil
				}, deps.InOut(&x), deps.InOut(&y))
			}
			return t.Wait()
		},
		"detached": func(t *task.Task) error {
			var x int
			for range 20 {
				x++
				d := t.Runtime().Spawn(t.Context(), func(t *task.Task) error {
					x++
					t.Spawn(func(*task.Task) error { x++; return nil })
					return nil
				})
				if err := t.Await(func(done func()) { d.OnDone(func(error) { x++; done() }) }); err != nil {
					return err
				}
				x++
			}
			return nil
		},
	}
	for name, f := range features {
		t.Run(name, func(t *testing.T) {
			for _, workers := range []int{1, 3} {
				rt := task.New(task.Config{Workers: workers, Window: 16})
				var x int
				for range 3 {
					x++
					require.NoError(t, rt.Run(t.Context(), func(t *task.Task) error { x++; return f(t) }))
					x++
				}
				require.NoError(t, rt.Close())
			}
		})
	}
}

// Errors and panics of OnReady, and of bodies, end a run as they do elsewhere, and the body of a
// task whose OnReady has failed does not run.
func TestErrorsInLintMode(t *testing.T) {
	wrong := errors.New("wrong")
	returns, panics := func(*task.Task) error { return wrong }, func(*task.Task) error { panic(wrong) }
	for name, x := range map[string]struct {
		ready, body func(*task.Task) error
		panics      bool
	}{
		"OnReady returns": {returns, nil, false},
		"OnReady panics":  {panics, nil, true},
		"a body returns":  {nil, returns, false},
		"a body panics":   {nil, panics, true},
	} {
		rt := task.New(task.Config{Workers: 2})
		ran := false
		err := rt.Run(t.Context(), func(t *task.Task) error {
			body := x.body
			if body == nil {
				body = func(*task.Task) error { ran = true; return nil }
			}
			t.SpawnWith(task.Attrs{OnReady: x.ready}, body)
			return nil
		})
		require.ErrorIs(t, err, wrong, name)
		require.Equal(t, x.panics, strings.Contains(err.Error(), "panic: wrong"), name)
		require.False(t, ran, name)
		require.NoError(t, rt.Close())
	}
}
