// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/internal/chain"
)

var growthLength = flag.Int("growth", 24_000, "length and depth of the programs of TestGrowth")

// growths are programs of n steps: long, or n deep. A step must cost the same whatever n is.
var growths = []struct {
	name string
	cfg  Config
	main func(t *Task, n int) error
}{
	{"children", Config{Window: -1}, func(t *Task, n int) error {
		for range n {
			t.Spawn(nothing)
		}
		return t.Wait()
	}},
	{"list under Wait", Config{Workers: 1}, func(t *Task, n int) error {
		t.Spawn(func(t *Task) error { return listOf(t, n) })
		return t.Wait()
	}},
	{"four lists under Wait", Config{Workers: 1}, func(t *Task, n int) error {
		for range 4 {
			t.Spawn(func(t *Task) error { return listOf(t, n/4) })
		}
		return t.Wait()
	}},
	{"list of priorities under Wait", Config{Workers: 1}, func(t *Task, n int) error {
		t.SpawnWith(Attrs{Priority: 1}, func(t *Task) error { return listWith(t, Attrs{Priority: 1}, n) })
		return t.Wait()
	}},
	{"chain", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		for range n {
			t.Spawn(nothing, deps.InOut(&x))
		}
		return t.Wait()
	}},
	{"nest with Wait", Config{Workers: 1}, func(t *Task, n int) error { return nest(t, n, true) }},
	{"nest with an object", Config{Workers: 1}, func(t *Task, n int) error {
		var x int
		return nest(t, n, false, deps.InOut(&x))
	}},
	{"nest with a weak object", Config{Workers: 1}, func(t *Task, n int) error {
		var x int
		return nest(t, n, false, deps.InOut(&x).Weak())
	}},
	{"nest with a range", Config{}, func(t *Task, n int) error { return nest(t, n, false, deps.Slice(make([]int, 4)).InOut()) }},
	{"nest with a Commutative object", Config{}, func(t *Task, n int) error {
		var x int
		return nest(t, n, false, deps.Commutative(&x))
	}},
	{"nest of undeferred tasks", Config{Workers: 1}, func(t *Task, n int) error { return undeferredNest(t, n) }},
	{"final nest", Config{Workers: 1}, func(t *Task, n int) error {
		t.SpawnWith(Attrs{Final: true}, func(t *Task) error { return nest(t, n, false) })
		return t.Wait()
	}},
	{"attribute Wait in a nest", Config{Workers: 1}, func(t *Task, n int) error { return listWith(t, Attrs{Wait: true}, n) }},
	{"readers", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		t.Spawn(nothing, deps.InOut(&x))
		for range n {
			t.Spawn(nothing, deps.In(&x))
		}
		t.Spawn(nothing, deps.InOut(&x))
		return t.Wait()
	}},
	{"Commutative", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		for range n {
			t.Spawn(nothing, deps.Commutative(&x))
		}
		return t.Wait()
	}},
	{"Commutative range", Config{Window: -1}, func(t *Task, n int) error {
		x := make([]int, 4)
		for i := range n {
			t.Spawn(nothing, deps.Slice(x[i%2:i%2+3]).Commutative())
		}
		return t.Wait()
	}},
	{"Commutative behind a holder", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		return behindHolder(t, n, deps.Commutative(&x), func(int) deps.Access { return deps.Commutative(&x) })
	}},
	{"Commutative ranges behind a holder", Config{Window: -1}, func(t *Task, n int) error {
		x := make([]int, 8)
		return behindHolder(t, n, deps.Slice(x).Commutative(), func(i int) deps.Access { return deps.Slice(x[i%4 : i%4+3]).Commutative() })
	}},
	{"many Commutative ranges behind a holder", Config{Window: -1}, func(t *Task, n int) error {
		x := make([]int, n+2)
		return behindHolder(t, n, deps.Slice(x).Commutative(), func(i int) deps.Access { return deps.Slice(x[i : i+2]).Commutative() })
	}},
	{"objects", Config{}, func(t *Task, n int) error {
		x := make([]int, n)
		for i := range n {
			t.Spawn(nothing, deps.InOut(&x[i]))
		}
		return t.Wait()
	}},
	{"ranges of two weak parents in debug mode", Config{Debug: true, Window: -1}, func(t *Task, n int) error {
		x := make([]int, n)
		for _, part := range [2][]int{x[:n/2], x[n/2:]} {
			t.Spawn(func(t *Task) error {
				for i := range part {
					t.Spawn(nothing, deps.Slice(part[i:i+1]).InOut())
				}
				return nil
			}, deps.Slice(part).InOut().Weak())
		}
		return t.Wait()
	}},
	{"ranges", Config{}, func(t *Task, n int) error {
		x := make([]int, n+1)
		for i := range n {
			t.Spawn(nothing, deps.Slice(x[i:i+2]).InOut())
		}
		return t.Wait()
	}},
	{"WaitOn", Config{}, func(t *Task, n int) error {
		var x int
		for range n {
			t.Spawn(nothing, deps.InOut(&x))
			if err := t.WaitOn(deps.In(&x)); err != nil {
				return err
			}
		}
		return nil
	}},
	{"WaitOn in a nest", Config{}, func(t *Task, n int) error {
		var x int
		return nestWith(t, n, func(t *Task) error { return t.WaitOn(deps.In(&x)) })
	}},
	{"Release in order", Config{}, func(t *Task, n int) error { return releases(t, n, false, func(i int) int { return i }) }},
	{"Release backwards", Config{}, func(t *Task, n int) error { return releases(t, n, false, func(i int) int { return n - 1 - i }) }},
	{"Release at random", Config{}, func(t *Task, n int) error {
		order := rand.New(rand.NewPCG(1, uint64(n))).Perm(n)
		return releases(t, n, false, func(i int) int { return order[i] })
	}},
	{"Release with children", Config{}, func(t *Task, n int) error { return releases(t, n, true, func(i int) int { return n - 1 - i }) }},
	{"Release of ranges", Config{}, func(t *Task, n int) error {
		x := make([]int, 2*n)
		list := make([]deps.Access, n)
		for i := range list {
			list[i] = deps.Slice(x[2*i : 2*i+1]).InOut()
		}
		t.Spawn(func(t *Task) error { return releaseEach(t, list) }, list...)
		return t.Wait()
	}},
	{"Release of objects among ranges", Config{}, func(t *Task, n int) error {
		x, y := make([]int, n), make([]int, 1)
		list := make([]deps.Access, n)
		for i := range list {
			list[i] = deps.InOut(&x[i])
		}
		t.Spawn(func(t *Task) error {
			t.Spawn(nothing, deps.Slice(y).InOut())
			return releaseEach(t, list)
		}, list...)
		return t.Wait()
	}},
	{"Release of reductions", Config{}, func(t *Task, n int) error {
		_, list := reductions(n)
		t.Spawn(func(t *Task) error { return releaseEach(t, list) }, list...)
		return t.Wait()
	}},
	{"Release of reductions among ranges", Config{}, func(t *Task, n int) error {
		_, list := reductions(n)
		t.Spawn(nothing, deps.Slice(make([]int, 1)).InOut())
		t.Spawn(func(t *Task) error { return releaseEach(t, list) }, list...)
		return t.Wait()
	}},
	{"Release of reductions in a recorded loop", Config{}, func(t *Task, n int) error {
		_, list := reductions(n)
		return t.iterateTwice(func(it *Iteration) {
			it.Spawn(func(t *Task) error { return releaseEach(t, list) }, list...)
		})
	}},
	{"Release of what children reduce", Config{Window: -1}, func(t *Task, n int) error {
		_, list := reductions(n)
		t.Spawn(func(t *Task) error {
			for _, a := range list {
				t.Spawn(nothing, a)
			}
			for _, a := range list {
				if err := t.Release(objectOf(a)); err != nil {
					return err
				}
			}
			return nil
		}, objectsOf(list)...)
		return t.Wait()
	}},
	{"reductions", Config{Window: -1}, func(t *Task, n int) error {
		all, list := reductions(n)
		for i, r := range all {
			t.Spawn(func(t *Task) error { *Local(t, r)++; return nil }, list[i])
		}
		return t.Wait()
	}},
	{"reductions that accesses end", Config{Window: -1}, func(t *Task, n int) error {
		_, list := reductions(n)
		for _, a := range list {
			t.Spawn(nothing, a)
		}
		for _, a := range objectsOf(list) {
			t.Spawn(nothing, a)
		}
		return t.Wait()
	}},
	{"reductions of one task", Config{}, func(t *Task, n int) error {
		all, list := reductions(n)
		t.Spawn(func(t *Task) error {
			for _, r := range all {
				*Local(t, r)++
			}
			return nil
		}, list...)
		return t.Wait()
	}},
	{"reductions in a recorded loop", Config{}, func(t *Task, n int) error {
		_, list := reductions(n)
		return t.iterateTwice(func(it *Iteration) {
			for _, a := range list {
				it.Spawn(nothing, a)
			}
			for _, a := range objectsOf(list[:n/2]) {
				it.Spawn(nothing, a)
			}
		})
	}},
	{"Release in a recorded loop", Config{}, func(t *Task, n int) error {
		x := make([]int, n)
		list := make([]deps.Access, n)
		for i := range list {
			list[i] = deps.InOut(&x[i])
		}
		return t.iterateTwice(func(it *Iteration) {
			it.Spawn(func(t *Task) error { return releaseEach(t, list) }, list...)
			for i := range list {
				it.Spawn(nothing, list[i])
			}
			it.Spawn(nothing, list...)
		})
	}},
	{"children after Release in a recorded loop", Config{}, func(t *Task, n int) error {
		x := make([]int, 2*n)
		list := make([]deps.Access, n)
		for i := range list {
			list[i] = deps.InOut(&x[i])
		}
		return t.iterateTwice(func(it *Iteration) {
			it.Spawn(func(t *Task) error {
				if err := t.Release(list[n/2:]...); err != nil {
					return err
				}
				for i := range n / 2 {
					t.Spawn(nothing, list[i])
				}
				return nil
			}, list...)
		})
	}},
	{"events", Config{}, func(t *Task, n int) error {
		release := make([]func(error), n)
		for i := range release {
			release[i] = t.Hold()
		}
		for _, f := range release {
			f(nil)
		}
		return nil
	}},
	{"blocked tasks", Config{Window: -1}, func(t *Task, n int) error {
		return allWait(t, n/8, func(t *Task, on func(func())) error { return t.Await(on) })
	}},
	{"Mutex", Config{Window: -1}, func(t *Task, n int) error {
		var m Mutex
		if err := m.Lock(t); err != nil {
			return err
		}
		for range n / 8 {
			t.Spawn(func(t *Task) error { return t.Critical(&m, func() error { return nil }) })
		}
		t.Sleep(time.Millisecond)
		m.Unlock(t)
		return t.Wait()
	}},
	{"throttled creators", Config{Window: 2}, func(t *Task, n int) error {
		for range n / 64 {
			t.SpawnWith(Attrs{Priority: 1}, func(t *Task) error {
				for range 2 * throttleEvery {
					t.Spawn(nothing)
				}
				return nil
			})
		}
		return t.Wait()
	}},
	{"detached", Config{}, func(t *Task, n int) error {
		var wg sync.WaitGroup
		for range n {
			wg.Add(1)
			t.Runtime().Spawn(context.Background(), nothing).OnDone(func(error) { wg.Done() })
		}
		t.Blocking(wg.Wait)
		return nil
	}},
	{"detached list", Config{}, func(t *Task, n int) error {
		var wg sync.WaitGroup
		wg.Add(1)
		detachedList(t.Runtime(), n, wg.Done)
		t.Blocking(wg.Wait)
		return nil
	}},
	{"failure", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		d := t.Runtime().Spawn(context.Background(), func(t *Task) error {
			t.Spawn(func(t *Task) error { return errGrowth }, deps.InOut(&x))
			for range n {
				t.Spawn(nothing, deps.InOut(&x))
			}
			return nil
		})
		if err := d.Join(t); !errors.Is(err, errGrowth) {
			return fmt.Errorf("joined with %w", err)
		}
		return nil
	}},
	{"failure with blocked tasks", Config{Window: -1}, func(t *Task, n int) error {
		d := t.Runtime().Spawn(context.Background(), func(t *Task) error {
			for range n / 8 {
				t.Spawn(func(t *Task) error { return t.Block() })
			}
			t.Sleep(time.Millisecond)
			return errGrowth
		})
		if err := d.Join(t); !errors.Is(err, errGrowth) {
			return fmt.Errorf("joined with %w", err)
		}
		return nil
	}},
	{"Reduce", Config{Window: -1}, func(t *Task, n int) error {
		var x int
		r := deps.NewReduction(&x, deps.Sum[int]())
		for range n {
			t.Spawn(func(t *Task) error { *Local(t, r)++; return nil }, r.Reduce())
		}
		return t.Wait()
	}},
	{"recorded loop", Config{}, func(t *Task, n int) error {
		var x [8]int
		return t.iterateTwice(func(it *Iteration) {
			for k := range n / 2 {
				it.Spawn(nothing, deps.InOut(&x[k%8]), deps.In(&x[(k+1)%8]))
			}
		})
	}},
	{"rounds of a recorded loop", Config{}, func(t *Task, n int) error {
		var x int
		t.Iterate(n, func(it *Iteration) error { it.Spawn(nothing, deps.InOut(&x)); return nil })
		return t.Wait()
	}},
}

