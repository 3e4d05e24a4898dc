// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/deps"
	"weft/internal/event"
)

// events is what a slot records with (README.md, "Events"). It belongs to the holder of the slot, as the slot's own fields do. A slot
// that is not recorded has none, so that the price of not recording is a look at one pointer beside what is in use anyway.
type events struct {
	rec   *event.Recorder
	ring  *event.Ring
	specs *event.SpecCache
	now   int64 // the clock, when it was read last
	fresh bool  // nothing has run since but the slot's own bookkeeping, and no task has come from elsewhere

	by    uint64 // task whose end makes ready what comes out of the flow
	ready uint64 // task that was said to be ready when it was spawned

	annotator *annotator     // nil if Go's own tools are not to know tasks
	sampler   *event.Sampler // nil if all tasks are recorded
	stacks    *spawnStacks   // nil if stacks of spawns are not recorded

	id, idEnd uint64 // numbers for tasks: the next one, and where they end
}

// idBatch is how many numbers for tasks a slot takes at once.
const idBatch = 1 << 10

// recording is what records the events of a runtime.
type recording struct {
	out   *event.Shared
	slots []*events
}

// newRecording returns the recording that the configuration of rt asks for; nil if none.
func newRecording(rt *Runtime) *recording {
	rec := rt.cfg.Trace
	if rec == nil {
		return nil
	}
	rec.Attach()
	group := rec.Group()
	r := &recording{out: rec.Shared(event.Place{Kind: event.OtherPlace, Group: group})}
	for id := range rt.cfg.Workers {
		e := &events{rec: rec, ring: rec.Ring(event.Place{Kind: event.SlotPlace, Group: group, Index: id}), specs: event.NewSpecCache(rec.Names()), sampler: rec.Sampler()}
		e.stacks = newStacks(rec)
		if rec.Annotate() && !rt.cfg.Lint { // else bodies would meet in the contexts of Go's tools
			e.annotator = new(annotator)
		}
		r.slots = append(r.slots, e)
	}
	return r
}

// put records an event, now.
func (e *events) put(k event.Kind, a, b, c uint64) {
	if !e.ring.Wants.Has(k) || a == 0 && e.sampler != nil && ofTasks.Has(k) {
		return
	}
	e.now = event.Ticks()
	e.ring.Put(e.now, k, a, b, c)
}

// newID returns a number for a task.
func (e *events) newID() uint64 {
	if e.id == e.idEnd {
		e.id = e.rec.TaskIDs(idBatch)
		e.idEnd = e.id + idBatch
	}
	e.id++
	return e.id - 1
}

// numbered reports whether the slot has given a task its number, lately.
func (e *events) numbered(id uint64) bool { return id-(e.idEnd-idBatch) < idBatch }

// spawned gives c, which is complete but for its links, a number, and records it with its accesses. It comes before c is
// registered: from then on others may make c ready.
func (e *events) spawned(c *Task, accs []deps.Access, flags uint8) {
	e.by, e.ready = 0, 0
	if e.sampler != nil && e.skips(c, flags) {
		return
	}
	c.id = e.newID()
	if len(accs) == 0 && flags&event.SpawnedLoop == 0 {
		flags |= event.SpawnedReady
		e.ready = c.id
	}
	stack := uint32(0)
	if e.stacks != nil {
		stack = e.stackOf(c.parent())
	}
	what := c.describe(e.specs, stack, flags)
	if e.sampler != nil && flags&event.SpawnedLoop == 0 {
		what |= uint64(e.sampler.Stands()) << event.SpawnedSampled
	}
	e.put(event.Spawned, c.id, c.parent().id, what)
	if len(accs) == 0 || !e.ring.Wants.Has(event.Access) {
		return
	}
	for _, a := range accs {
		if lo, hi, slice := a.Memory(); lo != hi {
			e.ring.Put(e.now, event.Access, c.id, event.AccessB(lo, uint8(a.Mode()), a.IsWeak(), slice), uint64(hi-lo))
		}
	}
}

// describe packs what Spawned says of c besides its number and its parent.
func (c *Task) describe(specs interface{ Spec(event.Origin) uint32 }, stack uint32, flags uint8) uint64 {
	o := c.origin()
	o.Stack = stack
	priority := int32(0)
	if c.Flags&^flagLeaf != 0 {
		if c.Flags&flagRare != 0 {
			priority = c.priority
			if c.final {
				flags |= event.SpawnedFinal
			}
		}
		if c.Flags&flagWait != 0 {
			flags |= event.SpawnedWait
		}
		if c.Flags&flagOnReady != 0 {
			flags |= event.SpawnedOnReady
		}
	}
	c.spec = specs.Spec(o)
	return event.SpawnedC(c.spec, priority, flags)
}

// queued records that t may start, or be resumed. It comes before others can take t.
func (e *events) queued(t *Task) {
	switch {
	case t.Flags&flagUnseen != 0:
	case t.Flags&flagResuming != 0:
		e.put(event.Unblocked, t.id, 0, 0)
	case t.id == e.ready:
		e.ready = 0
	default:
		e.put(event.Ready, t.id, e.by, 0)
	}
}

// begins records that t's body begins, or is skipped.
func (e *events) begins(t, outer *Task, k event.Kind) {
	if t.Flags&flagUnseen != 0 {
		if e.beginsUnseen(t, outer); t.Flags&flagUnseen != 0 {
			e.fresh, e.by = false, 0
			return
		}
	}
	o := uint64(0)
	if outer != nil {
		o = outer.id
	}
	// What has failed the run may be later than the last look; and so may be what another slot has spawned behind the task
	// that has just ended, before its accesses were given up.
	if !e.fresh || outer != nil || k == event.Skipped || !e.numbered(t.id) {
		e.now = event.Ticks()
	}
	if e.ring.Wants.Has(k) {
		e.ring.Put(e.now, k, t.id, o, 0)
	}
	e.fresh = false
	e.by = 0
}

// ended records that t's body is over.
func (e *events) ended(t *Task, failed bool) {
	flags := uint64(0)
	if failed {
		flags = event.EndedFailed
	}
	if t.Flags&flagUnseen != 0 {
		e.by, e.fresh = 0, false
		return
	}
	holds := t.holds.Load()
	e.by = t.id
	id := t.id
	if holds == 0 && t.spawned == 0 && t.Flags&flagRecorded == 0 {
		flags |= event.EndedCompleted
		t.id = 0 // deepDone has nothing to say
	}
	e.put(event.Ended, id, uint64(holds), flags)
	e.fresh = e.ring.Wants.Has(event.Ended) // it has read the clock
}

// TraceID returns the number of the task in a recording of package trace; zero if it is not recorded. Any goroutine may
// call it while the task is not over.
func (t *Task) TraceID() uint64 { return t.id }
