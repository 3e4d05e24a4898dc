//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"maps"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"weft/internal/xatomic"
)

// harness runs the goroutines of a crew one at a time. Before and after each atomic operation of
// the engine it may switch to another goroutine, as a seeded random schedule says. So each schedule
// can be repeated, and unlikely schedules are as likely as others.
type harness struct {
	r     *rand.Rand
	wake  []chan struct{}
	alive []int
	now   int
	stay  int // of 256: chance to go on
	pause int // of 256: chance to stop for many steps of the others
	steps int
	until []int // the step until which each goroutine is stopped
	done  chan struct{}
}

func (s *harness) step() {
	if s.r.IntN(256) < s.pause {
		s.until[s.now] = s.steps + 1<<s.r.IntN(10)
		s.turn()
	} else if s.r.IntN(256) >= s.stay {
		s.turn()
	}
}

// turn switches to a random goroutine, perhaps the same.
func (s *harness) turn() {
	s.steps++
	me := s.now
	next := s.pick()
	if next != me {
		s.now = next
		s.wake[next] <- struct{}{}
		<-s.wake[me]
	}
}

// pick chooses the next goroutine among those that are not stopped.
func (s *harness) pick() int {
	var can []int
	for _, i := range s.alive {
		if s.until[i] <= s.steps {
			can = append(can, i)
		}
	}
	if len(can) == 0 {
		can = s.alive
	}
	return can[s.r.IntN(len(can))]
}

// leave ends the goroutine whose turn it is.
func (s *harness) leave() {
	i := slices.Index(s.alive, s.now)
	s.alive = slices.Delete(s.alive, i, i+1)
	if len(s.alive) == 0 {
		close(s.done)
		return
	}
	s.now = s.pick()
	s.wake[s.now] <- struct{}{}
}

// TestExplore runs random programs under random schedules of atomic operations:
//
//	go test -tags explore -run Explore ./deps
func TestExplore(t *testing.T) {
	eachSeed(t, 2000, func(t *testing.T, p *profile, seed uint64) {
		small := p.runnable(seed)
		explore(t, &small, seed)
	})
}

func explore(t *testing.T, p *profile, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	p.tasks = 3 + r.IntN(p.tasks)
	c, pr, root := newCrew(p, r)
	c.explore(root, r, seed)
	c.verify(t, p, pr, seed)
}

func (c *crew) explore(root *plan, r *rand.Rand, seed uint64) {
	s := &harness{r: r, stay: []int{0, 64, 128, 200, 240}[r.IntN(5)], pause: []int{0, 2, 10, 30}[r.IntN(4)], done: make(chan struct{})}
	c.turn = s.turn
	c.begin(root)
	xatomic.Step = s.step
	for i := range 2 + r.IntN(4) {
		s.wake = append(s.wake, make(chan struct{}))
		s.alive = append(s.alive, i)
		s.until = append(s.until, 0)
		h := c.newHand(seed, i)
		go func() {
			<-s.wake[i]
			defer s.leave()
			defer func() {
				if e := recover(); e != nil {
					c.fail("panic: %v\n%s", e, debug.Stack())
					c.over = true
				}
			}()
			h.loop()
		}()
	}
	s.wake[0] <- struct{}{}
	<-s.done
	xatomic.Step = nil
	c.end()
}

// sketch is a small program that is explored by itself.
type sketch struct {
	list string // as in the scripts; objects a to d
	kids []sketch
}

func (s sketch) plan(r *rand.Rand) *plan {
	t := &plan{name: s.list, want: map[int]int64{}, last: len(s.kids) == 0, held: r.IntN(2) == 0}
	for _, a := range strings.Fields(s.list) {
		m := accessForm.FindStringSubmatch(a)
		t.list = append(t.list, decl{int(m[3][0] - 'a'), modes[m[2]], m[1] != ""})
	}
	t.accs = combineDecls(t.list)
	for _, k := range s.kids {
		t.ops = append(t.ops, op{child: k.plan(r)})
	}
	return t
}