var errGrowth = errors.New("planned")

// listOf is a list of n tasks, each of which spawns the next.
func listOf(t *Task, n int) error { return listWith(t, Attrs{}, n) }

func listWith(t *Task, a Attrs, n int) error {
	if n > 0 {
		t.SpawnWith(a, func(t *Task) error { return listWith(t, a, n-1) })
	}
	return nil
}

// nest is listOf with accesses that all its tasks have.
func nest(t *Task, n int, waits bool, accs ...deps.Access) error {
	if n == 0 {
		return nil
	}
	t.Spawn(func(t *Task) error { return nest(t, n-1, waits, accs...) }, accs...)
	if waits {
		return t.Wait()
	}
	return nil
}

func nestWith(t *Task, n int, f func(*Task) error) error {
	if n == 0 {
		return nil
	}
	t.Spawn(func(t *Task) error { return nestWith(t, n-1, f) })
	return f(t)
}

func undeferredNest(t *Task, n int) error {
	if n > 0 {
		t.SpawnWith(Attrs{Undeferred: true}, func(t *Task) error { return undeferredNest(t, n-1) })
	}
	return nil
}

// releases makes a task with n accesses give them up in the order at.
func releases(t *Task, n int, children bool, at func(i int) int) error {
	x := make([]int, n)
	list := make([]deps.Access, n)
	for i := range list {
		list[i] = deps.InOut(&x[i])
	}
	t.Spawn(func(t *Task) error {
		if children {
			t.Spawn(nothing, list[0])
		}
		for i := range list {
			if err := t.Release(list[at(i)]); err != nil {
				return err
			}
		}
		return nil
	}, list...)
	return t.Wait()
}

