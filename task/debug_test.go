// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task/internal/audit"
)

// warnings is a log that stores its lines.
type warnings struct {
	mu    sync.Mutex
	lines []string
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, string(p))
	return len(p), nil
}

func (w *warnings) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// take returns the lines, except those about weak accesses that no child uses: TestDebugIdle checks
// these.
func (w *warnings) take() []string {
	return slices.DeleteFunc(w.takeAll(), func(s string) bool { return strings.Contains(s, "no child uses what it has declared") })
}

func (w *warnings) takeAll() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines
	w.lines = nil
	return l
}

// A declared access that is never used causes one warning for each line that spawns, and nothing
// else causes one.
func TestDebugIdle(t *testing.T) {
	var w warnings
	rt := newTestRuntime(t, Config{Workers: 2, Debug: true, Logger: w.logger()})
	var x, y int
	var v [8]int
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for range 3 {
			labelled(t, "weak", nothing, deps.In(&x).Weak())
			t.SpawnWith(Attrs{Label: "strong"}, func(t *Task) error { t.Uses(deps.In(&x)); return nil }, deps.In(&x), deps.InOut(&y))
		}
		labelled(t, "silent", nothing, deps.InOut(&x)) // never calls Uses
		labelled(t, "child", func(t *Task) error {
			t.Uses(deps.In(&x))
			labelled(t, "below", nothing, deps.InOut(&y), deps.Slice(v[2:3]).Out())
			return nil
		}, deps.In(&x), deps.InOut(&y), deps.Slice(v[0:4]).Out().Weak())
		return nil
	}))
	lines := w.takeAll()
	slices.Sort(lines)
	text := strings.Join(lines, "")
	require.Len(t, lines, 2, text)
	require.Regexp(t, `a task never uses what it has declared: InOut\(0x[0-9a-f]+\)" task="task strong \(`, text)
	require.Regexp(t, `no child uses what it has declared: In\(0x[0-9a-f]+\)\.Weak\(\)" task="task weak \(`, text)
}

// labelled spawns a task with a label, undeferred if it ends with a bang.
func labelled(t *Task, label string, fn func(*Task) error, accs ...deps.Access) {
	name, now := strings.CutSuffix(label, "!")
	t.SpawnWith(Attrs{Label: name, Undeferred: now}, fn, accs...)
}

func nothing(*Task) error { return nil }

// held is a body that keeps its accesses until the run ends early.
func held(t *Task) error {
	end := t.Hold()
	context.AfterFunc(t.Context(), func() { end(nil) })
	return nil
}

