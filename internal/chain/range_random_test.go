// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// rprofile describes the programs with ranges to make.
type rprofile struct {
	name    string
	modes   []chain.Mode
	cells   int // number of cells of the universe that are used
	tasks   int
	depth   int
	list    int
	objects float64 // chance that an access names a variable
	late    int     // number of tasks before the first range
	commut  float64 // chance that an access to a variable is Commutative
	weak    float64
	release float64
	illegal float64
	eager   float64
	// all domains are of ranges, and a task below one that takes something keeps to that task's
	// declarations
	covered bool
}

// rangeModes are the modes of Slice except Commutative, whose profiles are all covered.
var rangeModes = allModes[:4]

var commutativeModes = []chain.Mode{chain.ModeCommutative, chain.ModeCommutative, chain.ModeCommutative, chain.ModeInOut, chain.ModeIn}

var rprofiles = []rprofile{
	{name: "flat", modes: allModes[:3], cells: 12, tasks: 20, depth: 1, list: 2, eager: .5},
	{name: "flatruns", modes: rangeModes, cells: 12, tasks: 20, depth: 1, list: 3, weak: .2, release: .15, eager: .5},
	{name: "small", modes: rangeModes, cells: 3, tasks: 20, depth: 3, list: 2, weak: .4, release: .1, eager: .4},
	{name: "mixed", modes: rangeModes, cells: 12, tasks: 20, depth: 1, list: 3, objects: .5, weak: .2, release: .1, eager: .5},
	{name: "switched", modes: rangeModes, cells: 12, tasks: 25, depth: 3, list: 3, objects: .5, late: 8, weak: .4, release: .1, eager: .3},
	{name: "nested", modes: rangeModes, cells: 12, tasks: 25, depth: 4, list: 2, objects: .2, weak: .6, release: .1, eager: .35},
	{name: "deep", modes: rangeModes, cells: 7, tasks: 30, depth: 8, list: 1, objects: .3, weak: .8, release: .1, eager: .25},
	{name: "inner", modes: rangeModes, cells: 12, tasks: 25, depth: 4, list: 2, objects: .8, late: 12, weak: .6, release: .15, eager: .3},
	{name: "commutative", modes: commutativeModes[:1], cells: 12, tasks: 30, depth: 1, list: 3, release: .15, eager: .4, objects: .2, commut: 1, covered: true},
	{name: "commutativesmall", modes: commutativeModes, cells: 3, tasks: 30, depth: 1, list: 2, release: .15, eager: .4, covered: true},
	{name: "commutativenest", modes: commutativeModes, cells: 12, tasks: 30, depth: 4, list: 3, weak: .4, release: .15, eager: .35, objects: .2, commut: .7, covered: true},
	{name: "commutativemixed", modes: append(rangeModes[:4:4], commutativeModes...), cells: 7, tasks: 30, depth: 3, list: 3, weak: .4, release: .15, eager: .4, objects: .3, commut: .5, covered: true},
	{name: "wild", modes: rangeModes, cells: 12, tasks: 30, depth: 5, list: 4, objects: .4, late: 2, weak: .4, release: .25, illegal: .15, eager: .35},
}

func (p *rprofile) access(r *rand.Rand, id int) rdecl {
	d := rdecl{mode: p.modes[r.IntN(len(p.modes))], weak: r.Float64() < p.weak}
	if id < p.late || r.Float64() < p.objects {
		v := rvars[r.IntN(len(rvars))]
		if v.hi <= p.cells {
			d.lo, d.hi, d.object = v.lo, v.hi, true
			if p.commut > 0 && r.Float64() < p.commut {
				d.mode = chain.ModeCommutative
			}
			return d
		}
	}
	d.lo = r.IntN(p.cells)
	d.hi = d.lo + r.IntN(p.cells-d.lo+1) // may be empty
	return d
}

