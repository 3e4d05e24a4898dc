// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Debug mode compares ranges by their bytes. Compared with a range, an object is the bytes of its
// variable.
func TestDebugRanges(t *testing.T) {
	var s [16]int64
	for _, c := range []struct {
		name                 string
		parent, child, other []deps.Access
		conflict             string // "" for none
	}{
		{"not declared", nil, one(deps.Slice(s[2:6]).InOut()), one(deps.Slice(s[5:9]).In()), "has not declared it"},
		{"disjoint", nil, one(deps.Slice(s[2:6]).InOut()), one(deps.Slice(s[6:9]).InOut()), ""},
		{"readers", nil, one(deps.Slice(s[2:6]).In()), one(deps.Slice(s[5:9]).In()), ""},
		{"declared elsewhere", one(deps.Slice(s[2:5]).InOut().Weak()), one(deps.Slice(s[2:6]).InOut()), one(deps.Slice(s[5:9]).In()), "has not declared it"},
		{"declared where it matters", one(deps.Slice(s[5:6]).InOut().Weak()), one(deps.Slice(s[2:6]).InOut()), one(deps.Slice(s[5:9]).In()), ""},
		{"declared in two parts", one(deps.Slice(s[2:4]).InOut().Weak(), deps.Slice(s[4:6]).Out().Weak()), one(deps.Slice(s[1:9]).InOut()), one(deps.Slice(s[2:6]).In()), ""},
		{"declared to read", one(deps.Slice(s[2:4]).InOut().Weak(), deps.Slice(s[4:6]).In().Weak()), one(deps.Slice(s[4:5]).InOut()), one(deps.Slice(s[4:9]).In()), "descendants do more"},
		{"two modes make a writer", one(deps.Slice(s[2:6]).In().Weak(), deps.Slice(s[1:9]).Concurrent().Weak()), one(deps.Slice(s[3:5]).InOut()), one(deps.Slice(s[3:5]).Concurrent()), ""},
		{"an object under a range", one(deps.Slice(s[2:6]).InOut().Weak()), one(deps.InOut(&s[3])), one(deps.InOut(&s[3])), ""},
		{"a range under an object", one(deps.InOut(&s).Weak()), one(deps.Slice(s[3:5]).InOut()), one(deps.Slice(s[4:5]).In()), ""},
		{"an object against a range", nil, one(deps.InOut(&s[3])), one(deps.Slice(s[3:5]).In()), "has not declared it"},
		{"a range against an object", nil, one(deps.Slice(s[3:5]).In()), one(deps.InOut(&s[4])), "has not declared it"},
		{"nothing at all", nil, one(deps.Slice(s[3:3]).InOut()), one(deps.InOut(&s[3])), ""},
	} {
		for _, workers := range []int{1, 2} {
			for _, otherFirst := range []bool{true, false} {
				if otherFirst && c.conflict == "descendants do more" {
					continue // a reader keeps later writers waiting, at any depth
				}
				var w warnings
				rt := newTestRuntime(t, Config{Workers: workers, Debug: true, Logger: w.logger()})
				err := rt.Run(bg, func(t *Task) error {
					var mu sync.Mutex
					var ends []func(error)
					hold := func(t *Task) error {
						mu.Lock()
						defer mu.Unlock()
						ends = append(ends, t.Hold())
						return nil
					}
					other := func() { labelled(t, "other!", hold, c.other...) }
					parent := func() {
						labelled(t, "parent!", func(t *Task) error { labelled(t, "child!", hold, c.child...); return nil }, c.parent...)
					}
					if c.conflict == "" { // linked tasks would wait
						other = func() { labelled(t, "other", hold, c.other...) }
						parent = func() {
							labelled(t, "parent", func(t *Task) error { labelled(t, "child", hold, c.child...); return nil }, c.parent...)
						}
					}
					if otherFirst {
						other()
						parent()
					} else {
						parent()
						other()
					}
					for range 2 {
						t.Blocking(func() { until(rt.atRest) }) // so that no task appends
						for _, end := range ends {
							end(nil)
						}
					}
					return t.Wait()
				})
				if c.conflict == "" {
					require.NoError(t, err, c.name)
					require.Empty(t, w.take(), c.name)
					continue
				}
				require.ErrorIs(t, err, ErrConflict, c.name)
				require.True(t, contains(err.Error(), c.conflict, "task parent (", "task child (", "task other ("), "%s: %v", c.name, err)
			}
		}
	}
}

