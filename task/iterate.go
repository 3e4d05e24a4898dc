// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/event"
)

// IterAttrs are the attributes of a recorded loop. The zero value makes no iteration.
type IterAttrs struct {
	Attrs // of the loop, which is one task; Wait is always set

	// Iterations is the number of iterations. With While it is the largest number; zero then means
	// no limit.
	Iterations int

	// While, if not nil, is called before the first iteration and after each Unroll iterations,
	// when all their tasks are over. The loop ends when While returns false or an error; an error
	// ends the run. While is the body of a task, t, whose [Task.Iteration] is the number of the
	// next iteration.
	While func(t *Task) (bool, error)

	// Unroll is how many iterations are recorded, one after the other, so that they can differ:
	// zero means one. The number of iterations need not be a multiple of it.
	Unroll int
}

// Iterate runs n iterations of a loop whose iterations spawn the same tasks with the same accesses.
// It has the effect of a plain loop that calls record n times, at a fraction of the cost. record is
// called once, and the tasks that it spawns are recorded. Then each recorded task runs n times,
// without being spawned or registered again. A task starts when the tasks before it, in this
// iteration and the one before, allow it. So iterations overlap as those of the plain loop do.
//
// The loop is one child of t with the accesses accs: it starts when they allow it, and tasks that
// come after it wait for the whole loop. So accs must cover what the recorded tasks use, as
// with any task that has children. A weak access counts as a strong one here, since the
// recorded tasks are not ordered one by one with tasks outside. For n < 1 nothing is done.
//
// A recorded body may do what any body may. It is called once in each iteration, and two of its
// calls never overlap. Its closure captures values once, when it is recorded. What differs from
// iteration to iteration follows from [Task.Iteration], or is changed by the tasks themselves. A
// recorded task holds its accesses until its descendants are over as well (as with Attrs.Wait), and
// a weak access of a recorded task counts as a strong one. [Task.Release] passes an object on at
// once if the task has no live children then. Attrs.Undeferred is refused: in a recorded loop no
// creator could wait.
func (t *Task) Iterate(n int, record func(it *Iteration) error, accs ...deps.Access) {
	s := t.enter("Iterate")
	t.iterate(s, s.rt.traced(), IterAttrs{Iterations: n}, record, accesses(accs))
}

// IterateWith is Iterate with attributes. It panics if Unroll is negative.
func (t *Task) IterateWith(a IterAttrs, record func(it *Iteration) error, accs ...deps.Access) {
	s := t.enter("IterateWith")
	t.iterate(s, s.rt.traced(), a, record, accesses(accs))
}

func (t *Task) iterate(s *slot, pc uintptr, a IterAttrs, record func(it *Iteration) error, accs []chain.Access) {
	if record == nil {
		panic("task: the function that records the loop is nil")
	}
	if a.Unroll < 0 {
		panic(fmt.Sprintf("task: IterAttrs.Unroll is %d; legal are 1 and more, and 0 for 1", a.Unroll))
	}
	if a.Iterations < 0 || a.Iterations == 0 && a.While == nil {
		return
	}
	a.Unroll = max(a.Unroll, 1)
	if a.Iterations > 0 {
		a.Unroll = min(a.Unroll, a.Iterations)
	}
	if slices.ContainsFunc(accs, chain.Access.IsWeak) {
		strong := make([]chain.Access, len(accs))
		for i, x := range accs {
			strong[i] = x.Strong()
		}
		accs = strong
	}
	if pc == 0 {
		pc = reflect.ValueOf(record).Pointer() + 1 // the loop's own function is not the user's
	}
	attrs := a.Attrs
	attrs.Wait = true
	t.spawnWith(s, pc, attrs, func(t *Task) error { return t.replay(a, record) }, accs)
}

