// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// sharedObjects are named by tasks of two runtimes. No body touches them: the counts of each
// runtime, and the race detector, check the order of its tasks.
type sharedObjects struct {
	x   [4]int
	row [8]int
}

// sharedCounts are the counts of one runtime.
type sharedCounts struct {
	n   [4]int
	row [8]int
	any atomic.Int64
	bad notes
}

// sharedShapes are programs that name all kinds of objects in all modes; each adds up to want.
var sharedShapes = []struct {
	name string
	want int
	main func(t *Task, o *sharedObjects, c *sharedCounts) error
}{
	{"a chain", 20, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for range 20 {
			t.Spawn(func(*Task) error { c.n[0]++; return nil }, deps.InOut(&o.x[0]))
		}
		return nil
	}},
	{"writers and readers", 5, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for i := range 5 {
			t.Spawn(func(*Task) error { c.bad.check(c.n[1] == i, "writer %d finds %d", i, c.n[1]); c.n[1]++; return nil }, deps.Out(&o.x[1]))
			for range 3 {
				t.Spawn(func(*Task) error { c.bad.check(c.n[1] == i+1, "a reader of %d finds %d", i+1, c.n[1]); return nil }, deps.In(&o.x[1]))
			}
		}
		return nil
	}},
	{"ranges", 20, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for i := range 5 {
			t.Spawn(func(*Task) error {
				for k := range c.row[i : i+4] {
					c.row[i+k]++
				}
				return nil
			}, deps.Slice(o.row[i:i+4]).InOut())
		}
		return nil
	}},
	{"commutative", 9, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for i := range 9 {
			accs := []deps.Access{deps.Commutative(&o.x[2])}
			if i%3 == 0 {
				accs = append(accs, deps.Slice(o.row[i%4:]).Commutative())
			}
			t.Spawn(func(*Task) error { c.n[2]++; return nil }, accs...)
		}
		return nil
	}},
	{"nests", 12, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for range 4 {
			t.Spawn(func(t *Task) error {
				for range 3 {
					t.Spawn(func(*Task) error { c.n[3]++; return nil }, deps.InOut(&o.x[3]))
				}
				return nil
			}, deps.InOut(&o.x[3]).Weak())
		}
		return nil
	}},
	{"concurrent, and a reader", 6, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		before := c.any.Load()
		for range 6 {
			t.Spawn(func(*Task) error { c.any.Add(1); return nil }, deps.Concurrent(&o.x[0]))
		}
		t.Spawn(func(*Task) error { c.bad.check(c.any.Load() == before+6, "a reader is too early"); return nil }, deps.In(&o.x[0]))
		return nil
	}},
	{"a recorded loop", 10, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		t.Iterate(5, func(it *Iteration) error {
			it.Spawn(func(*Task) error { c.n[0]++; return nil }, deps.InOut(&o.x[0]))
			it.Spawn(func(*Task) error { c.n[0]++; return nil }, deps.InOut(&o.x[0]), deps.Out(&o.x[1]))
			return nil
		}, deps.InOut(&o.x[0]), deps.Out(&o.x[1]))
		return nil
	}},
	{"events and early releases", 8, func(t *Task, o *sharedObjects, c *sharedCounts) error {
		for range 4 {
			t.Spawn(func(t *Task) error {
				c.n[2]++
				if err := t.Release(deps.InOut(&o.x[2])); err != nil {
					return err
				}
				c.n[3]++
				go t.Hold()(nil)
				return nil
			}, deps.InOut(&o.x[2]), deps.Out(&o.x[3]))
		}
		return nil
	}},
}

// sum takes what the counts add up to.
func (c *sharedCounts) sum() (n int) {
	for _, x := range c.n {
		n += x
	}
	for _, x := range c.row {
		n += x
	}
	n += int(c.any.Swap(0))
	c.n, c.row = [4]int{}, [8]int{}
	return n
}

// Two runtimes whose tasks name the same objects are independent, except that Commutative tasks
// exclude each other. Each keeps the order of its own accesses, round after round, while runs of
// the other fail and are cut short. Debug mode reports no missing access.
func TestTwoRuntimesShareObjects(t *testing.T) {
	skipInLintMode(t, "the tasks share variables with those of other runs, which nothing orders")
	rounds := 12
	if underRace || testing.Short() {
		rounds = 4
	}
	for _, debug := range []bool{false, true} {
		var said strings.Builder // guarded by the handler
		cfg := Config{Workers: 2, Debug: debug, Logger: slog.New(slog.NewTextHandler(&said, nil))}
		rts := [2]*Runtime{newTestRuntime(t, cfg), newTestRuntime(t, cfg)}
		var o sharedObjects
		var wg sync.WaitGroup
		var n notes
		for k, rt := range rts {
			wg.Go(func() {
				c := new(sharedCounts)
				for round := range rounds {
					for i := range sharedShapes {
						p := &sharedShapes[(i+k*round)%len(sharedShapes)]
						fails := k == 0 && round%2 == 1
						err := rt.Run(bg, func(t *Task) error {
							if fails {
								t.Spawn(func(*Task) error { return errBody }, deps.InOut(&o.x[1]), deps.Slice(o.row[:]).In())
							}
							return p.main(t, &o, c)
						})
						got := c.sum()
						n.check((err != nil) == fails, "%s: %v", p.name, err)
						n.check(fails || got == p.want, "%s adds up to %d", p.name, got)
					}
				}
				n.check(len(c.bad.bad) == 0, "%v", c.bad.bad)
			})
		}
		wg.Wait()
		n.require(t)
		require.NotContains(t, said.String(), "do not order them")
	}
}

// While tasks of one runtime hold objects and wait, tasks of another runtime get the same objects
// at once; also after the first runtime is closed.
func TestNobodyWaitsForAnotherRuntime(t *testing.T) {
	skipInLintMode(t, "the tasks share variables with those of other runs, which nothing orders")
	first, other := newTestRuntime(t, Config{Workers: 2}), newTestRuntime(t, Config{Workers: 1})
	var o sharedObjects
	var mains [4]atomic.Pointer[Task]
	hold := []deps.Access{deps.InOut(&o.x[0]), deps.Out(&o.x[1]), deps.Slice(o.row[:]).InOut(), deps.Concurrent(&o.x[3])}
	over := make(chan error, 1)
	go func() {
		over <- first.Run(bg, func(t *Task) error {
			for i := range mains {
				t.Spawn(func(t *Task) error { mains[i].Store(t); return t.Block() }, hold[i])
			}
			return nil
		})
	}()
	rest := func() {
		c := new(sharedCounts)
		for i := range sharedShapes {
			p := &sharedShapes[i]
			require.NoError(t, other.Run(bg, func(t *Task) error { return p.main(t, &o, c) }), p.name)
			require.Equal(t, p.want, c.sum(), p.name)
		}
		c.bad.require(t)
	}
	for i := range mains {
		until(func() bool { x := mains[i].Load(); return x != nil && x.block.Load() == blocked })
	}
	rest()
	require.Empty(t, over, "the first runtime's tasks have gone on by the other's")
	for i := range mains {
		mains[i].Load().Unblock()
	}
	require.NoError(t, <-over)
	require.NoError(t, first.Close())
	rest()
}
