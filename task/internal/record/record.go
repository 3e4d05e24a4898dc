// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package record records the events of a runtime of tasks. README.md of package task, "Trace
// events", says which.
package record

import (
	"context"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"

	"weft/internal/chain"
	"weft/internal/event"
)

// A Recorder records the events of a runtime.
type Recorder struct {
	Off   *event.Shared // of goroutines without a slot
	Slots []*Slot

	rec *event.Recorder
}

// New makes a recorder for a number of slots, which do not run yet. annotate: Go's own tools are to
// know the tasks. The function that calls bodies has its code above lo and not above hi.
func New(rec *event.Recorder, slots int, annotate bool, lo, hi uintptr) *Recorder {
	rec.Attach()
	group := rec.Group()
	r := &Recorder{rec: rec, Off: rec.Shared(event.Location{Kind: event.OtherLocation, Group: group})}
	for id := range slots {
		s := &Slot{rec: rec, ring: rec.Ring(event.Location{Kind: event.SlotLocation, Group: group, Index: id}), specs: event.NewSpecCache(rec.Names()), sampler: rec.Sampler()}
		if c := rec.StackCache(); c != nil {
			s.stacks = &spawnStacks{cache: c, lo: lo, hi: hi}
		}
		if annotate && rec.Annotate() {
			s.annotator = annotator{}
		}
		r.Slots = append(r.Slots, s)
	}
	return r
}

// Close ends the recording. The slots have ended.
func (r *Recorder) Close() {
	for _, s := range r.Slots {
		s.ring.Retire()
	}
	r.Off.Retire()
	r.rec.Detach()
}

// NewID returns a number for a task, to a caller without a slot.
func (r *Recorder) NewID() uint64 { return r.rec.TaskIDs(1) }

// MainSpawned records the main task of a run, which has a number, and returns the number of its
// origin.
func (r *Recorder) MainSpawned(id uint64, x *Spawn) (spec uint32) {
	if r.rec.Stacks() {
		var raw [rawStack]uintptr
		n := runtime.Callers(1, raw[:])
		x.Origin.Stack = r.rec.Names().Stack(0, raw[:min(n, event.StackDepth)])
	}
	spec = r.rec.Names().Spec(x.Origin)
	r.Off.Put(event.Spawned, id, 0, event.SpawnedC(spec, x.Priority, x.Flags|event.SpawnedMain))
	return spec
}

// A Slot is what a slot records with. It belongs to the holder of the slot. A task that is not
// recorded, where tasks are sampled, has the number 0.
type Slot struct {
	rec   *event.Recorder
	ring  *event.Ring
	specs *event.SpecCache
	now   int64 // the clock, when it was read last
	// nothing has run since but the slot's own bookkeeping, and no task has come from elsewhere
	fresh bool

	readyBy      uint64 // task whose end makes ready what comes out of the flow
	spawnedReady uint64 // task that was said to be ready when it was spawned

	annotator annotator      // nil if Go's own tools are not to know tasks
	sampler   *event.Sampler // nil if all tasks are recorded
	stacks    *spawnStacks   // nil if stacks of spawns are not recorded

	id, idEnd uint64 // numbers for tasks: the next one, and where they end
}

// idBatch is how many numbers for tasks a slot takes at once.
const idBatch = 1 << 10

// Put records an event, now.
func (s *Slot) Put(k event.Kind, a, b, c uint64) {
	if !s.ring.Wants.Has(k) || a == 0 && s.sampler != nil && ofTasks.Has(k) {
		return
	}
	s.now = event.Ticks()
	s.ring.Put(s.now, k, a, b, c)
}

// Late notes that time has passed since the last event.
func (s *Slot) Late() { s.fresh = false }

// By notes which task's end makes ready what comes out of the flow from now on; zero: none's.
func (s *Slot) ReadyBy(id uint64) { s.readyBy = id }

// NewID returns a number for a task.
func (s *Slot) NewID() uint64 {
	if s.id == s.idEnd {
		s.id = s.rec.TaskIDs(idBatch)
		s.idEnd = s.id + idBatch
	}
	s.id++
	return s.id - 1
}

