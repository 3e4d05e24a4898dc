// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"

	"weft/deps"
	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A Task is one execution of a body. A body gets its own task as the argument and
// makes children, waits and binds events through it.
//
// Unless a method says otherwise, only the body may call it, on the goroutine that
// runs the body; a call from elsewhere panics and names both. The task must not be
// used once it is over: its memory serves another one then.
type Task struct {
	// The node's first line and the one that ends with slot are all that a task without accesses,
	// children and events touches; with accesses, the node's second line too. Flags says which of
	// the other fields are to be looked at. They and Parent, which is nil for the main task of a
	// run, are constant once the task is spawned, as run is.
	node chain.Node // must be the first field: see fromNode

	fn   func(*Task) error
	run  *run
	slot *slot // slot that the body runs on; nil while it does not run; owned as outer is

	// Owned by the body, or by whoever runs it next: the slot hands it on.
	outer    *Task // slot.outer, while the body has no slot, or another one runs on top of it; else nil
	spawned  int64 // children that count has not been told of; by flagLeaf
	und      *undeferred
	cost     int            // by flagRare
	holds    xatomic.Int32  // events, plus bodyOver once the body is over; by flagHeld
	block    xatomic.Uint32 // state of Block and Unblock
	nested   int32          // slot.nested, while the body has no slot
	priority int32          // by flagPriority
	spec     uint32         // its origin in a recording; zero if its spawn is not recorded
	final    bool           // Attrs.Final, of the task or of one above it; by flagRare
	phase    uint8          // what the last child does when count is armed; by flagLeaf
	unlooked uint8          // spawns since the window was looked at; by flagLeaf
	_        [8]byte        // to the end of the line

	// The last line is for what children write, and for what seldom is needed.

	// count is minus the children that are over, until it is armed by adding
	// spawned: then it is the number of live children, and whoever makes it
	// zero does what phase says. Unarmed it never becomes zero by a child.
	count xatomic.Int64

	// idle is the number of children that wait for something other than a
	// slot: blocked, or for events. The window does not count them.
	idle xatomic.Int32

	// By flagRare.
	pc     uintptr // spawn site, if traced
	label  string
	parker *parker
	more   *more
	id     uint64 // in a recording; zero if not recorded
}

// parent returns the task that has spawned t; nil if t is the main task of a run.
func (t *Task) parent() *Task { return fromNode(t.node.Parent) }

// Values of Node.Flags.
const (
	flagLeaf       = 1 << iota // no child has been spawned
	flagHeld                   // the body or OnReady may have bound an event
	flagMain                   // a main task: its memory has not come from a slot
	flagBlocks                 // somebody may unblock the task, however late: its memory is not used again
	flagWait                   // Attrs.Wait
	flagPriority               // priority is not zero
	flagRare                   // one of the fields is set that keep clears
	flagUndeferred             // und is set
	flagResuming               // in a queue to get a slot, not to start
	flagOnReady                // more.onReady is to be called before the body
	flagLongSpawn              // to spawn is more than Spawn: the task is final, has reductions, or spawns are traced
	flagUnseen                 // tasks are sampled, and this one is not recorded: its last line is not touched, and id is zero
	flagRecorded               // a part of a recorded loop
)

// Values of Task.phase.
const (
	phaseBody  = iota // count is not armed
	phaseWait         // the body waits for the children
	phaseEnded        // the body and its events are over
)

// Attrs are the attributes of a task. The zero value has none.
type Attrs struct {
	// Label names the task in errors and profiles.
	Label string

	// Priority orders ready tasks: larger first; the default is 0. It is a hint:
	// running tasks are not interrupted. Children do not inherit it. What does not fit into 32 bits counts as the largest, or smallest, that does.
	Priority int

	// Undeferred makes Spawn return when the body is over (OmpSs-2's if(0)). It
	// runs on the creator's stack if its accesses allow it at once.
	Undeferred bool

	// Wait holds all accesses back until the descendants are over as well. It is
	// coarser than to let the children's accesses go one by one, and cheaper than
	// a Wait at the end of the body, since no stack is kept.
	Wait bool

	// Final makes all descendants undeferred: each runs at once when it is
	// spawned, one after the other. It ends a recursion whose parts have become too
	// small to run in parallel. [Task.InFinal] tells the bodies.
	Final bool

	// Cost says how much work the task is, in units of the program's own. It is kept for
	// those who ask ([Task.Cost]); the scheduler does not use it.
	Cost int

	// OnReady, if not nil, is called once when the accesses are satisfied, before
	// the body. It may bind events by [Task.Hold], and the body starts when these have
	// ended; then the body may bind events of its own. An error or a panic ends the
	// run. OnReady runs where tasks are scheduled, so it must be short and not block: of
	// t's methods it may call Hold, Context, Runtime, Label, Cost and InFinal.
	OnReady func(t *Task) error
}

