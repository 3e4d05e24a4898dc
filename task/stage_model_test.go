// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// The meaning of tasks, said as naively as possible: a tree of tasks, and questions that are answered by walking it. Nothing is stored but
// what the program did. A stage plays random programs, and after each step exactly those tasks run that the model
// lets run.

// mtask is a task of the model.
type mtask struct {
	name   string
	parent *mtask
	kids   []*mtask
	uses   []*muse
	last   map[string]*muse // the last use of each object by a child

	wait, final bool // attributes
	waitOn      bool // not a task but a WaitOn: over as soon as it may start
	started     bool
	bodyOver    bool
	events      int
	until       func() bool // what the body waits for; nil if it does not
}

// muse is all that one task declares for one object.
type muse struct {
	task     *mtask
	obj      string
	mode     deps.Mode
	weak     bool
	prev     *muse
	released bool
}

func (t *mtask) find(obj string) *muse {
	for _, u := range t.uses {
		if u.obj == obj {
			return u
		}
	}
	return nil
}

// spawn makes a child with the accesses, of which those to one object are combined.
func (t *mtask) spawn(c *mtask, list []muse) {
	c.parent, c.last = t, map[string]*muse{}
	for _, d := range list {
		if u := c.find(d.obj); u != nil {
			if u.mode != d.mode {
				u.mode = deps.ModeInOut
			}
			u.weak = u.weak && d.weak
			continue
		}
		c.uses = append(c.uses, &muse{task: c, obj: d.obj, mode: d.mode, weak: d.weak, prev: t.last[d.obj]})
	}
	for _, u := range c.uses {
		t.last[u.obj] = u
	}
	t.kids = append(t.kids, c)
}

// deep: the task and all its descendants are over.
func (t *mtask) deep() bool {
	return t.bodyOver && t.events == 0 && !slices.ContainsFunc(t.kids, func(c *mtask) bool { return !c.deep() })
}

// given: the task itself has given the object up.
func (u *muse) given() bool {
	t := u.task
	return u.released || t.bodyOver && t.events == 0 && (!t.wait || t.deep())
}

func (u *muse) up() *muse    { return u.task.parent.find(u.obj) }
func (u *muse) below() *muse { return u.task.last[u.obj] }

func (u *muse) mayRead() bool {
	if u.prev != nil {
		return u.prev.passesRead()
	}
	return u.up() == nil || u.up().mayRead()
}

func (u *muse) mayWrite() bool {
	if u.prev != nil {
		return u.prev.over()
	}
	return u.up() == nil || u.up().mayWrite()
}

func (u *muse) mayJoin() bool {
	if u.mayWrite() {
		return true
	}
	before := u.prev
	if before == nil {
		before = u.up()
	}
	return before != nil && before.mode == deps.ModeConcurrent && before.mayJoin()
}

func (u *muse) passesRead() bool {
	switch {
	case u.mode == deps.ModeIn:
		return u.mayRead()
	case !u.given():
		return false
	case u.below() != nil:
		return u.below().passesRead()
	}
	return u.mayRead()
}

func (u *muse) over() bool {
	switch {
	case !u.given():
		return false
	case u.below() != nil:
		return u.below().over()
	}
	return u.mayWrite()
}

func (t *mtask) mayStart() bool {
	for _, u := range t.uses {
		may := u.weak
		switch {
		case may:
		case u.mode == deps.ModeIn:
			may = u.mayRead()
		case u.mode == deps.ModeConcurrent:
			may = u.mayJoin()
		default:
			may = u.mayWrite()
		}
		if !may {
			return false
		}
	}
	return true
}

func (t *mtask) running() bool { return t.started && !t.bodyOver && t.until == nil }

// mplay plays a random program on a stage and in the model.
type mplay struct {
	rng    *rand.Rand
	s      *stage
	main   *mtask
	all    []*mtask // in the order of creation
	script []string
}

// step plays one line, after do has done it in the model, and compares.
func (p *mplay) step(t *testing.T, what string, line string, do func()) {
	p.script = append(p.script, line)
	do()
	for changed := true; changed; {
		changed = false
		for _, x := range p.all {
			if !x.started && x.mayStart() {
				x.started, x.bodyOver = true, x.waitOn
				changed = true
			}
			if x.until != nil && x.until() {
				x.until = nil
				changed = true
			}
		}
	}
	want := []string{}
	for _, x := range p.all {
		switch {
		case x.running() && x != p.main:
			want = append(want, x.name)
		case x.started && x.until != nil:
			want = append(want, x.name+"?")
		}
	}
	p.s.step(strings.Fields(line))
	require.Equal(t, want, p.s.shown(), "%s, after\n%s", what, strings.Join(p.script, "\n"))
}

var stageModes = []struct {
	word string
	mode deps.Mode
}{{"in", deps.ModeIn}, {"in", deps.ModeIn}, {"inout", deps.ModeInOut}, {"out", deps.ModeInOut}, {"concurrent", deps.ModeConcurrent}}

