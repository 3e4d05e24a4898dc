//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Callbacks that run callbacks nest as deep as the limit, and no deeper. Further lists run when
// there is room, in their order, each with its own error. Afterwards the trampoline is empty.
func TestTrampolineNests(t *testing.T) {
	for _, calls := range []int{1, depthLimit - 1, depthLimit, depthLimit + 1, 3 * depthLimit} {
		var tr Trampoline
		depth, deepest := 0, 0
		var order []string
		var nest func(n int) *Node
		nest = func(n int) *Node {
			return &Node{Func: func(err error) {
				depth++
				deepest = max(deepest, depth)
				order = append(order, fmt.Sprint(n, " ", err))
				if n+1 < calls {
					tr.run(nest(n+1), fmt.Errorf("%d", n+1))
				}
				depth--
			}}
		}
		tr.run(nest(0), errors.New("0"))
		require.Equal(t, min(calls, depthLimit), deepest)
		require.Len(t, order, calls)
		for n, got := range order {
			require.Equal(t, fmt.Sprintf("%d %d", n, n), got)
		}
		require.Zero(t, tr.active.Load())
		require.Nil(t, tr.backlog, "nothing is kept")
	}
}

// Lists that find no room wait in their order, each list whole, and are not referenced after they
// have run. If a callback panics, all others still run.
func TestTrampolineBacklog(t *testing.T) {
	for _, panics := range []bool{false, true} {
		var tr Trampoline
		tr.active.Store(depthLimit - 1) // other calls are active
		var order []int
		call := func(i int) *Node { return &Node{Func: func(error) { order = append(order, i) }} }
		var kept []deferredList
		first := &Node{Func: func(error) {
			for i := 1; i <= 5; i++ {
				list := call(10 * i)
				list.Next = call(10*i + 1)
				tr.run(list, errors.New("the list's"))
			}
			kept = tr.backlog
			require.Empty(t, order, "there is no room")
			require.Len(t, kept, 5)
			if panics {
				panic("test")
			}
		}, Next: call(1)}
		run := func() { tr.run(first, nil) }
		if panics {
			require.PanicsWithValue(t, "test", run)
		} else {
			run()
		}
		require.Equal(t, []int{1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51}, order)
		require.EqualValues(t, depthLimit-1, tr.active.Load())
		require.Zero(t, tr.deferred.Load())
		require.Nil(t, tr.backlog)
		require.Equal(t, make([]deferredList, 5), kept, "lists that have run are not referenced")
		tr.run(call(2), nil)
		require.Equal(t, 2, order[len(order)-1])
		require.EqualValues(t, depthLimit-1, tr.active.Load())
		require.Zero(t, tr.deferred.Load())
	}
}

// Goroutines complete requests in chains, concurrently. Every callback runs once, and no stack is
// deep.
func TestHammer(t *testing.T) {
	const goroutines, chains, links = 8, 50, 200
	set := NewSet(2)
	var ran atomic.Int64
	var deepest atomic.Int32
	var all, wg sync.WaitGroup
	all.Add(goroutines * chains * links)
	for range goroutines {
		wg.Go(func() {
			var depth atomic.Int32
			for range chains {
				var link func(left int) *Node
				link = func(left int) *Node {
					return &Node{Func: func(error) {
						deepest.Store(max(deepest.Load(), depth.Add(1)))
						ran.Add(1)
						if left > 1 {
							set.Run(link(left-1), nil)
						}
						depth.Add(-1)
						all.Done()
					}}
				}
				set.Run(link(links), nil)
			}
		})
	}
	wg.Wait()
	all.Wait()
	require.EqualValues(t, goroutines*chains*links, ran.Load())
	require.Less(t, deepest.Load(), int32(links), "no chain is as deep as it is long")
	for i := range set.all {
		require.Zero(t, set.all[i].active.Load())
		require.Nil(t, set.all[i].backlog)
	}
}

// The size of a set is a power of two, and goroutines use several of its trampolines.
func TestSet(t *testing.T) {
	for procs, want := range map[int]int{0: 8, 1: 8, 4: 8, 5: 16, 128: 256, 129: 512} {
		require.Len(t, NewSet(procs).all, want)
	}
	seen := map[int]bool{}
	var mu sync.Mutex
	var wg, here sync.WaitGroup
	here.Add(64)
	for range 64 {
		wg.Go(func() {
			n := stripe(16)
			here.Done()
			here.Wait() // all stacks exist at the same time
			mu.Lock()
			seen[n] = true
			mu.Unlock()
		})
	}
	wg.Wait()
	require.Greater(t, len(seen), 3)
	for n := range seen {
		require.Less(t, uint(n), uint(16))
	}
}
