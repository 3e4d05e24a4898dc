// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
)

// share is a task's part in a reduction. It is owned by the body, and then by the goroutine that
// gives the accesses up.
type share struct {
	g        *chain.ReductionGroup
	c        *chain.Copy // the private copy; nil until the body asks for it
	weak     bool        // only descendants contribute
	released bool        // by Release
}

// combineGrain is how many elements one task combines; from twice that on it shares the work
// (guess: some ten microseconds).
const combineGrain = 1 << 14

// Local returns t's private copy of what r reduces: a *T for a Reduction[T], a []T for a
// SliceReduction[T]. t must have declared r.Reduce(), not weak. The first call takes a copy, which
// may already have contributions of tasks that are over. The copy belongs to t, also while t waits
// and for what its events write, until t gives the access up: by Release, or when the body and its
// events are over. Children have their own copies.
func Local[P any](t *Task, r deps.Reducer[P]) P {
	s := t.enter("Local")
	return t.local(s, accessOf(r.Reduce()).Reduced()).(P)
}

// local must not be inlined into Local. The program has instances of Local, and with them it would
// get instances of Reductions, which a build for lint mode leaves out of the race detector.
//
//go:noinline
func (t *Task) local(s *slot, r *chain.Reduced) any {
	p := t.share(r)
	switch {
	case p == nil:
		panic("task: Local on " + t.name() + ", which takes no part in this reduction; spawn it with the reduction's Reduce()")
	case p.weak:
		panic("task: Local on " + t.name() + ", whose access to this reduction is weak: only its descendants contribute")
	case p.released:
		panic("task: Local on " + t.name() + ", which has released the reduction")
	}
	if p.c == nil {
		race.Acquire(r)
		p.c = p.g.Take(s.ID, race.Acquire)
	}
	return p.c.Value()
}

// share returns t's part in r; nil if it has none.
func (t *Task) share(r *chain.Reduced) *share {
	if m := t.more; m != nil {
		return sharesOf(m).Find(r)
	}
	return nil
}

// join makes the task of c, which is being registered as a child of the task of p, take part in the
// reduction of a. It is the Join of the slots' flows.
func join(p, c *chain.Node, a chain.Access) (why string) {
	t, r := fromNode(c), a.Reduced()
	if own := t.share(r); own != nil { // the access list names r twice
		own.weak = own.weak && a.IsWeak()
		return ""
	}
	m := t.rare()
	if own := sharesOf(m).Meeting(a, r); own != nil {
		return r.Overlap(own.g.Reduced())
	}
	addReduction(&m.shares, r, share{g: fromNode(p).reductionGroup(r), weak: a.IsWeak()})
	t.node.Flags |= flagLongSpawn
	return ""
}

// reductionGroup returns the group that a child of t joins by r: the group of which t is a member,
// or else the group of t's children, which it opens if there is none. beforeSpawn has closed any
// other group of the same object.
func (t *Task) reductionGroup(r *chain.Reduced) *chain.ReductionGroup {
	if p := t.share(r); p != nil {
		return p.g
	}
	m := t.rare()
	if g := groupsOf(m).Find(r); g != nil {
		return *g
	}
	g := r.Open(t.run.rt.Workers())
	addReduction(&m.groups, r, g)
	t.node.Flags |= flagLongSpawn
	return g
}

// beforeSpawn closes the groups that a child of t with these accesses ends, and returns t's slot.
// It panics if t takes part in a reduction of an object that the child accesses otherwise: the
// child's siblings and cousins write to copies of the object, and no order says when those are
// combined.
func (t *Task) beforeSpawn(accs []chain.Access) *slot {
	if t.node.Flags&flagRecorded != 0 {
		t.refuseReleased(accs)
	}
	m := t.more
	if m == nil {
		return t.slot
	}
	for _, a := range accs {
		r := a.Reduced()
		if sharesOf(m).Meeting(a, r) != nil {
			panic("task: a child spawned by " + t.name() + " accesses an object by " + a.String() +
				" that its parent reduces; legal is the parent's own reduction")
		}
		for g, ok := groupsOf(m).TakeMeeting(a, r); ok; g, ok = groupsOf(m).TakeMeeting(a, r) {
			t.closeGroup(g)
		}
	}
	return t.slot
}