func releaseEach(t *Task, list []deps.Access) error {
	for i := range list {
		if err := t.Release(list[len(list)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// reductions returns n reductions and their accesses.
func reductions(n int) ([]*deps.Reduction[int], []deps.Access) {
	x := make([]int, n)
	all := make([]*deps.Reduction[int], n)
	list := make([]deps.Access, n)
	for i := range list {
		all[i] = deps.NewReduction(&x[i], deps.Sum[int]())
		list[i] = all[i].Reduce()
	}
	return all, list
}

// objectOf returns the access of the task that combines a reduction.
func objectOf(reduction deps.Access) deps.Access {
	return declared([]chain.Access{accessOf(reduction).Reduced().InOut()})[0]
}

// objectsOf returns accesses to the objects of reductions.
func objectsOf(reductions []deps.Access) []deps.Access {
	list := make([]deps.Access, len(reductions))
	for i, a := range reductions {
		list[i] = objectOf(a)
	}
	return list
}

func (t *Task) iterateTwice(record func(*Iteration)) error {
	t.Iterate(2, func(it *Iteration) error { record(it); return nil })
	return t.Wait()
}

// behindHolder spawns a task that holds an access until n other tasks have been spawned.
func behindHolder(t *Task, n int, holds deps.Access, access func(i int) deps.Access) error {
	dones := make(chan func(), 1)
	t.Spawn(func(t *Task) error { return t.Await(func(done func()) { dones <- done }) }, holds)
	var done func()
	t.Blocking(func() { done = <-dones })
	for i := range n {
		t.Spawn(nothing, access(i))
	}
	done()
	return t.Wait()
}

// allWait makes n tasks wait, each for the call of its own function, and calls all functions.
func allWait(t *Task, n int, wait func(t *Task, on func(func())) error) error {
	var mu sync.Mutex
	var all []func()
	for range n {
		t.Spawn(func(t *Task) error {
			return wait(t, func(f func()) {
				mu.Lock()
				all = append(all, f)
				mu.Unlock()
			})
		})
	}
	for {
		mu.Lock()
		come := len(all)
		mu.Unlock()
		if come == n {
			break
		}
		t.Sleep(100 * time.Microsecond)
	}
	for _, f := range all {
		f()
	}
	return t.Wait()
}

func detachedList(rt *Runtime, n int, done func()) {
	rt.Spawn(context.Background(), func(*Task) error {
		if n == 0 {
			done()
			return nil
		}
		detachedList(rt, n-1, done)
		return nil
	})
}

// TestGrowth: the cost of a program's step does not depend on the number of steps, or their depth.
// It compares processor time in one process, the best of some tries. A walk along the length would
// exceed the bound by far.
func TestGrowth(t *testing.T) {
	const short, bound, tries = 2000, 6, 5 // new memory alone makes steps up to four times as long
	if underRace || inLintMode() {
		t.Skip("compares processor times")
	}
	for _, g := range growths {
		t.Run(g.name, func(t *testing.T) {
			cfg := g.cfg
			if cfg.Workers == 0 {
				cfg.Workers = 2
			}
			rt := newTestRuntime(t, cfg)
			cost := func(n, times int) time.Duration {
				before := cpuTime(t)
				for range times {
					require.NoError(t, rt.Run(bg, func(t *Task) error { return g.main(t, n) }))
				}
				return (cpuTime(t) - before) / time.Duration(n*times)
			}
			few, many := time.Duration(1<<62), time.Duration(1<<62)
			for try := 0; try < tries && (try == 0 || many > bound*few); try++ {
				few, many = min(few, cost(short, max(1, *growthLength/short))), min(many, cost(*growthLength, 1))
			}
			t.Logf("a step of %-30s %v at %d, %v at %d: %.1f", g.name, few, short, many, *growthLength, float64(many)/float64(few))
			require.LessOrEqual(t, many, bound*few, "processor time of a step, of %d and of %d", *growthLength, short)
		})
	}
}
