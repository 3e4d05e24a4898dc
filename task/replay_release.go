// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"fmt"
	"slices"

	"weft/internal/chain"
)

// arm makes each edge of a run wait for the first of its accesses.
func (g *earlyRelease) arm(c *chain.Cycle, k int) {
	edges := c.Edges(k)
	if g.next == nil {
		g.wait, g.next = make([]int32, len(g.released)), make([]int32, len(edges))
	}
	clear(g.wait)
	for i := len(edges) - 1; i >= 0; i-- {
		if set := c.Objects(edges[i]); len(set) > 0 {
			g.next[i], g.wait[set[0]] = g.wait[set[0]], int32(i)+1
		}
	}
	g.armed = true
}

// releaseEarly is Release for a recorded task. An edge stands for some of the task's accesses. It
// is followed when all of them are released and the task has no live child, which might use the
// objects.
func (t *Task) releaseEarly(s *slot, accs []chain.Access) error {
	r, p := t.recorded()
	k := t.part()
	if k == r.control {
		return fmt.Errorf("task: Release in the condition of a loop, which has no accesses")
	}
	g := r.beginRelease(p, k)
	t.node.Flags |= flagLongSpawn // so that Spawn calls refuseReleased
	var first error
	for _, a := range accs {
		if a.Reduced() == nil {
			// what children have contributed is combined first, by a child, so the edge waits for
			// it
			s = t.beforeRelease(a)
		}
		a, err := t.releaseShare(s, a)
		lo, hi := 0, 0
		if err == nil && a.Reduced() == nil {
			lo, hi, err = r.cycle.Find(k, a)
		}
		if err == nil && slices.Contains(g.released[lo:hi], true) {
			err = fmt.Errorf("task: Release of %v: the task has given it up before, or a part of it", a)
		}
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		g.mark(lo, hi)
		if s.probe != nil {
			s.probe.Releases(t.id, t.notes(), a)
		}
	}
	left := t.spawned + t.count.Load()
	if s.delayedOf == t {
		left -= s.delayedN
	}
	if left == 0 {
		r.passReleased(p, k, &s.flow)
		s.settle(false)
	}
	return first
}

// mark marks the accesses from lo to hi (without hi) as released.
func (g *earlyRelease) mark(lo, hi int) {
	for i := lo; i < hi; i++ {
		g.released[i] = true
		g.fresh = append(g.fresh, int32(i))
		g.n++
	}
}

// releaseShare returns t's copy to its group if a is a Reduce access. It returns the access that
// the graph has instead of a; a itself if there is none.
func (t *Task) releaseShare(s *slot, a chain.Access) (chain.Access, error) {
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
	case p.released:
		return a, fmt.Errorf("task: Release of %v: the task has given it up before", a)
	}
	p.release(s)
	if t.parent().share(r) != nil {
		return a, nil
	}
	return r.Concurrent(), nil
}

// beginRelease prepares p, the part at k, for Release.
func (r *replay) beginRelease(p *part, k int) *earlyRelease {
	g := p.early
	if g == nil {
		g = &earlyRelease{released: make([]bool, len(r.cycle.Accesses(k))), passed: make([]bool, p.to-p.from)}
		p.early = g
	}
	if !g.holdsControl && r.control >= 0 {
		// The control task waits for the last tasks of the round only. After a Release these may
		// end before p does, so the control task has to wait for p as well. It has not started,
		// since p has not passed anything on.
		g.holdsControl = true                              //bug:control
		r.parts[r.control].state.Add(^uint32(arrival - 1)) //bug:control
	}
	return g
}

// passReleased sends an arrival along each edge of p, the part at k, of which all accesses are
// released.
func (r *replay) passReleased(p *part, k int, f *chain.Flow) {
	g, edges := p.early, r.cycle.Edges(k)
	if !g.armed {
		g.arm(r.cycle, k)
	}
	for _, u := range g.fresh {
		i := g.wait[u]
		for g.wait[u] = 0; i != 0; {
			e := int(i - 1)
			i = g.next[e]
			if held := g.firstHeld(r.cycle.Objects(edges[e]), u); held >= 0 {
				g.next[e], g.wait[held] = g.wait[held], int32(e)+1
				continue
			}
			g.passed[e] = true
			r.arrive(r.next[int(p.from)+e], f)
		}
	}
	g.fresh = g.fresh[:0]
}

// firstHeld returns the first access in set, from u on, that is not released; -1 if there is none.
// u is in set.
func (g *earlyRelease) firstHeld(set []int32, u int32) int32 {
	at, _ := slices.BinarySearch(set, u)
	for _, i := range set[at:] {
		if !g.released[i] { //bug:object
			return i
		}
	}
	return -1
}

// passRest sends the arrivals that passReleased has not sent, and resets p.early for the next run.
func (r *replay) passRest(p *part, f *chain.Flow) {
	g := p.early
	g.n, g.armed, g.fresh = 0, false, g.fresh[:0]
	clear(g.released)
	for i, to := range r.next[p.from:p.to] {
		if !g.passed[i] { //bug:once
			r.arrive(to, f)
		}
		g.passed[i] = false
	}
	if g.holdsControl {
		g.holdsControl = false
		r.arrive(int32(r.control), f)
	}
}

// refuseReleased panics if a child of t, a recorded task, is to access an object that t has
// released.
func (t *Task) refuseReleased(accs []chain.Access) {
	r, p := t.recorded()
	if p.early == nil || p.early.n == 0 {
		return
	}
	k := t.part()
	for _, a := range accs {
		lo, hi := r.cycle.Meeting(k, a)
		for i := lo; i < hi; i++ {
			if p.early.released[i] && a.Meets(r.cycle.Accesses(k)[i]) {
				panic(fmt.Sprintf("task: a child accesses %v, which its parent has given up by Release", a))
			}
		}
	}
}

// part returns which part of its loop t is. Precondition: flagRecorded.
func (t *Task) part() int { return int(t.node.Number()) }

// recorded returns the loop and the part of t. Precondition: flagRecorded.
func (t *Task) recorded() (*replay, *part) {
	r := t.parent().more.replay
	return r, &r.parts[t.part()]
}

// arrive adds a predecessor's arrival to the part at k. If all have come, it makes the task ready,
// or passes the arrival on if the part is a joint.
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
	for _, to := range r.next[p.from:p.to] { // to tasks; a joint's successors are never joints
		r.arrive(to, f)
	}
}
