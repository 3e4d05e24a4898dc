// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package record records trace events of the tasks and slots of a runtime. README.md of package
// task, "Trace events", says which.
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

// A Recorder records the trace events of a runtime.
type Recorder struct {
	Off   *event.Shared // for goroutines without a slot
	Slots []*Slot

	rec *event.Recorder
}

// New makes a recorder for a number of slots, which do not run yet. annotate: bodies run under
// annotations for Go's own tools. The code of the function that calls bodies is above lo, up to hi.
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

// Close ends the recording. Precondition: the slots have ended.
func (r *Recorder) Close() {
	for _, s := range r.Slots {
		s.ring.Retire()
	}
	r.Off.Retire()
	r.rec.Detach()
}

// NewID returns a number for a task. It is for callers without a slot.
func (r *Recorder) NewID() uint64 { return r.rec.TaskIDs(1) }

// MainSpawned records the main task of a run, which has the number id, and returns the number of
// its origin.
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

// A Slot records trace events of one slot. It belongs to the holder of the slot. If tasks are
// sampled, a task that is not recorded has the number 0.
type Slot struct {
	rec   *event.Recorder
	ring  *event.Ring
	specs *event.SpecCache
	now   int64 // the last reading of the clock
	// since that reading, only the slot's own bookkeeping has run, and no task has come from
	// elsewhere
	fresh bool

	readyBy      uint64 // the task whose end makes the next tasks ready
	spawnedReady uint64 // the task that was recorded as ready when it was spawned

	annotator annotator      // nil if bodies run without annotations
	sampler   *event.Sampler // nil if all tasks are recorded
	stacks    *spawnStacks   // nil if stacks of spawns are not recorded

	id, idEnd uint64 // numbers for tasks: the next one, and the end of the batch
}

// idBatch is how many numbers for tasks a slot takes at once.
const idBatch = 1 << 10

// Put records a trace event with the current time.
func (s *Slot) Put(k event.Kind, a, b, c uint64) {
	if !s.ring.Wants.Has(k) || a == 0 && s.sampler != nil && ofTasks.Has(k) {
		return
	}
	s.now = event.Ticks()
	s.ring.Put(s.now, k, a, b, c)
}

// Late notes that time has passed since the last trace event.
func (s *Slot) Late() { s.fresh = false }

// ReadyBy notes the task whose end makes tasks ready from now on; zero: none.
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

// numbered reports whether id is in the slot's current batch of numbers.
func (s *Slot) numbered(id uint64) bool { return id-(s.idEnd-idBatch) < idBatch }

// A Spawn is what is recorded of a new task.
type Spawn struct {
	Origin       event.Origin // without the stack
	Parent       uint64       // number of the parent
	ParentSpec   uint32       // number of the parent's origin; zero: it has none
	ParentOrigin event.Origin // without the stack
	Priority     int32
	Flags        uint8 // of event.Spawned
}

// Spawned records a new task, and returns its number and the number of its origin. It is called
// before the task is registered: from then on other goroutines may make the task ready. (accs is
// not a field of x: the compiler would take it to escape, and put each caller's list on the heap.)
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
			// the parent is not recorded, as most are if tasks are sampled: its origin has no stack
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

// Queued records that a task may start, or be resumed. It is called before a slot can take the
// task.
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

// Begins records that a body begins on top of the task with number outer, or is skipped, as k says.
func (s *Slot) Begins(id, outer uint64, k event.Kind) {
	// A task is skipped because the run has failed, which may be later than the last reading of the
	// clock. So may be the spawn of a successor by another slot, before the task that has just
	// ended here gave up its accesses.
	if !s.fresh || k == event.Skipped || !s.numbered(id) {
		s.now = event.Ticks()
	}
	if s.ring.Wants.Has(k) {
		s.ring.Put(s.now, k, id, outer, 0)
	}
	s.fresh = false
	s.readyBy = 0
}

