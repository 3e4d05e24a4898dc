// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/race"
)

// When a task is over, nothing keeps its objects from the collector, whatever the task was like.
// keepers has one program for each feature. The tests below check, with each observer that keeps
// records, that no object outlives its tasks, and that nothing is left of the tasks.

// thing is an object of the user.
type thing [256]uint32

// things makes objects and counts which of them are reachable, without keeping them reachable.
type things struct {
	mu   sync.Mutex
	made []weak.Pointer[thing]
	kept []any // what the program keeps
}

func (x *things) keep(v any) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kept = append(x.kept, v)
}

func (x *things) new() *thing {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := new(thing)
	x.made = append(x.made, weak.Make(p))
	return p
}

// left returns how many of the objects are reachable. A goroutine that has just reported an end may
// still refer to one while it returns, so left repeats the check for some ten milliseconds.
func (x *things) left() (n int) {
	for moment := range 10 {
		if moment > 0 {
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
		runtime.GC() // a sync.Pool keeps objects for one more cycle
		n = 0
		for _, w := range x.made {
			if w.Value() != nil {
				n++
			}
		}
		if n == 0 {
			break
		}
	}
	return n
}

// keeper is a program that makes tasks with objects. When t's children are over, nothing of them
// must be left.
type keeper struct {
	name string
	make func(t *Task, x *things)
}

var keepers = []keeper{
	{"Spawn", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"chain", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.Out(p))
		t.Spawn(func(*Task) error { _ = p[0]; return nil }, deps.In(p))
		t.Spawn(func(*Task) error { _ = p[0]; return nil }, deps.In(p))
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"only the access knows the object", func(t *Task, x *things) {
		t.Spawn(func(*Task) error { return nil }, deps.InOut(x.new()))
	}},
	{"more than five accesses", func(t *Task, x *things) {
		var list []deps.Access
		for range 12 {
			list = append(list, deps.InOut(x.new()))
		}
		t.Spawn(func(*Task) error { return nil }, list...)
	}},
	{"more accesses than a node keeps", func(t *Task, x *things) {
		var list []deps.Access
		for range 80 {
			list = append(list, deps.InOut(x.new()))
		}
		t.Spawn(func(*Task) error { return nil }, list...)
	}},
	{"SpawnWith", func(t *Task, x *things) {
		p := x.new()
		t.SpawnWith(Attrs{Label: fmt.Sprintf("task %p", p), Priority: len(x.made) % 3, Cost: 2, Wait: true},
			func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"Undeferred", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { runtime.Gosched(); p[0]++; return nil }, deps.InOut(p))
		t.SpawnWith(Attrs{Undeferred: true}, func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"Final", func(t *Task, x *things) {
		p := x.new()
		t.SpawnWith(Attrs{Final: true}, func(t *Task) error {
			t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			return nil
		}, deps.InOut(p))
	}},
	{"Concurrent", func(t *Task, x *things) {
		p := x.new()
		for range 3 {
			t.Spawn(func(*Task) error { return nil }, deps.Concurrent(p))
		}
	}},
	{"Commutative", func(t *Task, x *things) {
		p, q := x.new(), x.new()
		for range 3 {
			t.Spawn(func(*Task) error { p[0]++; q[0]++; return nil }, deps.Commutative(p), deps.Commutative(q))
		}
	}},
	{"Commutative with children", func(t *Task, x *things) {
		p := x.new()
		for range 3 {
			t.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { p[0]++; return nil }, deps.Commutative(p))
				return nil
			}, deps.Commutative(p))
		}
	}},
	{"nested", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			for range 3 {
				t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			}
			return nil
		}, deps.InOut(p))
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"weak", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { return nil }, deps.In(p))
		for range 2 {
			t.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { return nil }, deps.In(p))
				t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
				return nil
			}, deps.InOut(p).Weak())
		}
		t.Spawn(func(*Task) error { return nil }, deps.In(p).Weak())
	}},
	{"Release", func(t *Task, x *things) {
		p, q := x.new(), x.new()
		t.Spawn(func(t *Task) error {
			t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			return t.Release(deps.InOut(p))
		}, deps.InOut(p), deps.InOut(q))
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"ranges", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.Slice(p[:64]).InOut())
		t.Spawn(func(t *Task) error {
			t.Spawn(func(*Task) error { p[40]++; return nil }, deps.Slice(p[40:50]).InOut())
			return t.Release(deps.Slice(p[32:40]).InOut())
		}, deps.Slice(p[32:96]).InOut())
		t.Spawn(func(*Task) error { _ = p[0]; return nil }, deps.Slice(p[:]).In())
	}},
	{"Commutative and ranges", func(t *Task, x *things) {
		p, q := x.new(), x.new()
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.Commutative(p), deps.Slice(q[:8]).InOut())
		t.Spawn(func(*Task) error { p[40]++; return nil }, deps.Commutative(p), deps.Slice(q[4:12]).In())
	}},
	{"Commutative ranges", func(t *Task, x *things) {
		p, q := x.new(), x.new()
		for i := range 4 {
			t.Spawn(func(*Task) error { p[i]++; return nil }, deps.Slice(p[i:i+8]).Commutative(), deps.Slice(q[4*i:12+i]).Commutative())
		}
		t.Spawn(func(t *Task) error {
			t.Spawn(func(*Task) error { p[0]++; return nil }, deps.Slice(p[:8]).Commutative())
			return nil
		}, deps.Slice(p[:16]).Commutative().Weak())
	}},
	{"Hold", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			done := t.Hold()
			go done(nil)
			return nil
		}, deps.InOut(p))
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"HoldFor", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			t.HoldFor(p)(nil)
			return nil
		}, deps.InOut(p))
	}},
	{"what ends events is kept", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			end := t.HoldFor(p)
			x.keep(end)
			go end(nil)
			return t.AwaitFor(p, func(done func()) {
				x.keep(done)
				go done()
			})
		}, deps.InOut(p))
	}},
	{"a handle is kept", func(t *Task, x *things) {
		p := x.new()
		d := t.Runtime().SpawnWith(context.Background(), Attrs{Label: "kept"}, func(t *Task) error {
			t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			return nil
		})
		x.keep(d)
		d.OnDone(func(error) { p[0]++ })
		if err := d.Join(t); err != nil {
			panic(err)
		}
	}},
	{"OnReady", func(t *Task, x *things) {
		p := x.new()
		t.SpawnWith(Attrs{OnReady: func(t *Task) error {
			done := t.Hold()
			go func() { p[0]++; done(nil) }()
			return nil
		}}, func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"Await", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			return t.AwaitFor(p, func(done func()) { go done() })
		}, deps.InOut(p))
	}},
	{"Block", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			go t.Unblock()
			return t.Block()
		}, deps.InOut(p))
		t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
	}},
	{"BlockFor", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			t.Unblock()
			_, err := t.BlockFor(time.Hour)
			return err
		}, deps.InOut(p))
	}},
	{"Sleep", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error { return t.Sleep(time.Microsecond) }, deps.InOut(p))
	}},
	{"Blocking", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error { t.Blocking(func() { p[0]++ }); return nil }, deps.InOut(p))
	}},
	{"Wait", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(t *Task) error {
			q := x.new()
			t.Spawn(func(*Task) error { q[0]++; return nil }, deps.InOut(q), deps.In(p))
			return t.Wait()
		}, deps.InOut(p))
		if err := t.Wait(); err != nil {
			panic(err)
		}
	}},
	{"WaitOn", func(t *Task, x *things) {
		p := x.new()
		t.Spawn(func(*Task) error { runtime.Gosched(); p[0]++; return nil }, deps.InOut(p))
		_ = t.WaitOn(deps.In(p))
	}},
	{"Critical", func(t *Task, x *things) {
		m := new(Mutex)
		for range 2 {
			p := x.new()
			t.Spawn(func(t *Task) error {
				return t.Critical(m, func() error { runtime.Gosched(); p[0]++; return nil })
			}, deps.InOut(p))
		}
	}},
	{"Loop", func(t *Task, x *things) {
		p := x.new()
		t.LoopWith(LoopAttrs{Grain: 8}, 0, 64, func(_ *Task, lo, hi int) error { _ = p[lo]; return nil }, deps.In(p))
		t.Loop(0, 64, func(_ *Task, lo, hi int) error { _ = p[lo]; return nil })
	}},
	{"Iterate", func(t *Task, x *things) {
		p := x.new()
		t.Iterate(3, func(it *Iteration) error {
			it.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			it.Spawn(func(t *Task) error { return t.Release(deps.In(p)) }, deps.In(p))
			return nil
		}, deps.InOut(p))
	}},
	{"Iterate while", func(t *Task, x *things) {
		p := x.new()
		left := 3
		t.IterateWith(IterAttrs{While: func(*Task) (bool, error) { left--; return left > 0, nil }}, func(it *Iteration) error {
			it.Spawn(func(t *Task) error {
				t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
				return nil
			}, deps.InOut(p))
			return nil
		}, deps.InOut(p))
	}},
	{"reductions", func(t *Task, x *things) {
		p := x.new()
		r := deps.NewReduction(&p[0], deps.Sum[uint32]())
		for range 3 {
			t.Spawn(func(t *Task) error { *Local(t, r)++; return nil }, r.Reduce())
		}
		t.Spawn(func(*Task) error { _ = p[0]; return nil }, deps.In(&p[0]))
	}},
	{"detached", func(t *Task, x *things) {
		p := x.new()
		d := t.Runtime().Spawn(context.Background(), func(t *Task) error {
			t.Spawn(func(*Task) error { p[0]++; return nil }, deps.InOut(p))
			return nil
		})
		if err := d.Join(t); err != nil {
			panic(err)
		}
	}},
}

