// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build weftlint && race

package linttest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
	"weft/task"
)

// spawnTree spawns children of t, which has write access to m. Some use a part of m, and some have
// children that do. Each task uses all that it declares and nothing else, and only as long as it
// has the access. So the race detector must report nothing.
func spawnTree(t *task.Task, r *rand.Rand, m []int, weak bool, depth int) error {
	for range 2 + r.IntN(6) {
		lo := r.IntN(len(m))
		part := m[lo : lo+1+r.IntN(len(m)-lo)]
		x, seed := deps.Slice(part), r.Uint64()
		sub := rand.New(rand.NewPCG(seed, 2))
		touch := func() {
			for i := range part {
				part[i]++
			}
		}
		sum := func() (n int) {
			for _, v := range part {
				n += v
			}
			return n
		}
		switch k := r.IntN(10); {
		case k < 2:
			t.Spawn(func(*task.Task) error { touch(); return nil }, x.InOut())
		case k < 4:
			t.Spawn(func(*task.Task) error { sum(); return nil }, x.In())
		case k < 5:
			t.Spawn(func(*task.Task) error { part[0]++; return nil }, deps.Commutative(&part[0]))
		case k < 6 && depth > 0:
			t.SpawnWith(task.Attrs{Wait: r.IntN(2) == 0}, func(t *task.Task) error { return spawnTree(t, sub, part, true, depth-1) }, x.InOut().Weak())
		case k < 7 && depth > 0:
			t.SpawnWith(task.Attrs{Undeferred: r.IntN(3) == 0}, func(t *task.Task) error {
				touch() // the task has no children yet
				if err := spawnTree(t, sub, part, false, depth-1); err != nil {
					return err
				}
				if sub.IntN(2) == 0 {
					if err := t.Wait(); err != nil {
						return err
					}
					touch()
				}
				return nil
			}, x.InOut())
		case k < 8:
			t.Spawn(func(t *task.Task) error {
				touch()
				cut := sub.IntN(len(part))
				if err := t.Release(deps.Slice(part[cut:]).InOut()); err != nil {
					return err
				}
				part = part[:cut]
				touch()
				end := t.Hold()
				go func() {
					touch()
					end(nil)
				}()
				return nil
			}, x.InOut())
		case k < 9:
			if err := t.WaitOn(x.In()); err != nil {
				return err
			}
			if !weak { // a weak access is for children only
				sum()
			}
		default:
			t.Iterate(2, func(it *task.Iteration) error {
				it.Spawn(func(*task.Task) error { touch(); return nil }, x.InOut())
				it.Spawn(func(*task.Task) error { sum(); return nil }, x.In())
				return nil
			}, x.InOut())
		}
	}
	return nil
}

func TestRightRandomProgramsAreClean(t *testing.T) {
	for seed := range uint64(60) {
		for _, workers := range []int{1, 3} {
			rt := task.New(task.Config{Workers: workers})
			m := make([]int, 40)
			err := rt.Run(context.Background(), func(t *task.Task) error { return spawnTree(t, rand.New(rand.NewPCG(seed, 3)), m, false, 3) })
			require.NoError(t, err, "seed %d, %d workers", seed, workers)
			require.NoError(t, rt.Close())
			// a race makes the test fail
			require.False(t, t.Failed(), "seed %d, %d workers", seed, workers)
		}
	}
}
