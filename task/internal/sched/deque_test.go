// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weft/internal/chain"

	"github.com/stretchr/testify/require"
)

// newDequeAt returns a deque with a ring of n cells whose counters stand at start.
func newDequeAt(n, start int64) *deque {
	d := new(deque)
	d.init(n)
	d.top.Store(start)
	d.bottom.Store(start)
	return d
}

// The steps of the table: + pushes, - pops, < steals; after a - or < is the number of the task that
// must come out, or . for none; G checks that the ring has grown to so many cells.
func TestDequeSteps(t *testing.T) {
	for _, steps := range []string{
		"-. <.",
		"+ -1 -. <.",
		"+ <1 -. <.",
		"+ + -2 -1 -.",
		"+ + <1 <2 <.",
		"+ + <1 -2 -. <. + -3",
		"+ + + <1 -3 <2 -. + + <4 -5",
		"+ + + + G4 -4 -3 -2 -1 -.",
		"+ + + + + G8 -5 -4 -3 -2 -1 -. <.",
		"+ + + + + G8 <1 <2 <3 <4 <5 <. -.",
		"+ + + <1 + + G4 <2 + + G8 <3 -7 <4 -6 <5 -.",
		"+ <1 + <2 + <3 + <4 + <5 + <6 + <7 + <8 + <9 G4",
		"+ -1 + -2 + -3 + -4 + -5 + -6 + -7 + -8 + -9 G4",
		"+ + + + + + + + + G16 <1 -9 <2 -8 <3 -7 <4 -6 <5 -. <.",
	} {
		// From each cell of the ring, also around 2³¹, 2³² and a count that a billion tasks per
		// second reach after a hundred years.
		for _, base := range []int64{0, 1 << 8, 1<<31 - 8, 1<<32 - 8, 1<<61 - 8} {
			for at := range int64(17) {
				dequeSteps(t, newDequeAt(4, base+at), steps)
			}
		}
	}
}

func dequeSteps(t *testing.T, d *deque, steps string) {
	t.Helper()
	start := d.top.Load()
	made := []*chain.Node{nil}
	for i := 0; i < len(steps); i++ {
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("start %d, %q, step %d: %s", start, steps, i, fmt.Sprintf(format, args...))
		}
		var got *chain.Node
		op := steps[i]
		switch op {
		case ' ':
			continue
		case '+':
			made = append(made, new(chain.Node))
			d.push(made[len(made)-1])
			continue
		case '-':
			got = d.pop()
		case '<':
			var lost bool
			if got, lost = d.steal(); lost {
				fail("lost a contest without a thief")
			}
		}
		i++
		want := 0
		if steps[i] != '.' {
			for ; i < len(steps) && steps[i] != ' '; i++ {
				want = 10*want + int(steps[i]-'0')
			}
		}
		switch {
		case op == 'G':
			if n := len(d.buf.Load().cells); n != want {
				fail("%d cells", n)
			}
		case got != made[want]:
			fail("got task %d, want %d", slices.Index(made, got), want)
		}
		if d.empty() != (d.bottom.Load() == d.top.Load()) {
			fail("empty is wrong")
		}
	}
}

// Random steps are compared with a slice.
func TestDequeRandomSteps(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 2))
		d := newDequeAt(2, rng.Int64N(1<<62))
		var model []*chain.Node
		for range 2000 {
			switch rng.IntN(5) {
			case 0, 1:
				x := new(chain.Node)
				d.push(x)
				model = append(model, x)
			case 2, 3:
				x := d.pop()
				if len(model) == 0 {
					require.Nil(t, x)
					continue
				}
				last := len(model) - 1
				require.Same(t, model[last], x)
				model = model[:last]
			case 4:
				x, lost := d.steal()
				require.False(t, lost)
				if len(model) == 0 {
					require.Nil(t, x)
					continue
				}
				require.Same(t, model[0], x)
				model = model[1:]
			}
			require.Equal(t, len(model) == 0, d.empty(), "seed %d", seed)
		}
	}
}

// numbers returns the index of each task.
func numbers(tasks []chain.Node) map[*chain.Node]int {
	m := make(map[*chain.Node]int, len(tasks))
	for i := range tasks {
		m[&tasks[i]] = i
	}
	return m
}

// With one owner and several thieves, every task comes out exactly once. The ring starts with two
// cells, so that it grows while thieves steal. Bursts of one task make the owner and the thieves
// contend for the last task.
func TestDequeHammer(t *testing.T) {
	total := 200000
	if testing.Short() {
		total = 20000
	}
	for _, thieves := range []int{1, 2, 4} {
		for _, burst := range []int{1, 2, 3, 50} {
			for _, start := range []int64{0, 1<<32 - 5} {
				d := newDequeAt(2, start)
				tasks := make([]chain.Node, total)
				taken := make([]atomic.Int32, total)
				number := numbers(tasks)
				take := func(x *chain.Node) { taken[number[x]].Add(1) }
				var stop atomic.Bool
				var wg sync.WaitGroup
				for range thieves {
					wg.Go(func() {
						for {
							last := stop.Load()
							x, lost := d.steal()
							switch {
							case x != nil:
								take(x)
							case lost:
							case last:
								return
							default:
								runtime.Gosched()
							}
						}
					})
				}
				rng := rand.New(rand.NewPCG(uint64(burst), 3))
				for i := 0; i < total; {
					for range min(1+rng.IntN(burst), total-i) {
						d.push(&tasks[i])
						i++
					}
					for range rng.IntN(burst + 1) {
						if x := d.pop(); x != nil {
							take(x)
						}
					}
				}
				for x := d.pop(); x != nil; x = d.pop() {
					take(x)
				}
				stop.Store(true)
				wg.Wait()
				for i := range taken {
					if n := taken[i].Load(); n != 1 {
						t.Fatalf("task %d came out %d times (thieves %d, burst %d)", i, n, thieves, burst)
					}
				}
				require.True(t, d.empty())
			}
		}
	}
}

// Stealing preserves the order of the pushes: one thief gets tasks in their order.
func TestDequeStealsOldestFirstHammer(t *testing.T) {
	const total = 20000
	d := newDequeAt(2, 0)
	tasks := make([]chain.Node, total)
	var stop atomic.Bool
	var wg sync.WaitGroup
	number := numbers(tasks)
	var early atomic.Int64
	for range 3 {
		wg.Go(func() {
			last := -1
			for !stop.Load() || !d.empty() {
				if x, _ := d.steal(); x != nil {
					if number[x] < last {
						early.Add(1)
					}
					last = number[x]
				} else {
					runtime.Gosched()
				}
			}
		})
	}
	for i := range tasks {
		d.push(&tasks[i])
	}
	stop.Store(true)
	wg.Wait()
	require.Zero(t, early.Load(), "tasks stolen after a newer one")
}

// The injection queue is first in, first out, for any number of goroutines.
func TestInject(t *testing.T) {
	var q inject
	require.Nil(t, q.pop())
	tasks := make([]chain.Node, 10)
	for round := range 3 {
		for i := range tasks {
			q.push(&tasks[i])
			require.EqualValues(t, i+1, q.n.Load())
		}
		for i := range tasks {
			require.Same(t, &tasks[i], q.pop(), "round %d", round)
		}
		require.Nil(t, q.pop())
	}
	var wg sync.WaitGroup
	var out atomic.Int32
	many := make([]chain.Node, 4000)
	for g := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				q.push(&many[1000*g+i])
				if q.pop() != nil {
					out.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for q.pop() != nil {
		out.Add(1)
	}
	require.EqualValues(t, 4000, out.Load())
}