// within changes the access, in most cases, to one of which the parent has declared a part that is
// not given up.
func (p *rprofile) within(t *mtask, d rdecl, r *rand.Rand) (rdecl, bool) {
	if t.parent != nil && len(t.accs) > 0 && r.Float64() < .7 {
		u := t.accs[r.IntN(len(t.accs))]
		if d.object && (u.obj < d.lo || u.obj >= d.hi) {
			return d, false
		}
		if !d.object {
			d.lo = u.obj
			d.hi = min(d.lo+r.IntN(4), p.cells)
		}
		if r.Float64() < .5 {
			d.mode = u.mode
		}
	}
	strict := p.covered && t.strict()
	for _, b := range d.bytes() {
		u := t.find(b.obj)
		if u != nil && u.released && r.Float64() >= p.illegal {
			return d, false
		}
		if strict && (u == nil || !covers(u.decl, d.mode)) {
			return d, false
		}
	}
	return d, true
}

// toRelease makes a Release of bytes in one mode, legal unless the profile allows illegal ones.
func (p *rprofile) toRelease(t *rtask, r *rand.Rand) (rdecl, bool) {
	us := slices.Clone(t.m.accs)
	u := us[r.IntN(len(us))]
	d := rdecl{lo: u.obj, hi: u.obj + 1, mode: u.mode, weak: u.declaredWeak}
	if !t.ranged {
		for _, v := range rvars {
			if v.lo <= u.obj && u.obj < v.hi {
				d.lo, d.hi, d.object = v.lo, v.hi, true
			}
		}
	} else {
		for n := r.IntN(5); n > 0; n-- {
			if wider := (rdecl{d.lo, d.hi + 1, false, d.mode, d.weak}); wider.hi <= cells && t.legalRelease(wider) {
				d = wider
			}
		}
	}
	if r.Float64() < p.illegal {
		d.mode = p.modes[r.IntN(len(p.modes))]
		if !d.object {
			d.hi = min(d.hi+r.IntN(3), cells)
		}
		return d, true
	}
	return d, !u.released
}

func randomRanges(p *rprofile, seed uint64) ([]raction, error) {
	r := rand.New(rand.NewPCG(seed, 11))
	pl := newRPlayer()
	w := pl.w
	ids := map[*rtask]int{w.root: -1}
	depth := map[*rtask]int{}
	var done []raction
	for id := 0; id < p.tasks && w.err == nil; {
		run := append(w.in(running), w.root)
		t := run[r.IntN(len(run))]
		a := raction{task: ids[t]}
		switch x := r.Float64(); {
		case x < p.release && len(t.m.accs) > 0:
			d, ok := p.toRelease(t, r)
			if !ok {
				continue
			}
			a.kind, a.list = actRelease, []rdecl{d}
		case t != w.root && (depth[t] >= p.depth || r.Float64() < p.eager || p.covered && !t.ranged):
			a.kind = actEnd
		default:
			a.kind, a.id = actSpawn, id
			for range r.IntN(p.list + 1) {
				if d, ok := p.within(t.m, p.access(r, id), r); ok {
					a.list = append(a.list, d)
				}
			}
			if p.covered && id == 0 {
				a.list = append(a.list, rdecl{lo: 0, hi: 1})
			}
			id++
		}
		done = append(done, a)
		pl.do(a)
		if a.kind == actSpawn {
			if c := pl.byID[a.id]; c != nil {
				ids[c], depth[c] = a.id, depth[t]+1
			}
		}
	}
	return done, pl.finish(r.IntN)
}

var rangePrograms = 300 // per profile; less under the race detector

// TestRandomRanges compares the engine with the model after each step of random programs of ranges
// and objects: exactly the tasks that may start have started. Each byte is judged separately.
func TestRandomRanges(t *testing.T) {
	count := rangePrograms
	if testing.Short() {
		count = rangePrograms / 5
	}
	if *programsFlag > 0 {
		count = *programsFlag
	}
	for i := range rprofiles {
		p := &rprofiles[i]
		t.Run(p.name, func(t *testing.T) {
			base := rand.Uint64() >> 16
			if *seedFlag != 0 {
				base, count = *seedFlag, 1
			}
			for k := range count {
				seed := base + uint64(k)
				prog, err := randomRanges(p, seed)
				if err == nil {
					continue
				}
				small := rshrink(prog)
				var b strings.Builder
				for _, a := range small {
					fmt.Fprintln(&b, a)
				}
				require.NoError(t, err, "-run '%s' -deps.seed %d; shrunk (%v):\n%s", t.Name(), seed, rreplay(small), b.String())
			}
		})
	}
}
