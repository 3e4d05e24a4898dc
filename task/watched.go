// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"weft/deps"
	"weft/internal/xatomic"
)

// watched is what the watchdog knows of a task. It is apart from the task, whose memory serves others later, and belongs
// to the garbage collector: so whoever walks the list of a shard may look at a record for as long as it likes, and finds at
// worst a task that is over. README.md, "The watchdog", has the rules.
type watched struct {
	// Constant once entered.
	id     uint64
	parent *watched // nil for the main task of a run
	seq    uint64   // among the children of parent, in the order of creation
	depth  int32
	label  string
	pc     uintptr
	run    *run
	born   time.Time
	accs   []deps.Access // all strong, of a task of a recorded loop
	home   *watchShard
	loop   bool // a task of a recorded loop, which runs again and again

	// Owned by the task's body.
	children uint64
	parts    []*watched // the tasks of the recorded loop that this task is

	mu      xatomic.Mutex
	state   watchState    // +checklocks:mu
	since   time.Time     // of state. +checklocks:mu
	version uint64        // changes with all that mu guards. +checklocks:mu
	waits   waiting       // of stateWaiting. +checklocks:mu
	events  []*watchEvent // pending. +checklocks:mu
	given   []deps.Access // by Release. +checklocks:mu
	wants   bool          // of stateSpawned: its objects are being taken, or it waits for them. +checklocks:mu

	// Guarded by home.mu.
	prev, next *watched
}

// watchState is how far a task is.
type watchState uint8

const (
	stateSpawned  watchState = iota // waits for its accesses, for the events of its OnReady, or for a slot
	stateResting                    // of a recorded loop: waits for its next turn
	stateRunning                    // the body has a slot
	stateWaiting                    // the body waits in a call of this package
	stateReturned                   // the body is over; its events may not be
	stateGiven                      // its accesses are given up; its descendants are alive
	stateOver
)

// waiting is what a body waits for.
type waiting struct {
	op   string   // the method
	what any      // that the caller has named, or what the method is about
	on   *watched // a task that it waits for, if that is known
	lock *Mutex   // that it waits for
	site uintptr
	due  time.Time // when it ends by itself; zero: never
}

// watchEvent is a pending event of a task.
type watchEvent struct {
	what  any     // as with HoldFor; nil for Hold
	site  uintptr // who called that
	since time.Time
}

// watchShard is a part of the list of live tasks: the tasks that were spawned on one slot.
type watchShard struct {
	_     pad
	mu    xatomic.Mutex
	first *watched // the newest. +checklocks:mu
	made  uint64   // +checklocks:mu
	_     pad
}

// watchList is the list of a runtime's tasks. It is kept if Config.Watchdog is set.
type watchList struct {
	shards []watchShard // one for each slot, and one for goroutines without
	dog    watchdog
}

// enter makes a record of c, a new child of t, or a main task if t is nil.
func (w *watchList) enter(t, c *Task, s *slot, accs []deps.Access) *watched {
	now := time.Now()
	r := &watched{label: c.label, pc: c.pc, run: c.run, born: now, since: now, accs: slices.Clone(accs)}
	n := len(w.shards) - 1
	if s != nil {
		n = s.id
	}
	if t != nil {
		if p := t.watched(); p != nil {
			r.parent, r.depth = p, p.depth+1
			r.seq, p.children = p.children, p.children+1
		}
	}
	c.rare().watched = r
	c.Flags |= flagLongSpawn
	sh := &w.shards[n]
	r.home = sh
	sh.mu.Lock()
	r.id = sh.made*uint64(len(w.shards)) + uint64(n) + 1
	sh.made++
	if r.next = sh.first; r.next != nil {
		r.next.prev = r
	}
	sh.first = r
	sh.mu.Unlock()
	return r
}