// scratch is what a recording has collected. Its memory is reused.
type scratch struct {
	parts []part
	accs  []chain.Access // of all parts
	ends  []int32        // of the accesses of each part
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// An Iteration is one iteration of a loop while it is recorded. It is valid until the
// function that records the loop returns.
type Iteration struct {
	loop   *Task // nil when the recording is over
	number int
	open   hidden // the reduction groups that may get more participants
	*scratch
}

// Spawn records a task that runs fn in each iteration. It is [Task.Spawn] otherwise.
func (it *Iteration) Spawn(fn func(*Task) error, accs ...deps.Access) {
	s := it.enter("Spawn")
	it.record(s, s.rt.traced(), &Attrs{}, fn, accesses(accs))
}

// SpawnWith is Spawn with attributes. It panics if Undeferred is among them.
func (it *Iteration) SpawnWith(a Attrs, fn func(*Task) error, accs ...deps.Access) {
	s := it.enter("SpawnWith")
	if a.Undeferred {
		panic("task: a recorded task cannot be Undeferred: nothing waits for it where the loop is recorded; order it by its accesses")
	}
	it.record(s, s.rt.traced(), &a, fn, accesses(accs))
}

// Number returns the number of the iteration that is being recorded: zero, or more with
// IterAttrs.Unroll.
func (it *Iteration) Number() int { return it.number }

func (it *Iteration) enter(op string) *slot {
	if it.loop == nil {
		panic("task: " + op + " of an Iteration whose recording is over; in a recorded body, spawn by the body's own task")
	}
	return it.loop.enter(op + " of an Iteration")
}

func (it *Iteration) record(s *slot, pc uintptr, a *Attrs, fn func(*Task) error, accs []chain.Access) {
	t := it.loop
	c := s.newTask(t, fn)
	t.node.Register(&c.node, nil, &s.flow) // the graph has its accesses
	declared := accs
	accs = it.recordReductions(c, accs)
	c.final, c.pc = t.final, pc
	c.setAttrs(a)
	c.node.Flags |= flagWait | flagRecorded
	if t.final || pc != 0 || t.node.HoldsAny() {
		// in the last case, its children need heldByLoop
		c.node.Flags |= flagRare | flagLongSpawn
	}
	if s.probe != nil {
		c.tellSpawned(s.probe, t, declared, event.SpawnedLoop)
	}
	it.parts = append(it.parts, part{task: c, flags: c.node.Flags, copy: int32(it.number)})
	it.accs = append(it.accs, accs...)
	it.ends = append(it.ends, int32(len(it.accs)))
}

// Iteration returns the number, from zero, of the iteration of the innermost recorded loop that
// t, or a task above it, was recorded in; -1 if there is none. The body of t may call it.
func (t *Task) Iteration() int {
	for ; t != nil; t = t.parent() {
		if t.node.Flags&flagRecorded != 0 {
			r, c := t.recorded()
			return int(c.round)*r.unroll + int(c.copy)
		}
	}
	return -1
}

// recordReductions returns the accesses of a task, which is about to be recorded, with its Reduce
// accesses replaced by those of the graph. It records the combining parts of the groups that end
// here, and adds the task's shares to c.
func (it *Iteration) recordReductions(c *Task, accs []chain.Access) []chain.Access {
	t := it.loop
	// panics if the loop itself reduces an object that the task accesses otherwise
	t.beforeSpawn(accs)
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
		if own := t.share(r); own != nil { // the loop takes part: its tasks do too, in any order
			addReduction(&m.shares, r, share{g: own.g, weak: a.IsWeak()})
			continue
		}
		x := it.reductionGroup(r)
		x.parts = append(x.parts, k)
		addReduction(&m.shares, r, share{g: x.g, weak: a.IsWeak()})
		out = append(out, r.Concurrent())
	}
	return out
}

// reductionGroup returns the open group of r, which it opens if there is none.
func (it *Iteration) reductionGroup(r *chain.Reduced) *recordedGroup {
	if x := openOf(it).Find(r); x != nil {
		return *x
	}
	x := &recordedGroup{r: r, g: r.Open(it.loop.run.rt.Workers())}
	addReduction(&it.open, r, x)
	return x
}

// combine records the part that combines x. The part is in every round, also in a last round that
// has only some of the iterations.
func (it *Iteration) combine(x *recordedGroup) {
	if x.r.Len() == 0 {
		return
	}
	n := it.number
	it.number = 0
	it.record(it.loop.slot, x.r.Site(), &Attrs{Label: "combine"}, x.run, []chain.Access{x.r.InOut()})
	it.number = n
}

// run is the body of the part that combines x. The participants have run, and do not run again
// before it is over.
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

// closeReductions is called at the end of the recording. It returns the groups that no part closes:
// their objects are only reduced in the loop, so one combination after the last iteration is
// enough. With While there are none: the condition may read the result, so each round ends with a
// combination.
func (it *Iteration) closeReductions(while bool) (last []*recordedGroup) {
	for _, a := range it.accs {
		for x := range openOf(it).AllMeeting(a) {
			(*x).accesses++
		}
	}
	for x, ok := openOf(it).TakeFirst(); ok; x, ok = openOf(it).TakeFirst() {
		if !while && x.accesses == len(x.parts) {
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