// simulate computes the effects of the sequential program.
func (pr *planner) simulate(t *plan) {
	pr.apply(t)
	for _, o := range t.ops {
		pr.simulate(o.child)
	}
	if t.last {
		pr.apply(t)
	}
}

func leaf(list string) sketch                 { return sketch{list, nil} }
func nest(list string, kids ...sketch) sketch { return sketch{list, kids} }
func program(kids ...sketch) sketch           { return sketch{"", kids} }

// sketches are made for late messages: a goroutine is about to pass a token on while another
// goroutine brings the next token through the same access.
var sketches = map[string]sketch{
	"weak ends while readers do": program(leaf("in(a)"), leaf("weakinout(a)"), leaf("in(a)"), leaf("inout(a)")),
	"to a weak successor":        program(leaf("in(a)"), leaf("weakinout(a)"), leaf("weakinout(a)"), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"to a child":                 program(leaf("in(a)"), leaf("weakinout(a)"), nest("weakinout(a)", leaf("in(a)")), leaf("inout(a)")),
	"to a weak child":            program(leaf("in(a)"), leaf("weakinout(a)"), nest("weakinout(a)", nest("weakinout(a)", leaf("in(a)"))), leaf("inout(a)")),
	"child and next":             program(leaf("in(a)"), leaf("weakinout(a)"), nest("weakin(a)", leaf("in(a)")), leaf("in(a)"), leaf("inout(a)")),
	"from the last child":        program(leaf("in(a)"), nest("weakinout(a)", leaf("in(a)")), leaf("in(a)"), leaf("inout(a)")),
	"from a weak last child":     program(leaf("in(a)"), leaf("weakinout(a)"), nest("weakinout(a)", leaf("weakinout(a)")), leaf("weakin(a)"), leaf("inout(a)")),
	"both ports":                 program(leaf("in(a)"), leaf("weakinout(a)"), nest("weakin(a)", nest("weakin(a)", leaf("weakin(a)"))), leaf("weakin(a)"), leaf("inout(a)")),
	"reader last in a writer":    program(nest("inout(a)", leaf("inout(a)"), leaf("in(a)"), leaf("in(a)")), leaf("in(a)"), leaf("inout(a)")),
	"run":                        program(leaf("in(a)"), leaf("concurrent(a)"), leaf("concurrent(a)"), leaf("in(a)"), leaf("inout(a)")),
	"weak run":                   program(leaf("inout(a)"), leaf("weakconcurrent(a)"), leaf("weakconcurrent(a)"), leaf("concurrent(a)"), leaf("inout(a)")),
	"run opened late":            program(leaf("concurrent(a)"), leaf("weakconcurrent(a)"), leaf("weakconcurrent(a)"), leaf("concurrent(a)"), leaf("weakconcurrent(a)"), leaf("inout(a)")),
	"run in a run":               program(leaf("concurrent(a)"), nest("weakconcurrent(a)", leaf("concurrent(a)")), nest("concurrent(a)", leaf("concurrent(a)")), leaf("inout(a)")),
	"run after weak writer":      program(leaf("in(a)"), leaf("weakinout(a)"), leaf("concurrent(a)"), leaf("concurrent(a)"), leaf("in(a)"), leaf("inout(a)")),
	"read through a run":         program(leaf("inout(a)"), leaf("concurrent(a)"), leaf("concurrent(a)"), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"one alone":                  program(leaf("inout(a)"), leaf("in(a)"), leaf("inout(a)"), leaf("in(a)"), leaf("in(a)"), leaf("inout(a)")),
	"alone after a run":          program(leaf("inout(a)"), leaf("concurrent(a)"), leaf("concurrent(a)"), leaf("concurrent(a)"), leaf("inout(a)"), leaf("inout(a)")),
	"two objects":                program(leaf("inout(a)"), leaf("inout(b)"), leaf("in(a) in(b)"), leaf("weakin(a) weakin(b)"), leaf("in(a)"), leaf("inout(a) inout(b)"), leaf("inout(b)")),
	"two objects, to a child":    program(leaf("inout(a)"), leaf("inout(b)"), leaf("in(a) in(b)"), nest("weakinout(a)", leaf("in(a)")), leaf("inout(a)"), leaf("inout(b)")),
	"two objects, opening":       program(leaf("inout(a)"), leaf("inout(b)"), leaf("concurrent(a) in(b)"), nest("weakconcurrent(a)", leaf("concurrent(a)")), leaf("inout(a)"), leaf("inout(b)")),
	"writer in a reader":         program(leaf("in(a)"), nest("in(a)", leaf("weakinout(a)"), leaf("weakinout(a)")), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"two objects, run":           program(leaf("inout(a)"), leaf("inout(b)"), leaf("concurrent(a) in(b)"), leaf("weakconcurrent(a)"), leaf("concurrent(a) weakin(b)"), leaf("inout(a) inout(b)"), leaf("inout(b)")),
	"one of two lingers":         program(leaf("in(a)"), leaf("in(b)"), leaf("weakinout(a) in(b)"), leaf("in(a)"), leaf("in(b)"), leaf("inout(a)"), leaf("inout(b)")),
	"reduction":                  program(leaf("in(a)"), leaf("reduce(a)"), leaf("reduce(a)"), leaf("inout(a)"), leaf("in(a)"), leaf("reduce(a)"), leaf("inout(a)")),
	"reduction of a tree":        program(leaf("in(a)"), nest("reduce(a)", leaf("reduce(a)"), nest("weakreduce(a)", leaf("reduce(a)"))), leaf("in(a)"), leaf("inout(a)")),
	"wide":                       program(nest("weakinout(a) weakinout(b)", leaf("in(a)"), leaf("inout(b)")), nest("weakin(a) weakin(b)", leaf("in(a) in(b)")), leaf("inout(a)"), leaf("inout(b)")),
}

// exclusionSketches have Commutative accesses, for which the test calls Acquire.
var exclusionSketches = map[string]sketch{
	"commutative":               program(leaf("in(a)"), leaf("commutative(a)"), leaf("commutative(a)"), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"commutative, two objects":  program(leaf("inout(b)"), leaf("commutative(a) commutative(b)"), leaf("commutative(a)"), leaf("commutative(b)"), leaf("commutative(a) commutative(b)"), leaf("in(a)"), leaf("inout(b)")),
	"out before in":             program(leaf("inout(b)"), leaf("commutative(a) in(b)"), nest("commutative(a)", leaf("inout(a)"), leaf("weakinout(a)")), leaf("commutative(a)"), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"reads from under a holder": program(leaf("in(a)"), leaf("weakinout(a)"), nest("commutative(a)", nest("weakinout(a)", leaf("in(a)"), leaf("in(a)"))), leaf("weakin(a)"), leaf("in(a)"), leaf("inout(a)")),
	"commutative in a weak one": program(leaf("inout(a)"), nest("weakcommutative(a)", leaf("commutative(a)"), leaf("commutative(a)")), nest("weakcommutative(a)", leaf("commutative(a)")), leaf("inout(a)")),
}

// TestExploreSketches runs each sketch under many schedules, with tasks after it that use the
// memory again.
func TestExploreSketches(t *testing.T) {
	count := 2000
	if *programsFlag > 0 {
		count = *programsFlag
	}
	all := maps.Clone(sketches)
	maps.Copy(all, exclusionSketches)
	for name, sk := range all {
		t.Run(name, func(t *testing.T) {
			for range count {
				seed := rand.Uint64() >> 16
				if *seedFlag != 0 {
					seed = *seedFlag
				}
				r := rand.New(rand.NewPCG(seed, 4))
				root := sk.plan(r)
				pr := &planner{value: make([]int64, 4)}
				pr.simulate(root)
				c := &crew{objs: make([]int64, 4), checked: true, keep: []int{0, 1000}[r.IntN(2)]}
				c.explore(root, r, seed)
				c.verify(t, &profile{nofree: true}, pr, seed)
				if *seedFlag != 0 {
					break
				}
			}
		})
	}
}