// Two tasks that may use an object at the same time end the run; the error names both, and the task
// whose declaration is missing.
func TestDebugConflict(t *testing.T) {
	var x, y int
	for _, c := range []struct {
		name  string
		main  func(t *Task)
		parts []string
	}{
		{"the parent has not declared", func(t *Task) {
			labelled(t, "A!", held, deps.InOut(&x))
			labelled(t, "P!", func(t *Task) error { labelled(t, "C", nothing, deps.In(&x)); return nil })
		}, []string{`task "C"`, "In(0x", "InOut(0x", "of task C (", "of task A (", "task P (", "has not declared it", "weak access is enough"}},
		{"the other one's parent has not declared", func(t *Task) {
			labelled(t, "P!", func(t *Task) error {
				labelled(t, "C!", held, deps.InOut(&x))
				return nil
			})
			labelled(t, "A", nothing, deps.InOut(&x))
		}, []string{`task "A"`, "of task C (", "task P (", "has not declared it"}},
		{"cousins, and no parent has declared", func(t *Task) {
			for range 2 {
				labelled(t, "P!", func(t *Task) error {
					labelled(t, "C!", held, deps.Concurrent(&x), deps.Out(&y))
					return nil
				})
			}
		}, []string{`task "C"`, "task P (", "has not declared it"}},
		{"the parent's parent has not declared", func(t *Task) {
			labelled(t, "A!", held, deps.InOut(&x))
			labelled(t, "G!", func(t *Task) error {
				labelled(t, "P!", func(t *Task) error { labelled(t, "C", nothing, deps.In(&x)); return nil }, deps.In(&x).Weak())
				return nil
			})
		}, []string{`task "C"`, "task G (", "has not declared it"}},
		{"the parent only reads", func(t *Task) {
			labelled(t, "P!", func(t *Task) error {
				labelled(t, "C!", held, deps.InOut(&x))
				return nil
			}, deps.In(&x).Weak())
			labelled(t, "R", nothing, deps.In(&x))
		}, []string{`task "R"`, "of task C (", "task P (", "has declared In(0x", "Weak()", "descendants do more"}},
		{"the parent is in a group, its child is not", func(t *Task) {
			labelled(t, "P!", func(t *Task) error {
				labelled(t, "C!", held, deps.InOut(&x))
				return nil
			}, deps.Concurrent(&x))
			labelled(t, "G", nothing, deps.Concurrent(&x))
		}, []string{`task "G"`, "of task C (", "has declared Concurrent(0x", "descendants do more"}},
		{"found when the body starts", func(t *Task) {
			var open func(error)
			labelled(t, "W!", func(t *Task) error { open = t.Hold(); return nil }, deps.Out(&y))
			labelled(t, "P!", func(t *Task) error { labelled(t, "C", nothing, deps.In(&x), deps.In(&y)); return nil }, deps.In(&y).Weak())
			labelled(t, "A!", held, deps.InOut(&x))
			open(nil) // C may start now
		}, []string{`task "C"`, "of task A (", "task P (", "has not declared it"}},
	} {
		for _, workers := range []int{1, 2} {
			t.Run(c.name, func(t *testing.T) {
				var w warnings
				rt := newTestRuntime(t, Config{Workers: workers, Debug: true, Logger: w.logger()})
				err := rt.Run(bg, func(t *Task) error { c.main(t); t.Wait(); return nil })
				require.ErrorIs(t, err, ErrConflict)
				var e *Error
				require.ErrorAs(t, err, &e)
				require.True(t, contains(err.Error(), c.parts...), "%v\nwants %q", err, c.parts)
				require.Contains(t, e.Site, "debug_test.go:")
				require.NotContains(t, err.Error(), "bug of weft")
			})
		}
	}
}