// more is what few tasks have. A task keeps it when its memory is used again.
type more struct {
	onReady func(*Task) error
	held    *Mutex  // the newest one that the body has locked and not unlocked
	noted           // by the observers
	replay  *replay // the loop that the body has recorded

	shares hidden // the reductions that the task takes part in
	groups hidden // those of its children that are open
}

// rare returns t's more. Precondition: the caller spawns t, or is its body.
func (t *Task) rare() *more {
	t.node.Flags |= flagRare
	if t.more == nil {
		t.more = new(more)
	}
	return t.more
}

// Context returns the context of the run: it is cancelled when the run's own
// context is, or when a task fails, with that error as the cause.
// Any goroutine may call it while the task is not over.
func (t *Task) Context() context.Context { return t.running("Context").ctx }

// Runtime returns the runtime that runs the task. Any goroutine may call it.
func (t *Task) Runtime() *Runtime { return t.running("Runtime").rt }

// running returns t's run. It panics if t is over.
func (t *Task) running(op string) *run {
	if t.run == nil {
		panic("task: " + op + " on a task that is over")
	}
	return t.run
}

// Label returns the label of the task. Any goroutine may call it while the task
// is not over.
func (t *Task) Label() string { return t.label }

// TraceID returns the number of the task in a recording of package trace; zero if it is not recorded. Any goroutine may
// call it while the task is not over.
func (t *Task) TraceID() uint64 { return t.id }

// Release gives up an access before the body ends; the body must not touch the
// object any more. Each must be declared in just that mode; an error names the first
// that is not, and the rest is given up all the same.
func (t *Task) Release(accs ...deps.Access) error {
	s := t.enter("Release")
	if t.node.Flags&flagRecorded != 0 {
		return t.giveEarly(s, accesses(accs))
	}
	var first error
	for _, a := range accesses(accs) {
		if t.node.Flags&flagLongSpawn != 0 {
			s = t.beforeRelease(a)
		}
		if s.probe != nil {
			s.probe.releases(t, a)
		}
		if err := t.node.Release(a, &s.flow); err != nil {
			if s.probe != nil {
				s.probe.keeps(t)
			}
			if first == nil {
				first = err
			}
		}
	}
	s.settle(false)
	return first
}

// enter checks that the caller is t's body and returns its slot.
func (t *Task) enter(op string) *slot {
	s := t.slot
	if s == nil || s.cur.load() != t || !s.Mine() {
		t.misuse(op, s)
	}
	return s
}

// misuse reports a call that is not the body's. What it says of a task that is over may be
// about the next task in the same memory.
func (t *Task) misuse(op string, s *slot) {
	who := "a goroutine that runs no task"
	if h := here(t.run); h != nil && h.cur.load() != nil {
		who = h.cur.load().name()
	}
	why := "only its own body may, while it runs"
	if s == nil {
		why = "its body is not running"
	}
	panic("task: " + op + " on " + t.name() + " by " + who + ": " + why)
}

// name says which task t is, in a message.
func (t *Task) name() string {
	switch {
	case t.fn == nil:
		return "a task that is over"
	case t.label != "":
		return "task " + t.label + " (spawned at " + t.site() + ")"
	}
	return "the task spawned at " + t.site()
}

// here returns the slot that the caller holds in the runtime of r; nil if none.
func here(r *run) *slot {
	if r == nil {
		return nil
	}
	return r.rt.here()
}

// InFinal reports whether t was spawned with [Attrs.Final], or descends from such a
// task: what it spawns runs at once. Any goroutine may call it while the task is not over.
func (t *Task) InFinal() bool { return t.final }

// Cost returns [Attrs.Cost]. Any goroutine may call it while the task is not over.
func (t *Task) Cost() int { return t.cost }

// Uses says that the body is about to use memory as accs say. In debug mode it panics if the task has not
// declared that, has declared it weak, or has given it up; otherwise it does nothing. It is for the places where
// a body gets at its data.
func (t *Task) Uses(accs ...deps.Access) {
	if t.run == nil || t.run.rt.probe == nil || t.run.rt.probe.audit == nil {
		return
	}
	t.enter("Uses")
	if why := t.more.audited.Uses(accesses(accs)); why != "" {
		panic("task: " + why)
	}
}