// accesses makes a list for a child of t: mostly of what t declares, and nothing that it has released.
func (p *mplay) accesses(t *mtask) (words string, list []muse) {
	for range p.rng.IntN(4) {
		obj := string(rune('a' + p.rng.IntN(4)))
		own := t.find(obj)
		if own != nil && own.released || own == nil && t != p.main && p.rng.IntN(8) > 0 {
			continue
		}
		m := stageModes[p.rng.IntN(len(stageModes))]
		u := muse{obj: obj, mode: m.mode, weak: p.rng.IntN(3) == 0}
		word := m.word + "(" + obj + ")"
		if u.weak {
			word = "weak" + word
		}
		words += " " + word
		list = append(list, u)
	}
	return words, list
}

// one plays one random step; false if there is nothing left to do.
func (p *mplay) one(t *testing.T, what string, tasks int) bool {
	var able, holding []*mtask
	for _, x := range p.all {
		if x.running() {
			able = append(able, x)
		}
		if x.events > 0 {
			holding = append(holding, x)
		}
	}
	if len(holding) > 0 && p.rng.IntN(4) == 0 {
		x := holding[p.rng.IntN(len(holding))]
		p.step(t, what, "event "+x.name, func() { x.events-- })
		return true
	}
	if len(able) == 0 || len(able) == 1 && able[0] == p.main && len(p.all) >= tasks {
		return len(holding) > 0
	}
	x := able[p.rng.IntN(len(able))]
	switch k := p.rng.IntN(20); {
	case k < 9 && len(p.all) < tasks && strings.Count(x.name, ".") < 4:
		words, list := p.accesses(x)
		c := &mtask{name: fmt.Sprint("T", len(p.all)), wait: p.rng.IntN(5) == 0, final: x.final || p.rng.IntN(10) == 0}
		if x != p.main {
			c.name = fmt.Sprintf("%s.%d", x.name, len(p.all))
		}
		verb := "spawn"
		undeferred := x.final
		if p.rng.IntN(8) == 0 {
			verb, undeferred = "undeferred", true
		}
		if c.wait {
			verb += "+wait"
		}
		if c.final && !x.final {
			verb += "+final"
		}
		p.step(t, what, verb+" "+c.name+words, func() {
			x.spawn(c, list)
			p.all = append(p.all, c)
			if undeferred {
				x.until = func() bool { return c.bodyOver }
			}
		})
	case k < 11:
		for _, u := range x.uses {
			if !u.released && p.rng.IntN(2) == 0 {
				word := map[deps.Mode]string{deps.ModeIn: "in", deps.ModeInOut: "inout", deps.ModeConcurrent: "concurrent"}[u.mode]
				if u.weak {
					word = "weak" + word
				}
				p.step(t, what, "release "+x.name+" "+word+"("+u.obj+")", func() { u.released = true })
				break
			}
		}
	case k < 12:
		p.step(t, what, "hold "+x.name, func() { x.events++ })
	case k < 13:
		p.step(t, what, "wait "+x.name, func() {
			x.until = func() bool { return !slices.ContainsFunc(x.kids, func(c *mtask) bool { return !c.deep() }) }
		})
	case k < 14:
		words, list := p.accesses(x)
		c := &mtask{name: "WaitOn", waitOn: true}
		p.step(t, what, "waiton "+x.name+words, func() {
			x.spawn(c, list)
			p.all = append(p.all, c)
			x.until = func() bool { return c.bodyOver }
		})
	case x != p.main:
		p.step(t, what, "end "+x.name, func() { x.bodyOver = true })
	}
	return true
}

var stageSeed = flag.Uint64("task.stage", 0, "play only the random stage of this seed")

// Random programs of nested tasks, with weak accesses, Release, events, Wait, WaitOn, and undeferred, final and waiting tasks: after each step
// exactly what the model lets run does run.
func TestStageRandom(t *testing.T) {
	skipInLintMode(t, "the program uses what its tasks have not declared, on purpose, and debug mode, which lint mode includes, ends the run")
	watch(t)
	programs := uint64(300)
	if underRace || testing.Short() {
		programs = 60
	}
	first := uint64(time.Now().UnixNano())
	last := first + programs
	if *stageSeed != 0 {
		first, last = *stageSeed, *stageSeed+1
	}
	var rts []*Runtime
	for i := range 4 {
		rt, err := open(Config{Workers: 1 + i, Window: -1}, tuning{})
		require.NoError(t, err)
		rts = append(rts, rt)
	}
	steps := 0
	for seed := first; seed < last; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := &mplay{rng: rng, s: newStage(t, rts[seed%4], gateKind(rng.IntN(int(gateKinds))))}
		p.main = &mtask{name: "main", started: true, last: map[string]*muse{}}
		p.all = []*mtask{p.main}
		what := fmt.Sprintf("-task.stage %d, %d workers, gate %v", seed, p.s.rt.Workers(), p.s.gate)
		p.s.run(func() {
			for range 150 {
				if !p.one(t, what, 8+int(seed%20)) {
					break
				}
			}
		})
		steps += len(p.script)
	}
	t.Logf("%d steps", steps)
	for _, rt := range rts {
		require.NoError(t, rt.Close())
	}
}
