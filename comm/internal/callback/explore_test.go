//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"fmt"
	"testing"

	"weft/internal/explore"
	"weft/internal/xatomic"
)

// In every order, each callback runs once, and at most depthLimit run at a time. Lists that one
// goroutine has deferred run in the order in which they were deferred.
func TestExploreTrampoline(t *testing.T) {
	for _, p := range []struct {
		name  string
		some  int
		lists []int // by goroutine: how many lists it runs
	}{
		{"two", 0, []int{1, 1}},
		{"two and more", 0, []int{2, 1}},
		{"three", 20_000, []int{1, 1, 1}},
		{"many", 20_000, []int{3, 2}},
	} {
		t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) {
				var tr Trampoline
				r.Name("trampoline", &tr)
				var inside xatomic.Int32
				ran := make([]int, len(p.lists))
				for g, n := range p.lists {
					r.Go(fmt.Sprint("goroutine ", g), func() {
						for k := range n {
							tr.run(&Node{Func: func(error) {
								r.Check(inside.Add(1) <= depthLimit, "too many run at a time")
								ran[g]++
								r.Check(ran[g] == k+1, "goroutine %d: callback %d runs as number %d", g, k, ran[g])
								inside.Add(-1)
							}}, nil)
						}
					})
				}
				r.End(func() error {
					for g, n := range p.lists {
						if ran[g] != n {
							return fmt.Errorf("goroutine %d: %d of %d callbacks have run", g, ran[g], n)
						}
					}
					if tr.active.Load() != 0 || tr.deferred.Load() != 0 || tr.backlog != nil {
						return fmt.Errorf("%d active, %d deferred, a backlog of %d", tr.active.Load(), tr.deferred.Load(), len(tr.backlog))
					}
					return nil
				})
			})
		})
	}
}

// TestPlantedBugs leaves out each step of the package comment in turn. The exploration has to find
// every bug.
func TestPlantedBugs(t *testing.T) { explore.FindBugs(t, "callback", plantedBugs) }

var plantedBugs = []explore.Bug{
	{
		Name: "R3 left out", File: "callback.go", Test: "TestExploreTrampoline",
		At: "R3",
		New: `		return
`,
	},
	{
		Name: "L2 left out", File: "callback.go", Test: "TestExploreTrampoline",
		At: "L2",
		New: `		return
`,
	},
	{
		Name: "R1 takes back what it has added", File: "callback.go", Test: "TestExploreTrampoline",
		At: "R1",
		New: `		if t.active.Add(1) <= depthLimit {
			return true
		}
		t.active.Add(-1)
		return false
`,
	},
	{
		Name: "L2 before L1", File: "callback.go", Test: "TestExploreTrampoline",
		At: "L1",
		New: `		if t.deferred.Load() == 0 {
			t.active.Add(-1)
			return
		}
		t.active.Add(-1)
`,
	},
}
