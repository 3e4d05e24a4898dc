// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// rplanner makes plans with ranges, in which declarations cover the children's.
type rplanner struct {
	planner
	p *rprofile
	n int // tasks made
}

func (pr *rplanner) task(parent *plan, given map[int]bool, depth int) *plan {
	t := &plan{name: fmt.Sprint(pr.left), want: map[int]int64{}}
	pr.left--
	pr.n++
	if parent != nil {
		for range pr.r.IntN(pr.p.list + 1) {
			d := pr.p.access(pr.r, pr.n)
			if depth > 1 {
				d = pr.fit(parent, d)
			}
			more := append(t.ranges[:len(t.ranges):len(t.ranges)], d)
			if depth == 1 || pr.covered(parent, given, more) {
				t.ranges = more
			}
		}
	}
	t.accs = combineDecls(allBytes(t.ranges))
	t.inherit(parent)
	t.held = pr.r.IntN(3) == 0
	pr.apply(t)
	mine := map[int]bool{}
	if parent == nil || depth < pr.p.depth && pr.r.Float64() >= pr.p.eager {
		n := 1 + pr.r.IntN(6)
		if parent == nil {
			n = pr.left
		}
		for range n {
			if pr.left <= 0 {
				break
			}
			if pr.r.Float64() < pr.p.release && len(t.accs) > 0 {
				pr.release(t, mine)
				continue
			}
			t.ops = append(t.ops, op{child: pr.task(t, mine, depth+1)})
		}
	}
	if len(t.ops) == 0 {
		t.last = true
		pr.apply(t)
	}
	return t
}

// fit moves a range to memory for which the parent has one.
func (pr *rplanner) fit(parent *plan, d rdecl) rdecl {
	if len(parent.accs) == 0 || d.object {
		return d
	}
	u := parent.accs[pr.r.IntN(len(parent.accs))]
	d.lo, d.hi = u.obj, min(u.obj+1+pr.r.IntN(3), cells)
	if pr.r.IntN(2) == 0 && u.mode != chain.ModeCommutative {
		d.mode = u.mode
	}
	return d
}

// covered reports whether the list is within the parent's declarations and not given up, so that
// its effect is that of the sequential program.
func (pr *rplanner) covered(parent *plan, given map[int]bool, list []rdecl) bool {
	up := map[int]decl{}
	for _, u := range parent.accs {
		up[u.obj] = u
	}
	for _, u := range combineDecls(allBytes(list)) {
		p, ok := up[u.obj]
		if !ok || given[u.obj] || !covers(p, u.mode) {
			return false
		}
	}
	return true
}

// release gives up a cell. A task whose accesses may be in a domain of objects gives up a variable.
func (pr *rplanner) release(t *plan, mine map[int]bool) {
	for _, d := range t.ranges {
		if d.object || d.lo == d.hi {
			return
		}
	}
	u := t.accs[pr.r.IntN(len(t.accs))]
	if !mine[u.obj] {
		mine[u.obj] = true
		t.ops = append(t.ops, op{part: &rdecl{u.obj, u.obj + 1, false, u.mode, u.weak}})
	}
}

func newRCrew(p *rprofile, r *rand.Rand) (*crew, *rplanner, *plan) {
	pr := &rplanner{planner: planner{r: r, left: p.tasks, value: make([]int64, cells)}, p: p}
	root := pr.task(nil, nil, 0)
	return &crew{objs: make([]int64, cells), checked: true, keep: []int{0, 0, 8, 1000}[r.IntN(4)]}, pr, root
}

// TestHammerRanges runs random programs of ranges and objects on 2 to 8 goroutines.
func TestHammerRanges(t *testing.T) {
	count := 200
	if testing.Short() {
		count = 20
	}
	if *programsFlag > 0 {
		count = *programsFlag
	}
	for i := range rprofiles {
		p := rprofiles[i]
		p.tasks *= 4
		t.Run(p.name, func(t *testing.T) {
			base := rand.Uint64() >> 16
			if *seedFlag != 0 {
				base, count = *seedFlag, 1
			}
			for k := range count {
				seed := base + uint64(k)
				r := rand.New(rand.NewPCG(seed, 12))
				c, pr, root := newRCrew(&p, r)
				c.run(root, 2+r.IntN(7), seed)
				c.verify(t, &profile{nofree: true}, &pr.planner, seed)
			}
		})
	}
}

// Records leave no node to the garbage collector. Each task is on one chain, so that the program is
// the same in the order of any schedule.
func TestRangesFree(t *testing.T) {
	var buf [64]byte
	var root chain.Node
	var m nodes
	var prev *chain.Node
	for i := range 1000 {
		n := m.spawn(&root, chain.Slice(buf[i%32:i%32+16]).InOut().Weak())
		if prev != nil {
			m.end(prev)
		}
		prev = n
	}
	m.end(prev)
	require.LessOrEqual(t, m.made, 3)
	require.LessOrEqual(t, chain.RangeEntries(&root), 64)
}