// Right programs run as always. So do programs that are right for reasons that debug mode does not
// know, with a warning.
func TestDebugRightPrograms(t *testing.T) {
	type program struct {
		name  string
		main  func(t *Task, x, y *int) error
		warns []string // parts of the warning; nil for none
	}
	for _, c := range []program{
		{"memory of the parent's own", func(t *Task, x, y *int) error {
			for range 10 {
				t.Spawn(func(t *Task) error {
					local := 0
					for range 5 {
						t.Spawn(func(t *Task) error { t.Uses(deps.InOut(&local)); local++; return nil }, deps.InOut(&local))
					}
					return t.Wait()
				}, deps.In(x))
			}
			return nil
		}, nil},
		{"linked through three levels", func(t *Task, x, y *int) error {
			for range 5 {
				labelled(t, "P", func(t *Task) error {
					labelled(t, "Q", func(t *Task) error {
						labelled(t, "C", func(*Task) error { *x++; return nil }, deps.InOut(x))
						labelled(t, "R", nothing, deps.In(x))
						return nil
					}, deps.InOut(x).Weak())
					return nil
				}, deps.InOut(x).Weak(), deps.Concurrent(y))
				labelled(t, "R", nothing, deps.In(x))
			}
			return nil
		}, nil},
		{"readers need no link", func(t *Task, x, y *int) error {
			for range 5 {
				t.Spawn(func(t *Task) error { t.Spawn(nothing, deps.In(x)); t.Spawn(nothing, deps.Concurrent(y)); return nil })
				t.Spawn(nothing, deps.In(x))
			}
			return nil
		}, nil},
		{"after Wait the others are over", func(t *Task, x, y *int) error {
			for range 5 {
				t.Spawn(func(*Task) error { *x++; return nil }, deps.InOut(x))
				if err := t.Wait(); err != nil {
					return err
				}
				t.Spawn(func(t *Task) error { t.Spawn(func(*Task) error { *x++; return nil }, deps.InOut(x)); return nil })
				if err := t.Wait(); err != nil {
					return err
				}
			}
			return nil
		}, nil},
		{"Release hands on at once", func(t *Task, x, y *int) error {
			labelled(t, "A", func(t *Task) error {
				if err := t.Release(deps.InOut(x)); err != nil {
					return err
				}
				t.Blocking(func() { until(func() bool { return t.run.rt.atRest() }) })
				return nil
			}, deps.InOut(x))
			labelled(t, "B", func(*Task) error { *x++; return nil }, deps.InOut(x))
			return nil
		}, nil},
		{"a failed Release gives nothing up", func(t *Task, x, y *int) error {
			labelled(t, "A!", func(t *Task) error {
				if t.Release(deps.In(x)) == nil || t.Release(deps.In(y)) == nil {
					return errors.New("Release of what is not declared")
				}
				t.Uses(deps.Out(x))
				return nil
			}, deps.InOut(x))
			return nil
		}, nil},
		{"loops, final, wait, detached", func(t *Task, x, y *int) error {
			t.Loop(0, 100, func(t *Task, lo, hi int) error { *x += hi - lo; return nil }, deps.InOut(x))
			t.Loop(0, 1000, func(*Task, int, int) error { return nil })
			t.SpawnWith(Attrs{Final: true, Wait: true}, func(t *Task) error {
				t.LoopWith(LoopAttrs{Grain: 3}, 0, 9, func(*Task, int, int) error { return nil }, deps.In(x))
				return nil
			}, deps.InOut(x))
			d := t.Runtime().Spawn(bg, func(t *Task) error { t.Spawn(nothing, deps.InOut(new(int))); return nil })
			return d.Join(t)
		}, nil},
		{"an ancestor keeps it", func(t *Task, x, y *int) error {
			// while it waits, there is no conflict
			labelled(t, "G", func(t *Task) error {
				labelled(t, "P", func(t *Task) error { labelled(t, "C", nothing, deps.InOut(x)); return t.Wait() })
				return t.Wait()
			}, deps.InOut(x))
			return nil
		}, []string{"accesses do not order them", "task P (", "task C (", "task G (", "has not declared it"}},
		{"in order by another object", func(t *Task, x, y *int) error {
			var open func(error)
			labelled(t, "A!", func(t *Task) error { open = t.Hold(); return nil }, deps.InOut(x), deps.InOut(y))
			labelled(t, "P!", func(t *Task) error { labelled(t, "C", nothing, deps.InOut(x), deps.In(y)); return nil }, deps.In(y).Weak())
			open(nil)
			return nil
		}, []string{"accesses do not order them", "task P (", "task C (", "task A (", "has not declared it"}},
		{"two modes", func(t *Task, x, y *int) error {
			for range 10 { // one warning for all
				labelled(t, "M", nothing, deps.In(x), deps.Concurrent(x))
			}
			return nil
		}, []string{"different modes", "task M (spawned at", "In(0x", "and Concurrent(0x"}},
		{"one mode, however often", func(t *Task, x, y *int) error {
			labelled(t, "M", nothing, deps.In(x), deps.In(x).Weak(), deps.Out(y), deps.InOut(y), deps.Out(y).Weak())
			return nil
		}, nil},
		{"nothing declared", func(t *Task, x, y *int) error {
			for range 10 {
				t.Spawn(func(t *Task) error { t.Spawn(nothing); return nil })
			}
			return t.WaitOn(deps.In(x))
		}, nil},
	} {
		for _, workers := range []int{1, 2, 4} {
			var w warnings
			rt := newTestRuntime(t, Config{Workers: workers, Debug: true, Logger: w.logger()})
			for range 10 {
				x, y := 0, 0
				require.NoError(t, rt.Run(bg, func(t *Task) error { return c.main(t, &x, &y) }), c.name)
				lines := w.take()
				if c.warns == nil {
					require.Empty(t, lines, c.name)
					continue
				}
				require.Len(t, lines, 1, c.name)
				require.True(t, contains(lines[0], c.warns...), "%s: %s", c.name, lines[0])
			}
		}
	}
}

// The audit is empty when all is over, and when a spawn was refused.
func TestDebugAuditEmpty(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 2, Debug: true})
	var r *audit.Record
	x, y := 0, 0
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		r = t.more.noted.Audited
		t.SpawnWith(Attrs{Wait: true}, func(t *Task) error {
			t.Spawn(nothing, deps.In(&x))
			err := t.Release(deps.InOut(&x), deps.Out(&y))
			for _, a := range []deps.Access{deps.In(&x), {}} {
				if panicOf(func() { t.Spawn(nothing, deps.In(&rt.life), a) }) == "" {
					return errors.New("not refused")
				}
			}
			return err
		}, deps.InOut(&x), deps.InOut(&y))
		return nil
	}))
	r.Inspect(func(live int) { require.Zero(t, live) })
}

