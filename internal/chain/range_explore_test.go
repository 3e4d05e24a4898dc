//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestExploreRanges runs random programs of ranges and objects under random schedules that switch
// around each atomic operation and each critical section:
//
//	go test -tags explore -run ExploreRanges ./deps
func TestExploreRanges(t *testing.T) {
	count := 2000
	if *programsFlag > 0 {
		count = *programsFlag
	}
	for i := range rprofiles {
		t.Run(rprofiles[i].name, func(t *testing.T) {
			base := rand.Uint64() >> 16
			if *seedFlag != 0 {
				base, count = *seedFlag, 1
			}
			for k := range count {
				seed := base + uint64(k)
				r := rand.New(rand.NewPCG(seed, 13))
				p := rprofiles[i]
				p.tasks = 3 + r.IntN(p.tasks)
				c, pr, root := newRCrew(&p, r)
				c.explore(root, r, seed)
				c.verify(t, &profile{nofree: true}, &pr.planner, seed)
			}
		})
	}
}

// rangePlan is sketch.plan for lists in the form of rdecl.String.
func (s sketch) rangePlan(r *rand.Rand) *plan {
	t := &plan{name: s.list, want: map[int]int64{}, last: len(s.kids) == 0, held: r.IntN(2) == 0}
	for _, a := range strings.Fields(s.list) {
		d, ok := parseRange(a)
		if !ok {
			panic("not an access: " + a)
		}
		t.ranges = append(t.ranges, d)
	}
	t.accs = combineDecls(allBytes(t.ranges))
	for _, k := range s.kids {
		t.ops = append(t.ops, op{child: k.rangePlan(r)})
	}
	return t
}

// rangeSketches are made for late messages between chains of objects and ranges.
var rangeSketches = map[string]sketch{
	// One goroutine has the read token of all bytes for the parent's access; another one brings the
	// write token.
	"late from a sink": program(leaf("inout(0..4)"), leaf("inout(6..7)"),
		nest("weakinout(0..4) weakinout(6..7)", leaf("in[0:4] in[6:7]")), leaf("in(4..6)"), leaf("in(0..4)"), leaf("inout(0..4)")),
	"late from a sink, two readers": program(leaf("inout(0..4)"), leaf("inout(6..7)"),
		nest("weakinout(0..4) weakinout(6..7)", leaf("in[0:2] in[6:7]"), leaf("in[2:4] in[6:7]")), leaf("inout(0..4)"), leaf("inout(0..4)")),
	"late into a gate":     program(leaf("inout(0..4)"), leaf("in(0..4)"), leaf("weakinout(0..4)"), leaf("in[2:5]"), leaf("inout[0:6]")),
	"late through a nest":  program(leaf("inout(0..4)"), leaf("in(0..4)"), nest("weakinout(0..4)", leaf("in[1:3]"), leaf("weakinout[0:4]")), leaf("in(0..4)"), leaf("inout(0..4)")),
	"two chains in a gate": program(leaf("inout(0..4)"), leaf("inout(4..6)"), leaf("in[1:5]"), leaf("in[3:6]"), leaf("inout(4..6)")),
	"run into a gate":      program(leaf("inout(0..4)"), leaf("weakconcurrent(0..4)"), leaf("concurrent[1:3]"), leaf("concurrent[0:6]"), leaf("inout[2:3]")),
	"run in a nest":        program(leaf("concurrent(0..4)"), nest("weakconcurrent(0..4)", leaf("concurrent[0:2]"), leaf("concurrent[1:4]")), leaf("inout(0..4)")),
}

// TestExploreRangeSketches runs each sketch under many schedules.
func TestExploreRangeSketches(t *testing.T) {
	count := 2000
	if *programsFlag > 0 {
		count = *programsFlag
	}
	for name, sk := range rangeSketches {
		t.Run(name, func(t *testing.T) {
			for range count {
				seed := rand.Uint64() >> 16
				if *seedFlag != 0 {
					seed = *seedFlag
				}
				r := rand.New(rand.NewPCG(seed, 14))
				root := sk.rangePlan(r)
				pr := &planner{value: make([]int64, cells)}
				pr.simulate(root)
				c := &crew{objs: make([]int64, cells), checked: true, keep: []int{0, 1000}[r.IntN(2)]}
				c.explore(root, r, seed)
				c.verify(t, &profile{nofree: true}, pr, seed)
				if *seedFlag != 0 {
					break
				}
			}
		})
	}
}
