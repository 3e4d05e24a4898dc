// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// groupSizes are at, below and above the bounds of a task and a slot: accesses in a node, delayed
// completions, spawns between checks of the throttle, tasks that a thief takes, free tasks.
var groupSizes = []int{1, 2, 4, 5, 6, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129, 193}

// A cohort is a sequence of tasks with one mode, all of which use the same objects.
type cohort struct {
	mode    deps.Mode
	size    int
	objects []int // more than a node has room for, in some
}

// groupProgram draws cohorts. Neighbours have different modes, so each task waits for the whole
// cohort before it.
func groupProgram(r *rand.Rand, objects int) []cohort {
	list := make([]cohort, 6)
	for i := range list {
		g := &list[i]
		for g.mode = rmodes[r.IntN(len(rmodes))]; i > 0 && g.mode == list[i-1].mode; {
			g.mode = rmodes[r.IntN(len(rmodes))]
		}
		g.size = groupSizes[r.IntN(len(groupSizes))]
		// all cohorts have the first object
		g.objects = append([]int{0}, r.Perm(objects - 1)[:r.IntN(objects)]...)
		for k := range g.objects[1:] {
			g.objects[k+1]++
		}
	}
	return list
}

// groupRun is a program that is run for some rounds.
type groupRun struct {
	obj  []int64
	sums []*deps.Reduction[int64]
	n    notes
	in   []atomic.Int32 // tasks of each group that have begun in this round
	out  []atomic.Int32
}

func newGroupRun(objects, groups int) *groupRun {
	w := &groupRun{obj: make([]int64, objects), in: make([]atomic.Int32, groups), out: make([]atomic.Int32, groups)}
	for i := range w.obj {
		w.sums = append(w.sums, deps.NewReduction(&w.obj[i], deps.Sum[int64]()))
	}
	return w
}

// accesses returns the accesses of a task of g; with ranges, every second object is named as a
// range.
func (w *groupRun) accesses(g cohort, ranges bool) (list []deps.Access) {
	world := &rworld{obj: w.obj, sums: w.sums}
	for _, o := range g.objects {
		world.ranges = ranges && o%2 == 1
		list = append(list, ruse{obj: o, mode: g.mode}.access(world))
	}
	return list
}

// body is the body of a task of cohort i: the cohorts before it have run as a whole, and no task of
// a later cohort has begun.
func (w *groupRun) body(t *Task, list []cohort, i, round int) {
	g := list[i]
	w.in[i].Add(1)
	for k, other := range list {
		want := int32(round * other.size)
		if k < i {
			want += int32(other.size)
		}
		in, out := w.in[k].Load(), w.out[k].Load()
		ok := in == want && out == want
		switch {
		case k == i || g.mode == deps.ModeReduce: // participants of a reduction wait for no task
			ok = true
		case other.mode == deps.ModeReduce:
			ok = k > i || out >= want
		}
		w.n.check(ok, "round %d, group %d of %v runs with %d of group %d begun and %d over; legal is %d", round, i, list, in, k, out, want)
	}
	for _, o := range g.objects {
		p := &w.obj[o]
		switch g.mode {
		case deps.ModeIn:
			_ = *p // the race detector
		case deps.ModeConcurrent:
			atomic.AddInt64(p, 1)
		case deps.ModeReduce:
			*Local(t, w.sums[o])++
		default:
			*p = *p + 1
		}
	}
	w.out[i].Add(1)
}

// Cohorts of every mode and of sizes around each bound follow each other: in plain and in recorded
// loops, over many rounds of the same memory, with objects and ranges mixed, on two runtimes at
// once. No contribution is lost.
func TestLargeGroups(t *testing.T) {
	skipInLintMode(t, "bodies share counters that no access orders")
	seed := uint64(time.Now().UnixNano())
	if *seedFlag != 0 {
		seed = *seedFlag
	}
	rts := []*Runtime{newTestRuntime(t, Config{Workers: 2}), newTestRuntime(t, Config{Workers: 3, Window: 16})}
	programs := 12
	if underRace || testing.Short() {
		programs = 3
	}
	for k := range programs {
		r := rand.New(rand.NewPCG(seed+uint64(k), 3))
		objects := 1 + r.IntN(8)
		list := groupProgram(r, objects)
		for way := range 4 {
			recorded, ranges := way%2 == 1, way/2 == 1
			const rounds = 5
			w := newGroupRun(objects, len(list))
			what := fmt.Sprintf("-task.seed %d: %v, recorded %v, ranges %v", seed+uint64(k), list, recorded, ranges)
			require.NoError(t, rts[k%2].Run(bg, func(t *Task) error {
				if recorded && !ranges {
					t.Iterate(rounds, func(it *Iteration) error {
						// else the last cohort and the first may have the same mode
						it.Spawn(nothing, deps.InOut(&w.obj[0]))
						for i, g := range list {
							for range g.size {
								it.Spawn(func(t *Task) error { w.body(t, list, i, t.Iteration()); return nil }, w.accesses(g, ranges)...)
							}
						}
						return nil
					})
					return nil
				}
				for round := range rounds {
					t.Spawn(nothing, deps.InOut(&w.obj[0]))
					for i, g := range list {
						for range g.size {
							t.Spawn(func(t *Task) error { w.body(t, list, i, round); return nil }, w.accesses(g, ranges)...)
						}
					}
					if recorded {
						if err := t.Wait(); err != nil {
							// the memory of tasks, and the tables, are reused
							return err
						}
					}
				}
				return nil
			}), what)
			w.n.require(t)
			for o := range w.obj {
				want := 0
				for _, g := range list {
					for _, x := range g.objects {
						if x == o && g.mode != deps.ModeIn {
							want += rounds * g.size
						}
					}
				}
				require.EqualValues(t, want, w.obj[o], "object %d of %s", o, what)
			}
		}
	}
}
