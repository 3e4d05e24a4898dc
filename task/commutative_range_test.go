// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// Tasks add to random parts of an array, and to objects in it, nested, weak and in recorded loops.
// Each element has the right sum, and the race detector sees no two tasks at one element.
func TestCommutativeRangeSums(t *testing.T) {
	const size, tasks = 48, 300
	for seed := range uint64(4) {
		rt := newTestRuntime(t, Config{Workers: 4})
		r := rand.New(rand.NewPCG(seed, 0))
		var sum, want [size]int
		add := func(lo, hi int) func(*Task) error {
			return func(*Task) error {
				for i := lo; i < hi; i++ {
					sum[i]++
					if i%7 == 0 {
						runtime.Gosched()
					}
				}
				return nil
			}
		}
		part := func() (lo, hi int) {
			lo = r.IntN(size)
			return lo, lo + 1 + r.IntN(size-lo)
		}
		counted := func(lo, hi, times int) {
			for i := lo; i < hi; i++ {
				want[i] += times
			}
		}
		require.NoError(t, rt.Run(bg, func(t *Task) error {
			t.Spawn(nothing, deps.Slice(sum[:]).InOut())
			for k := range tasks {
				lo, hi := part()
				switch k % 6 {
				case 0: // parts of what a weak task has declared, one after the other
					mid := lo + r.IntN(hi-lo)
					t.Spawn(func(t *Task) error {
						t.Spawn(add(lo, hi), deps.Slice(sum[lo:hi]).Commutative())
						t.Spawn(add(mid, hi), deps.Slice(sum[mid:hi]).Commutative())
						return nil
					}, deps.Slice(sum[lo:hi]).Commutative().Weak())
					counted(lo, hi, 1)
					counted(mid, hi, 1)
				case 1: // children of a task that holds it
					t.Spawn(func(t *Task) error {
						t.Spawn(add(lo, hi), deps.Slice(sum[lo:hi]).Commutative())
						return nil
					}, deps.Slice(sum[lo:hi]).Commutative())
					counted(lo, hi, 1)
				case 2: // two parts and an object
					a, b := part()
					list := []deps.Access{deps.Slice(sum[lo:hi]).Commutative(), deps.Slice(sum[a:b]).Commutative(), deps.Commutative(&sum[k%size])}
					t.Spawn(func(t *Task) error {
						sum[k%size]++
						_ = add(lo, hi)(t)
						return add(a, b)(t)
					}, list...)
					counted(lo, hi, 1)
					counted(a, b, 1)
					want[k%size]++
				case 3: // given up early, in parts
					mid := lo + r.IntN(hi-lo)
					t.Spawn(func(t *Task) error {
						_ = add(mid, hi)(t)
						if err := t.Release(deps.Slice(sum[mid:hi]).Commutative()); err != nil {
							return err
						}
						return add(lo, mid)(t)
					}, deps.Slice(sum[lo:hi]).Commutative())
					counted(lo, hi, 1)
				case 4:
					if k%5 == 0 {
						t.Iterate(3, func(it *Iteration) error {
							it.Spawn(add(lo, hi), deps.Slice(sum[lo:hi]).Commutative())
							return nil
						}, deps.Slice(sum[lo:hi]).Commutative())
						counted(lo, hi, 3)
						break
					}
					fallthrough
				default:
					t.Spawn(add(lo, hi), deps.Slice(sum[lo:hi]).Commutative())
					counted(lo, hi, 1)
				}
			}
			return t.WaitOn(deps.Slice(sum[:]).In())
		}))
		require.Equal(t, want, sum)
	}
}

// Tasks with disjoint ranges run together, and so do groups at both ends of a busy range.
func TestCommutativeRangesRunTogether(t *testing.T) {
	rt := newTestRuntime(t, Config{Workers: 3})
	var x [6]int
	var both sync.WaitGroup
	both.Add(3)
	require.NoError(t, rt.Run(bg, func(t *Task) error {
		for i := range 3 {
			t.Spawn(func(t *Task) error {
				t.Blocking(func() {
					both.Done()
					both.Wait()
				})
				return nil
			}, deps.Slice(x[2*i:2*i+2]).Commutative())
		}
		return t.Wait()
	}))
}
