// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

var (
	seedFlag     = flag.Uint64("deps.seed", 0, "run only the random program of this seed (with -run of its test)")
	programsFlag = flag.Int("deps.programs", 0, "number of random programs per profile (0: a default)")
)

// profile describes the programs to make.
type profile struct {
	name    string
	modes   []chain.Mode
	objects int
	tasks   int
	depth   int
	list    int     // longest access list
	weak    float64 // chance that an access is weak
	release float64 // chance that a step of a body is a Release
	illegal float64 // chance that a body makes a call that is refused
	bare    float64 // chance that a child's access is not covered by its parent's declarations
	eager   float64 // chance that a step ends a body; else it spawns
	nofree  bool    // programs that can leave memory to the garbage collector
}

var allModes = []chain.Mode{chain.ModeIn, chain.ModeOut, chain.ModeInOut, chain.ModeConcurrent, chain.ModeReduce, chain.ModeCommutative}

var profiles = []profile{
	{name: "flat", modes: allModes[:3], objects: 3, tasks: 25, depth: 1, list: 4, eager: .5},
	{name: "flatruns", modes: allModes, objects: 3, tasks: 25, depth: 1, list: 4, weak: .2, release: .1, eager: .5, nofree: true},
	{name: "nested", modes: allModes, objects: 2, tasks: 25, depth: 4, list: 3, weak: .5, release: .1, eager: .4, nofree: true},
	{name: "deep", modes: allModes, objects: 1, tasks: 30, depth: 8, list: 2, weak: .7, release: .05, eager: .3, nofree: true},
	{name: "rw", modes: []chain.Mode{chain.ModeIn, chain.ModeInOut}, objects: 1, tasks: 25, depth: 5, list: 1, weak: .5, release: .1, eager: .4, nofree: true},
	{name: "wild", modes: allModes, objects: 4, tasks: 30, depth: 5, list: 6, weak: .4, release: .15, illegal: .1, bare: .3, eager: .4, nofree: true},
	{name: "late", modes: allModes, objects: 1, tasks: 25, depth: 4, list: 1, weak: .5, release: .05, bare: .1, eager: .1, nofree: true},
	{name: "commutative", modes: []chain.Mode{chain.ModeCommutative}, objects: 4, tasks: 30, depth: 1, list: 3, release: .1, eager: .3, nofree: true},
	{name: "commutativenest", modes: []chain.Mode{chain.ModeCommutative, chain.ModeCommutative, chain.ModeCommutative, chain.ModeInOut, chain.ModeIn}, objects: 3, tasks: 30, depth: 4, list: 3, weak: .4, release: .1, eager: .3, nofree: true},
	{name: "many", modes: allModes, objects: 40, tasks: 30, depth: 3, list: 20, weak: .4, release: .2, illegal: .05, bare: .5, eager: .4, nofree: true},
}

// action is one step of a program. A task is identified by the number of the spawn that made it, so
// that a smaller program still makes sense when steps are taken out: a step whose task does not
// exist or does not run is skipped.
type action struct {
	kind actionKind
	task int // which body acts; -1 is the root's
	id   int // of the task made
	list []decl
}

type actionKind int

const (
	actSpawn actionKind = iota
	actRelease
	actEnd
)

func (a action) String() string {
	switch a.kind {
	case actSpawn:
		return fmt.Sprintf("%d: spawn %d %s", a.task, a.id, declString(a.list))
	case actRelease:
		return fmt.Sprintf("%d: release %s", a.task, declString(a.list))
	}
	return fmt.Sprintf("%d: end", a.task)
}

func declString(list []decl) string {
	var b strings.Builder
	for i, d := range list {
		if i > 0 {
			b.WriteString(" ")
		}
		if d.weak {
			b.WriteString("weak")
		}
		fmt.Fprintf(&b, "%s(%c)", strings.ToLower(d.mode.String()), 'a'+rune(d.obj))
	}
	return b.String()
}

// player carries out actions in a world.
type player struct {
	w    *world
	p    *profile
	byID map[int]*wtask

	resources int // objects that earlier, failed programs still hold
}

func newPlayer(p *profile) *player {
	w := newWorld(p.objects)
	w.covered = p.bare == 0
	return &player{w: w, p: p, byID: map[int]*wtask{-1: w.root}, resources: chain.Resources()}
}

func (pl *player) do(a action) {
	t := pl.byID[a.task]
	if t == nil || t.state != running {
		return
	}
	switch a.kind {
	case actSpawn:
		if c, refused := pl.w.spawn(t, fmt.Sprint(a.id), a.list); refused == nil {
			pl.byID[a.id] = c
		}
	case actRelease:
		pl.w.release(t, a.list[0])
	case actEnd:
		pl.w.end(t)
	}
}

// finish checks that the rest of the program runs to its end, and checks the memory.
func (pl *player) finish(next func(n int) int) error {
	w := pl.w
	w.finish(next)
	if k := chain.Resources() - pl.resources; w.err == nil && k != 0 {
		w.fail("%d objects are still held or waited for", k)
	}
	if w.err == nil && !pl.p.nofree && len(w.in(free)) != len(w.tasks) {
		w.fail("nodes are not free in the end:%s", names(w.in(retired)))
	}
	return w.err
}