// tools are the ways to run them.
var keptTools = []struct {
	name string
	cfg  Config
}{
	{"plain", Config{}},
	{"no throttle", Config{Window: -1}},
	{"debug", Config{Debug: true, Reports: io.Discard}},
	{"watchdog", Config{Watchdog: time.Minute, Reports: io.Discard}},
	{"trace", Config{}},
}

// A task that is over refers to nothing of the user, and neither does a slot, a pool or its
// parent's table on its behalf.
func TestNothingIsKept(t *testing.T) {
	const rounds = 200
	for _, tool := range keptTools {
		for _, g := range keepers {
			t.Run(tool.name+"/"+g.name, func(t *testing.T) {
				cfg := tool.cfg
				cfg.Workers = 2
				if tool.name == "trace" {
					cfg = recorded(t, cfg)
				}
				rt := New(cfg)
				defer rt.Close()
				x := new(things)
				require.NoError(t, rt.Run(t.Context(), func(task *Task) error {
					for range rounds {
						g.make(task, x)
					}
					if err := task.Wait(); err != nil {
						return err
					}
					assert.Zero(t, x.left(), "of %d objects, after Wait", len(x.made))
					return nil
				}))
				// The end of a run without Wait, and one that fails.
				require.NoError(t, rt.Run(t.Context(), func(t *Task) error { g.make(t, x); return nil }))
				bad := errors.New("bad")
				require.ErrorIs(t, rt.Run(t.Context(), func(t *Task) error {
					g.make(t, x)
					t.Spawn(func(*Task) error { return bad })
					g.make(t, x)
					return nil
				}), bad)
				assert.Zero(t, x.left(), "of %d objects, after Run", len(x.made))
			})
		}
	}
}

// Lint mode finds chains by address. Until the creator has waited, it keeps the objects alive.
// Otherwise another object at the same address could seem to come after the old object's last task.
// After the Wait it forgets the chains, since the Wait has ordered all.
func TestLintKeepsNoChains(t *testing.T) {
	if !race.Lint {
		t.Skip("needs a build for lint mode")
	}
	rt := New(Config{Workers: 2, Lint: true})
	defer rt.Close()
	x := new(things)
	require.NoError(t, rt.Run(t.Context(), func(task *Task) error {
		for range 3 {
			for range 50 {
				task.Spawn(func(*Task) error { return nil }, deps.InOut(x.new()))
				task.Spawn(func(t *Task) error {
					p := x.new()
					t.Spawn(func(*Task) error { return nil }, deps.Slice(p[:]).InOut())
					return nil
				}, deps.InOut(x.new()).Weak())
			}
			require.GreaterOrEqual(t, x.left(), 100)
			require.NoError(t, task.Wait())
			require.Zero(t, x.left())
		}
		return nil
	}))
}