// Uses refuses what a body may not do with an object.
func TestUses(t *testing.T) {
	skipInLintMode(t, "it is about what is there without debug mode, which lint mode includes")
	for _, debug := range []bool{true, false} {
		rt := newTestRuntime(t, Config{Workers: 1, Debug: debug, TraceSpawns: true})
		var r, w, c, weak, given, none int
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			labelled(t, "T!", func(t *Task) error {
				if err := t.Release(deps.InOut(&given)); err != nil {
					return err
				}
				t.Uses()
				t.Uses(deps.In(&r), deps.In(&w), deps.Out(&w), deps.InOut(&w), deps.Concurrent(&w), deps.Concurrent(&c))
				for _, u := range []struct {
					a    deps.Access
					says string
				}{
					{deps.Out(&r), "but it has declared In("},
					{deps.Concurrent(&r), "but it has declared In("},
					{deps.In(&c), "but it has declared Concurrent("},
					{deps.InOut(&weak), "which is for its descendants"},
					{deps.In(&given), "it has given the object up by Release"},
					{deps.In(&none), "it has declared no access to this object"},
				} {
					text := panicOf(func() { t.Uses(u.a) })
					if debug != contains(text, "task T (spawned at", "debug_test.go:", " uses ", u.says) || !debug && text != "" {
						return errors.New(text + "; should say " + u.says)
					}
				}
				return nil
			}, deps.In(&r), deps.Out(&w), deps.Concurrent(&c), deps.InOut(&weak).Weak(), deps.InOut(&given))
			return nil
		}))
	}
}

// The environment can turn debug mode on; without debug mode there is no audit.
func TestDebugOff(t *testing.T) {
	skipInLintMode(t, "it is about what is there without debug mode, which lint mode includes")
	rt := newTestRuntime(t, Config{Workers: 1, TraceSpawns: true})
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		x := 0
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error {
			if t.run.rt.probe != nil {
				return errors.New("there is an audit")
			}
			return nil
		}, deps.In(&x))
		return nil
	}))
	for value, want := range map[string]bool{"0": false, "1": true, "": false} {
		t.Setenv(EnvDebug, value)
		c, err := Config{}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, want, c.Debug)
		require.Equal(t, want, c.TraceSpawns)
	}
	t.Setenv(EnvDebug, "yes")
	_, err := Open(Config{})
	require.True(t, err != nil && contains(err.Error(), EnvDebug, `"yes"`, "legal: 0, 1"), "%v", err)
}

// The audit drops an access before the engine ends it: a task that the end makes ready must not
// find the access open. The test holds the audit's lock, so the access cannot end.
func TestDebugDropsFirst(t *testing.T) {
	skipInLintMode(t, "it makes tasks past debug mode, and so past lint mode")
	rt := newTestRuntime(t, Config{Workers: 2, Debug: true})
	for _, wait := range []bool{false, true} {
		x := 0
		var in, end atomic.Bool
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(func(t *Task) error {
				t.SpawnWith(Attrs{Wait: wait}, func(*Task) error { in.Store(true); until(end.Load); return nil }, deps.InOut(&x))
				return nil
			}, deps.InOut(&x).Weak())
			t.Spawn(func(t *Task) error {
				until(in.Load)
				early := false
				t.more.noted.Audited.Inspect(func(int) {
					end.Store(true)           // the other slot is about to end the writer
					t.node.Flags &^= flagLeaf // as Spawn does
					for range 3000 {
						runtime.Gosched()
						early = early || startUnseen(t, deps.In(&x)) // without the audit
					}
				})
				if early {
					return errors.New("the engine ends the access before the audit drops it")
				}
				return nil
			}, deps.InOut(&x).Weak())
			return nil
		}))
	}
}

// startUnseen starts an empty child of t without telling the observers, and reports whether it was
// ready.
func startUnseen(t *Task, accs ...deps.Access) bool {
	s := t.slot
	p := s.probe
	defer func() { s.probe = p }()
	s.probe = nil
	c := s.newTask(t, nothing)
	c.rare()
	return t.start(s, c, accesses(accs))
}
