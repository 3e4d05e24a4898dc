// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"slices"
	"sync/atomic"
	"time"

	"weft/internal/chain"
	"weft/internal/xatomic"
	"weft/task/internal/say"
)

// A Record is what the watchdog knows of a task. It is apart from the task, whose memory serves
// others later, and belongs to the garbage collector: so whoever walks the list of a shard may look
// at a record for as long as it likes, and finds at worst a task that is over. README.md, "The
// watchdog", has the rules.
type Record struct {
	// Constant once entered.
	id     uint64
	parent *Record // nil for the main task of a run
	seq    uint64  // among the children of parent, in the order of creation
	depth  int32
	label  string
	pc     uintptr
	born   time.Time
	accs   []chain.Access // all strong, of a task of a recorded loop
	home   *watchShard
	loop   bool // a task of a recorded loop, which runs again and again
	ranges bool // parent's children have declared ranges by now

	// Owned by the task's body.
	children uint64
	byBytes  bool      // they have declared ranges
	parts    []*Record // the tasks of the recorded loop that this task is

	mu       xatomic.Mutex
	status                  // +checklocks:mu
	events   []*watchEvent  // pending. +checklocks:mu
	released []chain.Access // by Release. +checklocks:mu

	// Guarded by home.mu.
	prev, next *Record
}

// status is what a record says of a moment.
type status struct {
	state   watchState
	since   time.Time // of state
	version uint64    // changes with all that the record's mu guards
	waits   Wait      // of stateWaiting
	site    uintptr   // of the call that waits
}

// watchState is how far a task is.
type watchState uint8

const (
	// waits for its accesses, for the events of its OnReady, or for a slot
	stateSpawned  watchState = iota
	stateResting             // of a recorded loop: waits for its next turn
	stateRunning             // the body has a slot
	stateWaiting             // the body waits in a call of this package
	stateReturned            // the body is over; its events may not be
	stateReleased            // its accesses are given up; its descendants are alive
	stateOver
)

// A Wait is what a body waits for.
type Wait struct {
	Op       string    // the method
	What     any       // that the caller has named, or what the method is about; nil: nothing
	On       *Record   // of a task that it waits for, if that is known
	Due      time.Time // when it ends by itself; zero: never
	Children bool      // it waits for all children of its task
	Passes   bool      // it ends by itself, though nobody knows when
}

// watchEvent is a pending event of a task.
type watchEvent struct {
	what  any     // as with HoldFor; nil for Hold
	site  uintptr // who called that
	since time.Time
}

// watchShard is a part of the list of live tasks: the tasks that were spawned on one slot.
type watchShard struct {
	_     [64]byte
	mu    xatomic.Mutex
	first *Record // the newest. +checklocks:mu
	made  uint64  // +checklocks:mu
	_     [64]byte
}

// leave takes r, whose task is over, off the list.
func (r *Record) leave() {
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

func (r *Record) set(s watchState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(s)
}

// +checklocks:r.mu
func (r *Record) setLocked(s watchState) {
	r.state, r.since = s, time.Now()
	r.version++
	r.waits = Wait{}
}

// Begins notes that the body starts, Returns that it is over, and Gives that the accesses are given
// up, while descendants of the task may be alive. Gives comes before the engine hears of it.
func (r *Record) Begins()  { r.set(stateRunning) }
func (r *Record) Returns() { r.set(stateReturned) }
func (r *Record) GivesUp() { r.set(stateReleased) }

// Over notes that r's task is over, with its descendants, or, in a recorded loop, over for this
// turn.
func (r *Record) Over() {
	if r.loop {
		r.mu.Lock()
		r.setLocked(stateResting)
		r.released = nil
		r.mu.Unlock()
		return
	}
	for _, p := range r.parts {
		p.leave()
	}
	r.leave()
}

// Waits notes what the body is about to wait for.
func (r *Record) Waits(x Wait) {
	site := say.Caller()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(stateWaiting)
	r.waits, r.site = x, site
}

// GaveEarly notes a Release.
func (r *Record) ReleasedEarly(a chain.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, a)
	r.version++
}

// AddEvent notes an event that release ends, and returns what ends it. The task is alive, since the
// event is pending.
func (r *Record) AddEvent(what any, release func(error)) func(error) {
	e := &watchEvent{what: what, site: say.Caller(), since: time.Now()}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.version++
	r.mu.Unlock()
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
