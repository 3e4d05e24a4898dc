// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"fmt"
	"slices"

	"weft/internal/chain"
)

// arm has the edges of a run wait for their first objects.
func (g *given) arm(c *chain.Cycle, k int) {
	edges := c.Edges(k)
	if g.next == nil {
		g.wait, g.next = make([]int32, len(g.uses)), make([]int32, len(edges))
	}
	clear(g.wait)
	for i := len(edges) - 1; i >= 0; i-- {
		if set := c.Objects(edges[i]); len(set) > 0 {
			g.next[i], g.wait[set[0]] = g.wait[set[0]], int32(i)+1
		}
	}
	g.armed = true
}

// giveEarly is Release for a recorded task. An edge stands for some of the task's objects, and is
// followed when all of them are given up and no child is left that may use them.
func (t *Task) giveEarly(s *slot, accs []chain.Access) error {
	r, p := t.recorded()
	k := t.part()
	if k == r.control {
		return fmt.Errorf("task: Release in the condition of a loop, which has no accesses")
	}
	g := r.begin(p, k)
	t.node.Flags |= flagLongSpawn // children may not name what is given up
	var first error
	for _, a := range accs {
		if a.Reduced() == nil {
			// what children have contributed is combined first: by a child, so that the edge waits
			s = t.beforeRelease(a)
		}
		a, err := t.giveShare(s, a)
		lo, hi := 0, 0
		if err == nil && a.Reduced() == nil {
			lo, hi, err = r.cycle.Find(k, a)
		}
		if err == nil && slices.Contains(g.uses[lo:hi], true) {
			err = fmt.Errorf("task: Release of %v: the task has given it up before, or a part of it", a)
		}
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		g.give(lo, hi)
		if s.probe != nil {
			s.probe.Releases(t.id, t.notes(), a)
		}
	}
	left := t.spawned + t.count.Load()
	if s.overOf == t {
		left -= s.overN
	}
	if left == 0 {
		r.passGiven(p, k, &s.flow)
		s.settle(false)
	}
	return first
}

// give notes that the uses from lo to hi are given up.
func (g *given) give(lo, hi int) {
	for i := lo; i < hi; i++ {
		g.uses[i] = true
		g.fresh = append(g.fresh, int32(i))
		g.n++
	}
}

// giveShare gives t's copy back if a is a Reduce access, and returns the access of the graph in its
// place; a itself if there is none.
func (t *Task) giveShare(s *slot, a chain.Access) (chain.Access, error) {
	r := a.Reduced()
	if r == nil {
		if t.more != nil && sharesOf(t.more).Meeting(a, nil) != nil {
			return a, fmt.Errorf("task: Release of %v: the task has declared a reduction of it", a)
		}
		return a, nil
	}
	p := t.share(r)
	switch {
	case p == nil:
		return a, fmt.Errorf("task: Release of %v: the task has not declared it", a)
	case p.weak != a.IsWeak():
		return a, fmt.Errorf("task: Release of %v: the task has declared it in the other strength", a)
	case p.given:
		return a, fmt.Errorf("task: Release of %v: the task has given it up before", a)
	}
	p.release(s)
	if t.parent().share(r) != nil {
		return a, nil
	}
	return r.Concurrent(), nil
}

// begin makes p, the part at k, ready for Release.
func (r *replay) begin(p *part, k int) *given {
	g := p.given
	if g == nil {
		g = &given{uses: make([]bool, len(r.cycle.Accesses(k))), passed: make([]bool, p.to-p.from)}
		p.given = g
	}
	if !g.late && r.control >= 0 {
		// The control task waits for the last tasks of the round only, which need not be over after
		// p now: it is to wait for p as well. It has not started, since nothing of p has been
		// passed on.
		g.late = true                                      //bug:control
		r.parts[r.control].state.Add(^uint32(arrival - 1)) //bug:control
	}
	return g
}

// passGiven tells the successors of p, the part at k, that wait for nothing but what is given up.
func (r *replay) passGiven(p *part, k int, f *chain.Flow) {
	g, edges := p.given, r.cycle.Edges(k)
	if !g.armed {
		g.arm(r.cycle, k)
	}
	for _, u := range g.fresh {
		i := g.wait[u]
		for g.wait[u] = 0; i != 0; {
			e := int(i - 1)
			i = g.next[e]
			if open := g.open(r.cycle.Objects(edges[e]), u); open >= 0 {
				g.next[e], g.wait[open] = g.wait[open], int32(e)+1
				continue
			}
			g.passed[e] = true
			r.arrive(r.next[int(p.from)+e], f)
		}
	}
	g.fresh = g.fresh[:0]
}

// open returns the first of set behind u, which is in it, that is not given up; -1 if there is
// none.
func (g *given) open(set []int32, u int32) int32 {
	at, _ := slices.BinarySearch(set, u)
	for _, i := range set[at:] {
		if !g.uses[i] { //bug:object
			return i
		}
	}
	return -1
}

// passRest tells the successors of p that have not been told, and makes p.given ready for the next
// run.
func (r *replay) passRest(p *part, f *chain.Flow) {
	g := p.given
	g.n, g.armed, g.fresh = 0, false, g.fresh[:0]
	clear(g.uses)
	for i, to := range r.next[p.from:p.to] {
		if !g.passed[i] { //bug:once
			r.arrive(to, f)
		}
		g.passed[i] = false
	}
	if g.late {
		g.late = false
		r.arrive(int32(r.control), f)
	}
}

// refuseGiven panics if a child of t, a recorded task, is to access an object that t has given up.
func (t *Task) refuseGiven(accs []chain.Access) {
	r, p := t.recorded()
	if p.given == nil || p.given.n == 0 {
		return
	}
	k := t.part()
	for _, a := range accs {
		lo, hi := r.cycle.Meeting(k, a)
		for i := lo; i < hi; i++ {
			if p.given.uses[i] && a.Meets(r.cycle.Accesses(k)[i]) {
				panic(fmt.Sprintf("task: a child accesses %v, which its parent has given up by Release", a))
			}
		}
	}
}

// part returns which part of its loop t is. Precondition: flagRecorded.
func (t *Task) part() int { return int(t.node.Number()) }

// recorded returns where t, which has flagRecorded, was recorded.
func (t *Task) recorded() (*replay, *part) {
	r := t.parent().more.replay
	return r, &r.parts[t.part()]
}

// arrive tells the part at k that one of its predecessors is over.
func (r *replay) arrive(k int32, f *chain.Flow) {
	p := &r.parts[k]
	if p.state.Add(arrival) != 0 { //bug:cut-off
		return
	}
	if p.task != nil {
		f.MakeReady(&p.task.node)
		return
	}
	p.state.Add(p.own)
	for _, to := range r.next[p.from:p.to] { // tasks, no joints
		r.arrive(to, f)
	}
}