func one(a ...deps.Access) []deps.Access { return a }

// Objects within ranges, ranges within objects, and released parts: all are linked, and debug mode
// reports nothing.
func TestDebugRangesLinked(t *testing.T) {
	var w warnings
	rt := newTestRuntime(t, Config{Workers: 2, Debug: true, Logger: w.logger()})
	x := make([]int, 8)
	require.NoError(t, rt.Run(t.Context(), func(t *Task) error {
		for range 4 {
			labelled(t, "P", func(t *Task) error {
				labelled(t, "C", func(t *Task) error {
					t.Uses(deps.InOut(&x[2]))
					x[2]++
					return nil
				}, deps.InOut(&x[2]))
				labelled(t, "D", func(t *Task) error {
					t.Uses(deps.InOut(&x[3]), deps.Slice(x[2:4]).InOut())
					x[3]++
					return t.Release(deps.Slice(x[3:4]).InOut())
				}, deps.Slice(x[2:4]).InOut())
				labelled(t, "E", nothing, deps.Slice(x[2:2]).InOut())
				return nil
			}, deps.Slice(x[:4]).InOut().Weak())
		}
		// An object that is given up as a range.
		labelled(t, "F", func(t *Task) error {
			return t.Release(deps.Slice(x[5:6]).InOut())
		}, deps.InOut(&x[5]))
		return nil
	}))
	require.Equal(t, []int{0, 0, 4, 4, 0, 0, 0, 0}, x)
	require.Empty(t, w.take())
}

// The part of a range that Release gives up is free for others, and the rest is not; a Release that
// is refused gives up nothing.
func TestDebugRangeRelease(t *testing.T) {
	var s [16]int64
	var w warnings
	rt := newTestRuntime(t, Config{Workers: 1, Debug: true, Logger: w.logger()})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		labelled(t, "T!", func(t *Task) error {
			if t.Release(deps.Slice(s[4:12]).In()) == nil {
				return errors.New("not refused")
			}
			t.Uses(deps.Slice(s[0:12]).InOut(), deps.In(&s[5]))
			if err := t.Release(deps.Slice(s[4:6]).InOut()); err != nil {
				return err
			}
			t.Uses(deps.Slice(s[0:4]).InOut(), deps.Slice(s[6:12]).In(), deps.InOut(&s[6]))
			for _, a := range one(deps.Slice(s[3:5]).In(), deps.InOut(&s[5]), deps.Slice(s[5:13]).Out()) {
				if text := panicOf(func() { t.Uses(a) }); !contains(text, "given the object up by Release") {
					return errors.New(text)
				}
			}
			if text := panicOf(func() { t.Uses(deps.Slice(s[12:14]).In()) }); !contains(text, "no access to this object") {
				return errors.New(text)
			}
			return nil
		}, deps.Slice(s[0:12]).InOut())
		// The parts before and after the released part stay held.
		labelled(t, "S!", func(t *Task) error {
			if err := t.Release(deps.Slice(s[6:7]).InOut()); err != nil {
				return err
			}
			t.Uses(deps.Slice(s[0:2]).InOut(), deps.Slice(s[7:8]).InOut(), deps.InOut(&s[12]))
			for _, a := range one(deps.Slice(s[2:6]).In(), deps.Slice(s[8:12]).In()) {
				if text := panicOf(func() { t.Uses(a) }); !contains(text, "no access to this object") {
					return errors.New(text)
				}
			}
			return nil
		}, deps.Slice(s[0:2]).InOut(), deps.Slice(s[6:8]).InOut(), deps.InOut(&s[12]))
		// Another task has the released part while the rest is kept. A third task, which is not
		// linked, conflicts with the rest.
		labelled(t, "U!", func(t *Task) error { return t.Release(deps.Slice(s[4:6]).InOut()) }, deps.Slice(s[0:12]).InOut())
		return nil
	}))
	require.Empty(t, w.take())
	err := rt.Run(bg, func(t *Task) error {
		labelled(t, "U!", func(t *Task) error {
			if err := t.Release(deps.Slice(s[4:6]).InOut()); err != nil {
				return err
			}
			return held(t)
		}, deps.Slice(s[0:12]).InOut())
		labelled(t, "V!", held, deps.Slice(s[4:6]).InOut())
		if cause := t.run.cause(); cause != nil {
			return fmt.Errorf("early: %w", cause)
		}
		labelled(t, "P!", func(t *Task) error { labelled(t, "C", nothing, deps.In(&s[6])); return nil })
		t.Wait()
		return nil
	})
	require.ErrorIs(t, err, ErrConflict)
	require.NotContains(t, err.Error(), "early")
}