// randomProgram makes a program while it runs it, and returns its steps.
func randomProgram(p *profile, seed uint64) ([]action, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	pl := newPlayer(p)
	w := pl.w
	var done []action
	id := 0
	for id < p.tasks && w.err == nil {
		run := append(w.in(running), w.root)
		t := run[r.IntN(len(run))]
		a := action{task: t.id}
		if t == w.root {
			a.task = -1
		} else {
			for k, v := range pl.byID {
				if v == t {
					a.task = k
				}
			}
		}
		switch x := r.Float64(); {
		case x < p.release && len(t.m.accs) > 0:
			a.kind = actRelease
			u := t.m.accs[r.IntN(len(t.m.accs))]
			if u.released && r.Float64() >= p.illegal {
				continue
			}
			a.list = []decl{{u.obj, u.mode, u.declaredWeak}}
			if r.Float64() < p.illegal {
				a.list[0].mode = p.modes[r.IntN(len(p.modes))]
			}
		case t != w.root && (len(t.path) >= p.depth || r.Float64() < p.eager):
			a.kind = actEnd
		default:
			a.kind = actSpawn
			a.id = id
			a.list = p.randomList(t.m, r, t.m.strict())
			id++
		}
		done = append(done, a)
		pl.do(a)
	}
	return done, pl.finish(r.IntN)
}

// randomList makes the access list of a child of t. With strict, t's declarations cover it.
func (p *profile) randomList(t *mtask, r *rand.Rand, strict bool) []decl {
	var list []decl
	for range r.IntN(p.list + 1) {
		d := decl{r.IntN(p.objects), p.modes[r.IntN(len(p.modes))], r.Float64() < p.weak}
		if t.parent != nil && (strict || r.Float64() >= p.bare) {
			// Only accesses that the parent's declaration covers, also when they are combined.
			u := t.find(d.obj)
			if u == nil || !covers(u.decl, d.mode) {
				continue
			}
			if len(list) > 0 && !covers(u.decl, chain.ModeInOut) {
				d.mode = u.mode
			}
		}
		if u := t.find(d.obj); u != nil && u.released && r.Float64() >= p.illegal {
			continue
		}
		list = append(list, d)
	}
	if r.Float64() >= p.illegal {
		// A reduction is its task's only access to the object.
		for i := range list {
			for j := range list[:i] {
				if list[j].obj == list[i].obj && (list[j].mode == chain.ModeReduce) != (list[i].mode == chain.ModeReduce) {
					list[i].mode = list[j].mode
				}
			}
		}
	}
	return list
}

// covers reports whether a child's access in mode m is within its parent's declaration up.
func covers(up decl, m chain.Mode) bool {
	return ordered(up.mode) == chain.ModeInOut || up.mode == m || up.mode == chain.ModeCommutative && !up.weak
}

// replay runs a recorded program; tasks that are left end in the order of creation.
func replay(p *profile, prog []action) error {
	pl := newPlayer(p)
	for _, a := range prog {
		if pl.do(a); pl.w.err != nil {
			return pl.w.err
		}
	}
	return pl.finish(func(int) int { return 0 })
}

// shrink takes steps and accesses out of a failing program as long as it fails.
func shrink(p *profile, prog []action) []action {
	fails := func(prog []action) bool {
		defer func() { _ = recover() }()
		return replay(p, prog) != nil
	}
	if !fails(prog) {
		return prog // it takes the random end
	}
	for size := len(prog) / 2; size > 0; {
		smaller := false
		for i := 0; i+size <= len(prog); {
			try := append(append([]action{}, prog[:i]...), prog[i+size:]...)
			if fails(try) {
				prog, smaller = try, true
			} else {
				i++
			}
		}
		if !smaller {
			size /= 2
		}
	}
	for i := range prog {
		for j := 0; prog[i].kind == actSpawn && j < len(prog[i].list); {
			try := append([]action{}, prog...)
			try[i].list = append(append([]decl{}, prog[i].list[:j]...), prog[i].list[j+1:]...)
			if fails(try) {
				prog = try
			} else {
				j++
			}
		}
	}
	return prog
}

// per profile; fewer under the race detector, which finds nothing on one goroutine
var objectPrograms = 2000

// TestRandomPrograms compares the engine with the model after each step of random programs: exactly
// the tasks that may start have started.
func TestRandomPrograms(t *testing.T) {
	eachSeed(t, objectPrograms, func(t *testing.T, p *profile, seed uint64) {
		prog, err := randomProgram(p, seed)
		if err == nil {
			return
		}
		small := shrink(p, prog)
		var b strings.Builder
		for _, a := range small {
			fmt.Fprintln(&b, a)
		}
		require.NoError(t, err, "-run '%s' -deps.seed %d; shrunk (%v):\n%s", t.Name(), seed, replay(p, small), b.String())
	})
}