// numbered reports whether the slot has given a task its number, lately.
func (s *Slot) numbered(id uint64) bool { return id-(s.idEnd-idBatch) < idBatch }

// A Spawn is what is recorded of a new task.
type Spawn struct {
	Origin       event.Origin // but for the stack
	Parent       uint64       // number of the parent
	ParentSpec   uint32       // number of the parent's origin; zero: it has none
	ParentOrigin event.Origin // but for the stack
	Priority     int32
	Flags        uint8 // of event.Spawned
}

// Spawned records a new task, and returns its number and that of its origin. It comes before the
// task is registered: from then on others may make the task ready. (accs is not in x, whose parts
// the compiler takes to be kept: it would put each caller's list on the heap.)
func (s *Slot) Spawned(x *Spawn, accs []chain.Access) (id uint64, spec uint32) {
	s.readyBy, s.spawnedReady = 0, 0
	id = s.NewID()
	if len(accs) == 0 && x.Flags&event.SpawnedLoop == 0 {
		x.Flags |= event.SpawnedReady
		s.spawnedReady = id
	}
	if s.stacks != nil {
		by := x.ParentSpec
		if by == 0 {
			// most parents are not recorded, where tasks are sampled; the origin has no stack then
			by = s.specs.Spec(x.ParentOrigin)
		}
		x.Origin.Stack = s.stacks.stack(by)
	}
	spec = s.specs.Spec(x.Origin)
	what := event.SpawnedC(spec, x.Priority, x.Flags)
	if s.sampler != nil && x.Flags&event.SpawnedLoop == 0 {
		what |= uint64(s.sampler.Stands()) << event.SpawnedSampled
	}
	s.Put(event.Spawned, id, x.Parent, what)
	if len(accs) == 0 || !s.ring.Wants.Has(event.Access) {
		return id, spec
	}
	for _, a := range accs {
		if lo, hi, slice := a.Memory(); lo != hi {
			s.ring.Put(s.now, event.Access, id, event.AccessB(lo, uint8(a.Mode()), a.IsWeak(), slice), uint64(hi-lo))
		}
	}
	return id, spec
}

// Queued records that a task may start, or be resumed. It comes before others can take the task.
func (s *Slot) Queued(id uint64, resumes bool) {
	switch {
	case resumes:
		s.Put(event.Unblocked, id, 0, 0)
	case id == s.spawnedReady:
		s.spawnedReady = 0
	default:
		s.Put(event.Ready, id, s.readyBy, 0)
	}
}

// Begins records that a body begins on top of the task with number outer, or is skipped: k says so.
func (s *Slot) Begins(id, outer uint64, k event.Kind) {
	// What has failed the run may be later than the last look; and so may be what another slot has
	// spawned behind the task that has just ended, before its accesses were given up.
	if !s.fresh || k == event.Skipped || !s.numbered(id) {
		s.now = event.Ticks()
	}
	if s.ring.Wants.Has(k) {
		s.ring.Put(s.now, k, id, outer, 0)
	}
	s.fresh = false
	s.readyBy = 0
}

// Ended records that a body is over, with as many events bound.
func (s *Slot) Ended(id uint64, events int32, flags uint64) {
	s.readyBy = id
	s.Put(event.Ended, id, uint64(events), flags)
	s.fresh = s.ring.Wants.Has(event.Ended) // it has read the clock
}

// ofTasks are the kinds of events whose first word is the number of a task.
var ofTasks = event.Of(event.Ready, event.Prepared, event.Started, event.Skipped, event.Ended, event.Released, event.Completed,
	event.Blocked, event.Unblocked, event.Resumed, event.HoldUp, event.HoldDown)

// EndedUnseen is Ended for a task that is not recorded.
func (s *Slot) EndedUnseen() { s.readyBy, s.fresh = 0, false }

// Skips reports whether a task that is being spawned is not to be recorded. Tasks of recorded loops
// always are, since a round says which task of the first round each of its tasks was.
func (s *Slot) Skips(flags uint8) bool {
	if s.sampler == nil || flags&event.SpawnedLoop != 0 || s.sampler.Take() {
		return false
	}
	s.readyBy, s.spawnedReady, s.fresh = 0, 0, false
	return true
}