// Random nested programs over ranges and objects, in which children stay within what their parents
// declare: debug mode reports nothing.
func TestDebugRandomRanges(t *testing.T) {
	programs := uint64(200)
	if underRace || testing.Short() {
		programs = 30
	}
	first := uint64(time.Now().UnixNano())
	var w warnings
	for workers := 1; workers <= 4; workers++ {
		rt := newTestRuntime(t, Config{Workers: workers, Debug: true, Logger: w.logger()})
		for seed := first; seed < first+programs/4; seed++ {
			var s [12]byte
			type part struct {
				lo, hi int
				mode   int
			}
			access := func(r *rand.Rand, p part, weak bool) deps.Access {
				var a deps.Access
				x := deps.Slice(s[p.lo:p.hi])
				switch {
				case p.mode == 0:
					a = x.In()
				case p.mode == 1:
					a = x.Concurrent()
				case p.hi == p.lo+1 && r.IntN(2) == 0:
					a = deps.InOut(&s[p.lo])
				default:
					a = x.InOut()
				}
				if weak {
					a = a.Weak()
				}
				return a
			}
			var make func(r *rand.Rand, t *Task, within []part, depth int)
			make = func(r *rand.Rand, t *Task, within []part, depth int) {
				for range 1 + r.IntN(4) {
					var mine []part
					var accs []deps.Access
					for range 1 + r.IntN(2) {
						p := within[r.IntN(len(within))]
						if p.mode == 2 {
							p.mode = r.IntN(3)
						}
						lo := p.lo + r.IntN(p.hi-p.lo)
						p.lo, p.hi = lo, lo+1+r.IntN(p.hi-lo)
						mine = append(mine, p)
						accs = append(accs, access(r, p, depth > 0 && r.IntN(2) == 0))
					}
					seed := r.Uint64()
					t.SpawnWith(Attrs{Wait: r.IntN(5) == 0, Undeferred: r.IntN(8) == 0}, func(t *Task) error {
						r := rand.New(rand.NewPCG(seed, 2))
						if r.IntN(3) == 0 {
							end := t.Hold()
							go end(nil)
						}
						if depth > 0 {
							make(r, t, mine, depth-1)
						}
						if r.IntN(4) == 0 {
							return t.Wait()
						}
						return nil
					}, accs...)
				}
			}
			what := fmt.Sprintf("seed %d, %d workers", seed, workers)
			require.NoError(t, rt.Run(bg, func(t *Task) error {
				r := rand.New(rand.NewPCG(seed, 1))
				for range 4 {
					make(r, t, []part{{0, len(s), 2}}, 2)
				}
				return nil
			}), what)
			require.Empty(t, w.take(), what)
		}
	}
}
