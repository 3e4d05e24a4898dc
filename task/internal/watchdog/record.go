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

// A Record is what the watchdog knows of a task. It is separate from the task, whose memory serves
// other tasks later, and is freed by the garbage collector. So a goroutine that walks the list of a
// shard may use a record as long as it likes; at worst, the record is of a task that is over.
// README.md of package task, "The watchdog", has the rules.
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
	ranges bool // at the spawn, children of parent had declared ranges

	// Owned by the task's body.
	children uint64
	byBytes  bool      // they have declared ranges
	parts    []*Record // if this task is a recorded loop: its tasks

	mu       xatomic.Mutex
	status                  // +checklocks:mu
	events   []*watchEvent  // pending. +checklocks:mu
	released []chain.Access // early, by Task.Release. +checklocks:mu

	// Guarded by home.mu.
	prev, next *Record
}

// status is the part of a record that changes with the task's state.
type status struct {
	state   watchState
	since   time.Time // of state
	version uint64    // changes with all that the record's mu guards
	waits   Wait      // of stateWaiting
	site    uintptr   // of the call that waits, in stateWaiting
}

// watchState is the state of a task.
type watchState uint8

const (
	// waits for its accesses, for the events of its OnReady, or for a slot
	stateSpawned  watchState = iota
	stateResting             // of a recorded loop: waits for its next turn
	stateRunning             // the body has a slot
	stateWaiting             // the body waits in a call of package task
	stateReturned            // the body is over; the task's events may not be
	stateReleased            // the accesses are given up; descendants are alive
	stateOver
)

// A Wait is what a body waits for.
type Wait struct {
	Op       string    // the method
	What     any       // what the caller has named, or the argument of the method; nil: nothing
	On       *Record   // of the task that it waits for, if known
	Due      time.Time // when it ends by itself; zero: never
	Children bool      // it waits for all children of its task
	Passes   bool      // it ends by itself, at an unknown time
}

// watchEvent is a pending event of a task.
type watchEvent struct {
	what  any     // as with HoldFor; nil for Hold
	site  uintptr // of that call
	since time.Time
}

// watchShard is the part of the list of live tasks that one slot has spawned.
type watchShard struct {
	_     [64]byte
	mu    xatomic.Mutex
	first *Record // the newest. +checklocks:mu
	made  uint64  // +checklocks:mu
	_     [64]byte
}

// leave takes r off the list. The task is over.
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
		return // it is off the list already
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

// Begins notes that the body runs, Returns that it is over, and GivesUp that the accesses are given
// up, while descendants of the task may be alive. GivesUp is called before the engine gives the
// accesses up.
func (r *Record) Begins()  { r.set(stateRunning) }
func (r *Record) Returns() { r.set(stateReturned) }
func (r *Record) GivesUp() { r.set(stateReleased) }

// Over notes that r's task and its descendants are over; for a task of a recorded loop, that its
// turn is over.
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

// ReleasedEarly notes that Task.Release gives up a.
func (r *Record) ReleasedEarly(a chain.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released = append(r.released, a)
	r.version++
}

// AddEvent notes an event that release ends, and returns the function that ends it instead. The
// task is alive, since the event is pending.
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