// Ended records that a body is over; events is how many events it has bound.
func (s *Slot) Ended(id uint64, events int32, flags uint64) {
	s.readyBy = id
	s.Put(event.Ended, id, uint64(events), flags)
	s.fresh = s.ring.Wants.Has(event.Ended) // it has read the clock
}

// ofTasks are the kinds of trace events whose first word is the number of a task.
var ofTasks = event.Of(event.Ready, event.Prepared, event.Started, event.Skipped, event.Ended, event.Released, event.Completed,
	event.Blocked, event.Unblocked, event.Resumed, event.HoldUp, event.HoldDown)

// EndedUnseen is Ended for a task that is not recorded.
func (s *Slot) EndedUnseen() { s.readyBy, s.fresh = 0, false }

// Skips reports whether a task that is being spawned is left out of the recording. Tasks of
// recorded loops never are, since the record of each round refers to the tasks of the first round.
func (s *Slot) Skips(flags uint8) bool {
	if s.sampler == nil || flags&event.SpawnedLoop != 0 || s.sampler.Take() {
		return false
	}
	s.readyBy, s.spawnedReady, s.fresh = 0, 0, false
	return true
}

// BeginsUnseen is called when a body begins whose task was not recorded when it was spawned. If the
// body runs on top of a recorded task, it must be recorded from now on, since its time is not that
// task's. So BeginsUnseen returns a number then, else zero; the trace has a task without a spawn.
// The sampler counts the task here and not at its spawn: to find the origin reads the closure,
// which the body is about to use anyway. Precondition: tasks are sampled.
func (s *Slot) BeginsUnseen(o event.Origin, outer uint64) (id uint64) {
	s.sampler.Skip(o)
	if outer != 0 {
		return s.NewID()
	}
	s.fresh, s.readyBy = false, 0
	return 0
}

// Annotates reports whether bodies run under annotations.
func (s *Slot) Annotates() bool { return s.annotator != nil }

// Annotate begins an annotation for the body of a task with origin o. If outer is not nil, the body
// runs on top of a task with that origin. Precondition: Annotates.
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

// Unlabel removes the labels that the goroutine has inherited from the body that started it.
func (s *Slot) Unlabel() {
	if s.annotator != nil {
		pprof.SetGoroutineLabels(context.Background())
	}
}

// spawnStacks records the stacks of spawns of a slot. It belongs to the holder of the slot.
type spawnStacks struct {
	cache  *event.StackCache
	lo, hi uintptr // bounds of the code that calls bodies
	key    [event.StackDepth]uintptr
	raw    [rawStack]uintptr
}

// rawStack is how many frames are read: those that are kept, and the frames of package task on top
// of them.
const rawStack = event.StackDepth + 12

// stack returns the number of the stack of the current spawn. Its frames end with the body of the
// parent: the callers of the body belong to the slot, not to the parent. Instead of them, the stack
// refers to the parent's origin, by its number by.
func (x *spawnStacks) stack(by uint32) uint32 {
	// runtime.Callers takes microseconds, since it finds the function of each frame. So a known
	// stack is found by its return addresses alone, without inlined calls, which have none.
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

// annotator annotates bodies for Go's own tools: samples of a CPU profile have the label "task",
// and in a runtime trace each body is a region. It belongs to the holder of the slot.
type annotator map[event.Origin]*annotation

// annotation is the name of the tasks of one origin.
type annotation struct {
	name string
	ctx  context.Context // with the name as a label of profiles
}

// of returns the annotation of tasks of origin o. Their name is their label, or that of the body.
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

// An Annotation is the annotation of a running body. A body may continue with another slot, but on
// the same goroutine, to which labels and regions belong. If the body ends the goroutine, End is
// not called, and need not be.
type Annotation struct {
	outer  context.Context // with the labels to restore
	region *trace.Region   // nil if there is no runtime trace
}

// End ends the annotation.
func (a Annotation) End() {
	if a.region != nil {
		a.region.End()
	}
	pprof.SetGoroutineLabels(a.outer)
}
