// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/internal/chain"
)

// recordReductions replaces the Reduce accesses of a task, which is about to be recorded, by those of the graph, and records what
// combines groups that end here. The task's shares are added to c.
func (it *Iteration) recordReductions(c *Task, accs []chain.Access) []chain.Access {
	t := it.loop
	t.beforeSpawn(accs) // panics if the loop itself reduces an object that the task accesses otherwise
	plain := true
	for _, a := range accs {
		r := a.Reduced()
		plain = plain && r == nil
		for x, ok := openOf(it).TakeMeeting(a, r); ok; x, ok = openOf(it).TakeMeeting(a, r) {
			it.combine(x)
		}
	}
	if plain {
		return accs
	}
	if why := chain.VetReductions(accs); why != "" {
		panic("task: " + why)
	}
	k := int32(len(it.parts))
	out := make([]chain.Access, 0, len(accs))
	m := c.rare()
	c.node.Flags |= flagLongSpawn
	for _, a := range accs {
		r := a.Reduced()
		if r == nil {
			out = append(out, a)
			continue
		}
		if own := c.share(r); own != nil {
			own.weak = own.weak && a.IsWeak()
			continue
		}
		if own := t.share(r); own != nil { // the loop takes part: so do its tasks, in no order
			addReduction(&m.shares, r, share{g: own.g, weak: a.IsWeak()})
			continue
		}
		x := it.group(r)
		x.parts = append(x.parts, k)
		addReduction(&m.shares, r, share{g: x.g, weak: a.IsWeak()})
		out = append(out, r.Concurrent())
	}
	return out
}

// group returns the open group of r.
func (it *Iteration) group(r *chain.Reduced) *recordedGroup {
	if x := openOf(it).Find(r); x != nil {
		return *x
	}
	x := &recordedGroup{r: r, g: r.Open(it.loop.run.rt.Workers())}
	addReduction(&it.open, r, x)
	return x
}

// combine records the part that combines x. It is in every round, also in a last one that has only some iterations.
func (it *Iteration) combine(x *recordedGroup) {
	if x.r.Len() == 0 {
		return
	}
	n := it.number
	it.number = 0
	it.record(it.loop.slot, x.r.Site(), &Attrs{Label: "combine"}, x.run, []chain.Access{x.r.InOut()})
	it.number = n
}

// run is the body of that part. Its participants have run, and do not run again before it is over.
func (x *recordedGroup) run(t *Task) error {
	if err := combine(t, x.g); err != nil {
		return err
	}
	r, p := t.recorded()
	if p.round+1 == r.tellAt {
		return nil
	}
	if g := x.r.Open(t.run.rt.Workers()); g != x.g {
		x.g = g
		for _, k := range x.parts {
			r.parts[k].task.share(x.r).g = g
		}
	}
	return nil
}

// closeReductions is called at the end of the recording. It returns the groups that nothing in the loop closes: their
// objects are only reduced, so that one combination is enough, after the last iteration. A condition sees what is
// reduced, so with one each round ends with a combination.
func (it *Iteration) closeReductions(while bool) (last []*recordedGroup) {
	for _, a := range it.accs {
		for x := range openOf(it).AllMeeting(a) {
			(*x).uses++
		}
	}
	for x, ok := openOf(it).TakeFirst(); ok; x, ok = openOf(it).TakeFirst() {
		if !while && x.uses == len(x.parts) {
			last = append(last, x)
		} else {
			it.combine(x)
		}
	}
	return last
}

// combineLast combines groups after the last iteration.
func (t *Task) combineLast(groups []*recordedGroup) error {
	if err := t.Wait(); err != nil {
		return nil // the run has failed
	}
	for _, x := range groups {
		if x.r.Len() == 0 {
			continue
		}
		if err := combine(t, x.g); err != nil {
			return err
		}
	}
	return nil
}