// leave takes r, whose task is over, off the list.
func (r *watched) leave() {
	r.set(stateOver)
	sh := r.home
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case r.prev != nil:
		r.prev.next = r.next
	case sh.first == r:
		sh.first = r.next
	default:
		return // it has left before
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// watched returns t's record; nil if none is kept. Precondition: t is alive.
func (t *Task) watched() *watched {
	if t.more == nil {
		return nil
	}
	return t.more.watched
}

func (r *watched) set(s watchState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(s)
}

// +checklocks:r.mu
func (r *watched) setLocked(s watchState) {
	r.state, r.since = s, time.Now()
	r.version++
	r.waits, r.wants = waiting{}, false
}

// wantsObjects notes that r's task is about to take the objects of its Commutative accesses, or has taken them.
func (r *watched) wantsObjects(yes bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants = yes
	r.version++
}

// looksAt tells the tools that keep records of tasks about c, a new child of t on slot s. Precondition: c has its attributes, and
// nobody else knows it.
func (t *Task) looksAt(s *slot, c *Task, accs []deps.Access) {
	if w := s.rt.watch; w != nil {
		w.enter(t, c, s, accs)
	}
	if s.rt.lint != nil {
		s.rt.lintNew(t, c, accs, false)
	}
}

// looksAtMain is looksAt for a main task. It returns the record, if there is one.
func (t *Task) looksAtMain() *watched {
	if rt := t.run.rt; rt.lint != nil {
		rt.lintNew(nil, t, nil, false)
	}
	if w := t.run.rt.watch; w != nil {
		return w.enter(nil, t, nil, nil)
	}
	return nil
}

// watchPart is looksAt for c, a task of the recorded loop that t is.
func (t *Task) watchPart(s *slot, c *Task, accs []deps.Access) {
	if s.rt.lint != nil {
		s.rt.lintNew(t, c, accs, true)
	}
	w := s.rt.watch
	if w == nil {
		return
	}
	strong := slices.Clone(accs)
	for i, a := range strong {
		strong[i] = a.Strong()
	}
	r := w.enter(t, c, s, strong)
	r.loop = true
	r.set(stateResting)
	if p := t.watched(); p != nil {
		p.parts = append(p.parts, r)
	}
}

// begins notes that t's body starts, and returned that it is over.
func (t *Task) begins() {
	if r := t.watched(); r != nil {
		r.set(stateRunning)
	}
}

func (t *Task) returned() {
	if r := t.watched(); r != nil {
		r.set(stateReturned)
	}
}

// gives notes that t's accesses are given up. It comes before the engine hears of it.
func (t *Task) gives() {
	if r := t.watched(); r != nil {
		r.set(stateGiven)
	}
}

// ends notes that t is over, with its descendants, or, in a recorded loop, over for this turn.
func (t *Task) ends() {
	r := t.watched()
	switch {
	case r == nil:
	case r.loop:
		r.mu.Lock()
		r.setLocked(stateResting)
		r.given = nil
		r.mu.Unlock()
	default:
		for _, p := range r.parts {
			p.leave()
		}
		r.leave()
	}
}

// waitsFor notes what t's body is about to wait for, and returns what takes that back. It costs nothing without a watchdog.
func (t *Task) waitsFor(x waiting) (over func()) {
	if t.run.rt.watch == nil {
		return func() {}
	}
	return t.noteWait(x)
}

func (t *Task) noteWait(x waiting) func() {
	r := t.watched()
	if r == nil {
		return func() {}
	}
	x.site = userCaller()
	r.mu.Lock()
	r.setLocked(stateWaiting)
	r.waits = x
	r.mu.Unlock()
	t.run.rt.lintShow()
	return func() { r.set(stateRunning) }
}

// gaveEarly notes a Release.
func (t *Task) gaveEarly(a deps.Access) {
	if r := t.watched(); r != nil {
		r.mu.Lock()
		r.given = append(r.given, a)
		r.version++
		r.mu.Unlock()
	}
}

// HoldFor is [Task.Hold] for an event that says what it is: what is printed, by its String method if it has one, where the watchdog
// lists what a task waits for. It must be safe to print by any goroutine at any time.
func (t *Task) HoldFor(what any) func(error) {
	release := t.hold() // t is not over before release is called
	if t.run.rt.watch == nil {
		return release
	}
	return t.noteEvent(what, release)
}

// noteEvent notes an event that release ends. t is alive, since the event is pending.
func (t *Task) noteEvent(what any, release func(error)) func(error) {
	r := t.watched()
	if r == nil {
		return release
	}
	e := &watchEvent{what: what, site: userCaller(), since: time.Now()}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.version++
	r.mu.Unlock()
	t.run.rt.lintShow()
	var once atomic.Bool
	return func(err error) {
		if once.CompareAndSwap(false, true) {
			r.mu.Lock()
			if i := slices.Index(r.events, e); i >= 0 {
				r.events = slices.Delete(r.events, i, i+1)
			}
			r.version++
			r.mu.Unlock()
			r, e = nil, nil // the function may be kept
		}
		release(err)
	}
}

// ours are the packages whose functions are not where the user has called.
var ours = []string{"weft/task.", "weft/tampi."}

// userCaller returns the innermost program counter outside of ours.
func userCaller() uintptr {
	var pcs [16]uintptr
	n := runtime.Callers(3, pcs[:])
	frames := runtime.CallersFrames(pcs[:n])
	for n > 0 {
		f, more := frames.Next()
		if !isOurs(f.Function) {
			return f.PC + 1 // as a return address
		}
		if !more {
			break
		}
	}
	return pcs[0]
}