// beforeRelease closes the group of an object that t gives up, or returns t's copy to the group. It
// returns t's slot.
func (t *Task) beforeRelease(a chain.Access) *slot {
	if p := t.share(a.Reduced()); p != nil && p.weak == a.IsWeak() {
		p.release(t.slot)
	}
	if m := t.more; m != nil {
		for g, ok := groupsOf(m).TakeMeeting(a, nil); ok; g, ok = groupsOf(m).TakeMeeting(a, nil) {
			t.closeGroup(g)
		}
	}
	return t.slot
}

// combineAll closes all groups of t's children, at the end of its body or before a Wait, and
// returns t's slot.
func (t *Task) combineAll() *slot {
	if m := t.more; m != nil {
		for g, ok := groupsOf(m).TakeFirst(); ok; g, ok = groupsOf(m).TakeFirst() {
			t.closeGroup(g)
		}
	}
	return t.slot
}

// closeGroup combines g, which has been taken off the list. After the last group, Spawn takes the
// short way again.
func (t *Task) closeGroup(g *chain.ReductionGroup) {
	m := t.more
	if groupsOf(m).Len()+sharesOf(m).Len() == 0 && !t.final && t.node.Flags&flagRecorded == 0 && !t.run.rt.cfg.TraceSpawns {
		t.node.Flags &^= flagLongSpawn
	}
	t.combine(g)
}

// combine spawns the task that combines the copies of g, a closed group of t's children. Its
// write access to the object makes it wait for the participants and for the tasks before them. In a
// run that has failed nothing is combined.
func (t *Task) combine(g *chain.ReductionGroup) {
	r := g.Reduced()
	if r.Len() == 0 || t.run.stopped.Load() {
		return
	}
	t.node.Flags &^= flagLeaf
	s := t.slot
	c := s.newTask(t, func(t *Task) error { return combine(t, g) })
	c.label, c.pc = "combine", r.Site()
	c.node.Flags |= flagRare
	accs := [1]chain.Access{r.InOut()}
	if !t.final {
		t.start(s, c, accs[:])
		return
	}
	// In a final task it runs at once, if it can.
	c.final = true
	c.node.Flags |= flagLongSpawn
	isReady, _ := t.register(s, c, accs[:], event.SpawnedUndeferred)
	t.spawned++
	s.recycle()
	if isReady {
		if s.probe != nil {
			s.probe.Queued(c.id, false)
		}
		s.execute(c).flushBefore(t)
	}
}

// combine is the body of the task that combines the copies of g.
func combine(t *Task, g *chain.ReductionGroup) error {
	n, copies := g.Reduced().Len(), g.Used()
	if n*copies < 2*combineGrain {
		g.Combine(0, n)
	} else {
		a := LoopAttrs{Attrs: Attrs{Label: t.label}, Grain: max(1, combineGrain/copies)}
		t.loop(t.pc, a, 0, n, func(_ *Task, lo, hi int) error { g.Combine(lo, hi); return nil }, nil)
		if err := t.Wait(); err != nil {
			return err
		}
	}
	g.Close()
	race.Release(g.Reduced())
	return nil
}

// release is called when the task's body gives the access up. It returns the copy.
func (p *share) release(s *slot) {
	if p.c != nil {
		race.Release(p.c)
	}
	p.returnCopy(s)
	p.released = true
}

// returnCopy returns the copy to the group. s is the caller's slot, nil if it has none.
func (p *share) returnCopy(s *slot) {
	if p.c == nil {
		return
	}
	at := 0
	if s != nil {
		at = s.ID
	}
	p.g.Give(at, p.c)
	p.c = nil
}

// returnCopies returns t's copies to their groups. It is called before t's accesses are given up,
// since the combination may begin at once then.
func (t *Task) returnCopies(s *slot) {
	if t.more != nil && !t.more.shares.none() {
		for p := range sharesOf(t.more).All() {
			p.returnCopy(s)
		}
	}
}
