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
	site    uintptr       // of the call that waits. +checklocks:mu
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

// enter makes a record of c, a new child of t that t's body spawns on slot s, or a main task if t
// is nil. loop: it is a task of the recorded loop that t is.
func (w *watchList) enter(s *slot, t, c *Task, accs []deps.Access, loop bool) *watched {
	now := time.Now()
	r := &watched{label: c.label, pc: c.pc, run: c.run, born: now, since: now, accs: slices.Clone(accs)}
	n := len(w.shards) - 1
	if s != nil {
		n = s.id
	}
	if t != nil {
		p := t.more.watched
		r.parent, r.depth = p, p.depth+1
		r.seq, p.children = p.children, p.children+1
		if loop {
			r.loop, r.state = true, stateResting
			for i, a := range r.accs {
				r.accs[i] = a.Strong()
			}
			p.parts = append(p.parts, r)
		}
	}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wants = yes
	r.version++
}

// over notes that r's task is over, with its descendants, or, in a recorded loop, over for this turn.
func (r *watched) over() {
	if r.loop {
		r.mu.Lock()
		r.setLocked(stateResting)
		r.given = nil
		r.mu.Unlock()
		return
	}
	for _, p := range r.parts {
		p.leave()
	}
	r.leave()
}

// waitsFor notes what the body is about to wait for.
func (r *watched) waitsFor(x *waiting) {
	site := userCaller()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.setLocked(stateWaiting)
	r.waits, r.site = *x, site
}

// gaveEarly notes a Release.
func (r *watched) gaveEarly(a deps.Access) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given = append(r.given, a)
	r.version++
}

// addEvent notes an event that release ends. The task is alive, since the event is pending.
func (r *watched) addEvent(p *probe, what any, release func(error)) func(error) {
	e := &watchEvent{what: what, site: userCaller(), since: time.Now()}
	r.mu.Lock()
	r.events = append(r.events, e)
	r.version++
	r.mu.Unlock()
	p.shows()
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

// userCaller returns the innermost return address outside of ours.
func userCaller() uintptr {
	var pcs [16]uintptr
	n := runtime.Callers(3, pcs[:])
	for _, pc := range pcs[:n] {
		if _, ok := userFrame(pc); ok {
			return pc
		}
	}
	return pcs[0]
}

// userFrame returns the innermost frame outside of ours at a return address, where several functions may be: those that the
// compiler has put into their callers.
func userFrame(pc uintptr) (f runtime.Frame, ok bool) {
	frames := runtime.CallersFrames([]uintptr{pc})
	for more := true; more; {
		if f, more = frames.Next(); !isOurs(f.Function) {
			return f, true
		}
	}
	return f, false
}