// BeginsUnseen is the start of a body whose task was not recorded when it was spawned. On top of
// one that is recorded it has to be from here on: what it runs is not that one's. So it gets a
// number then; else zero. It is counted here and not when it is spawned, since its closure is about
// to be used. Precondition: tasks are sampled. Those who consume see a task without a spawn.
func (s *Slot) BeginsUnseen(o event.Origin, outer uint64) (id uint64) {
	s.sampler.Skip(o)
	if outer != 0 {
		return s.NewID()
	}
	s.fresh, s.readyBy = false, 0
	return 0
}

// Annotates reports whether bodies are to run under annotations.
func (s *Slot) Annotates() bool { return s.annotator != nil }

// Annotate begins an annotation for a body of a task with origin o, on top of one with origin
// outer, if that is not nil. Precondition: Annotates.
func (s *Slot) Annotate(ctx context.Context, o event.Origin, outer *event.Origin) Annotation {
	x, now := s.annotator.of(o), Annotation{outer: context.Background()}
	if outer != nil {
		now.outer = s.annotator.of(*outer).ctx
	}
	pprof.SetGoroutineLabels(x.ctx)
	if trace.IsEnabled() {
		now.region = trace.StartRegion(ctx, x.name)
	}
	return now
}

// Unlabel takes off the goroutine what it has inherited from the body that it was started by.
func (s *Slot) Unlabel() {
	if s.annotator != nil {
		pprof.SetGoroutineLabels(context.Background())
	}
}

// spawnStacks is what a slot takes stacks of spawns with. It belongs to the holder of the slot.
type spawnStacks struct {
	cache  *event.StackCache
	lo, hi uintptr // of the code of what calls bodies
	key    [event.StackDepth]uintptr
	raw    [rawStack]uintptr
}

// rawStack is how many frames are looked at: those that are kept, and what the runtime of tasks has
// on top of them.
const rawStack = event.StackDepth + 12

// stack returns the number of the stack of the spawn that is under way. The frames end with the
// body of the parent: what has called that one has to do with the slot, not with the parent.
// Instead there is the number of the parent's origin, by.
func (x *spawnStacks) stack(by uint32) uint32 {
	// To walk the stack as the runtime does takes microseconds, since it looks up each function. So
	// a stack that has been seen is known by its return addresses alone, of which calls that the
	// compiler has put into their callers have none.
	n := frames(&x.key[0], len(x.key), x.lo, x.hi)
	key := x.key[:max(n, 0)]
	if n >= 0 {
		if id := x.cache.Find(by, key); id != 0 {
			return id
		}
	}
	pcs := x.raw[:runtime.Callers(2, x.raw[:])]
	for i, pc := range pcs {
		if x.lo < pc && pc <= x.hi {
			pcs = pcs[:i]
			break
		}
	}
	if n < 0 {
		key = pcs
	}
	return x.cache.Learn(by, key, pcs)
}

// annotator makes Go's own tools know tasks: samples of a CPU profile have the label "task", and
// while a runtime trace is taken each body is a region. It belongs to the holder of the slot.
type annotator map[event.Origin]*annotation

// annotation is what tasks of one origin are called.
type annotation struct {
	name string
	ctx  context.Context // with the name as a label of profiles
}

// of returns what a task is called: its label, or the name of its body.
func (a annotator) of(o event.Origin) *annotation {
	x := a[o]
	if x == nil {
		x = &annotation{name: o.Label}
		if f := runtime.FuncForPC(o.Body); x.name == "" && f != nil {
			x.name = f.Name()[strings.LastIndexByte(f.Name(), '/')+1:]
		}
		x.ctx = pprof.WithLabels(context.Background(), pprof.Labels("task", x.name))
		a[o] = x
	}
	return x
}

// Annotation is what a body runs under. A body may come back with another slot, but on the same
// goroutine, which is what labels and regions belong to. If it ends the goroutine there is nothing
// to take back.
type Annotation struct {
	outer  context.Context
	region *trace.Region // nil if there is no runtime trace
}

// End ends the annotation.
func (a Annotation) End() {
	if a.region != nil {
		a.region.End()
	}
	pprof.SetGoroutineLabels(a.outer)
}
