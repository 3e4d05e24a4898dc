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
	"weft/internal/order"
)

// The model is package order, with the ends of tasks. A harness runs random programs, and after
// each step exactly those tasks run that the model lets run.

// mtask is a task of the model.
type mtask struct {
	name   string
	parent *mtask
	kids   []*mtask
	order  *order.Task

	released map[*order.Entry]bool

	wait, final bool // attributes
	waitOn      bool // not a task but a WaitOn: over as soon as it may start
	started     bool
	bodyOver    bool
	events      int
	until       func() bool // what the body waits for; nil if it does not
}

// object returns package order's access to the object name.
func object(name string, mode deps.Mode, weak bool) order.Access {
	at := uintptr(name[0])
	return order.Access{Lo: at, Hi: at + 1, Object: true, Mode: order.Mode(mode), Weak: weak}
}

func (t *mtask) find(obj string) *order.Entry {
	for _, u := range t.order.Entries {
		if u.Lo == uintptr(obj[0]) {
			return u
		}
	}
	return nil
}

// spawn makes a child with the accesses.
func (t *mtask) spawn(c *mtask, list []order.Access) {
	c.parent, c.order, c.released = t, t.order.Child(list), map[*order.Entry]bool{}
	t.kids = append(t.kids, c)
}

// deep: the task and all its descendants are over.
func (t *mtask) deep() bool {
	return t.bodyOver && t.events == 0 && !slices.ContainsFunc(t.kids, func(c *mtask) bool { return !c.deep() })
}

// hasReleased reports whether the task itself has released u.
func (t *mtask) hasReleased(u *order.Entry) bool {
	return t.released[u] || t.bodyOver && t.events == 0 && (!t.wait || t.deep())
}

func (p *mplay) mayStart(t *mtask) bool {
	may := true
	t.order.Before(func(u *order.Entry, _, _ uintptr) bool {
		i := slices.IndexFunc(p.all, func(x *mtask) bool { return x.order == u.Task })
		released := p.all[i].hasReleased(u)
		may = may && released
		return released
	})
	return may
}

func (t *mtask) running() bool { return t.started && !t.bodyOver && t.until == nil }

// mplay runs a random program in a harness and in the model.
type mplay struct {
	rng    *rand.Rand
	s      *harness
	main   *mtask
	all    []*mtask // in the order of creation
	script []string
}

// step runs one line, after do has run it in the model, and compares.
func (p *mplay) step(t *testing.T, what string, line string, do func()) {
	p.script = append(p.script, line)
	do()
	for changed := true; changed; {
		changed = false
		for _, x := range p.all {
			if !x.started && p.mayStart(x) {
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
	require.Equal(t, want, p.s.states(), "%s, after\n%s", what, strings.Join(p.script, "\n"))
}

var modelModes = []struct {
	word string
	mode deps.Mode
}{{"in", deps.ModeIn}, {"in", deps.ModeIn}, {"inout", deps.ModeInOut}, {"out", deps.ModeInOut}, {"concurrent", deps.ModeConcurrent}}

// accesses makes a list for a child of t: mostly of what t declares, and nothing that it has
// released.
func (p *mplay) accesses(t *mtask) (words string, list []order.Access) {
	for range p.rng.IntN(4) {
		obj := string(rune('a' + p.rng.IntN(4)))
		own := t.find(obj)
		if own != nil && t.released[own] || own == nil && t != p.main && p.rng.IntN(8) > 0 {
			continue
		}
		m := modelModes[p.rng.IntN(len(modelModes))]
		a := object(obj, m.mode, p.rng.IntN(3) == 0)
		word := m.word + "(" + obj + ")"
		if a.Weak {
			word = "weak" + word
		}
		words += " " + word
		list = append(list, a)
	}
	return words, list
}

// one runs one random step; it returns false if there is nothing left to do.
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
		for _, u := range x.order.Entries {
			if !x.released[u] && p.rng.IntN(2) == 0 {
				word := map[deps.Mode]string{deps.ModeIn: "in", deps.ModeInOut: "inout", deps.ModeConcurrent: "concurrent"}[deps.Mode(u.Mode)]
				if u.Weak {
					word = "weak" + word
				}
				p.step(t, what, "release "+x.name+" "+word+"("+string(rune(u.Lo))+")", func() { x.released[u] = true })
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

var modelSeed = flag.Uint64("task.steps", 0, "run only TestRandomSteps' program of this seed")

// Random programs of nested tasks, with weak accesses, Release, events, Wait, WaitOn, and
// undeferred, final and waiting tasks: after each step exactly those tasks run that the model lets
// run.
func TestRandomSteps(t *testing.T) {
	skipInLintMode(t, "the program uses what its tasks have not declared, on purpose, and debug mode, which lint mode includes, ends the run")
	watch(t)
	programs := uint64(300)
	if underRace || testing.Short() {
		programs = 60
	}
	first := uint64(time.Now().UnixNano())
	last := first + programs
	if *modelSeed != 0 {
		first, last = *modelSeed, *modelSeed+1
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
		p := &mplay{rng: rng, s: newHarness(t, rts[seed%4], gateKind(rng.IntN(int(gateKinds))))}
		p.main = &mtask{name: "main", started: true, order: new(order.Task)}
		p.all = []*mtask{p.main}
		what := fmt.Sprintf("-task.steps %d, %d workers, gate %v", seed, p.s.rt.Workers(), p.s.gate)
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
