// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package sched is the scheduler of package task: it says which task a slot runs next, and puts
// slots without work to sleep. A task is a node of the dependency engine here, and ready; what a
// task is besides, and how it is run, the runtime knows.
//
// Ready tasks are in four places. Each slot has a deque: the slot works at one end, and others
// steal from the other. One queue is for tasks that a goroutine without a slot has made ready. Two
// are for tasks with a priority, above zero and below. README.md has the protocols of the deque and
// of idle slots.
package sched

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// Rounds is how often a slot looks at everything before it parks (bench task/blocks; to park and to
// be woken cost about as much).
const Rounds = 40

// Init makes q the scheduler of the given slots, whose identities are their places. A slot looks at
// everything so many rounds before it parks. The seed decides the order in which slots look at
// others.
func (q *Scheduler) Init(host Host, slots []*Slot, rounds int, seed uint64) {
	q.host, q.rounds, q.slots = host, rounds, slots
	q.holders.init(len(slots))
	for id, s := range slots {
		s.q, s.ID, s.sema = q, id, newSleeper()
		s.rng = *rand.NewPCG(uint64(id), 0x9E3779B97F4A7C15^seed)
		s.deque.init(ringMin)
	}
}

// Close has all slots end: Hunt says so to each of them. Tasks that are queued are not run.
func (q *Scheduler) Close() { q.idle.close() }

// Free gives back what sleeping slots have used. No slot has a holder any more.
func (q *Scheduler) Free() {
	for _, s := range q.slots {
		s.sema.close()
	}
}

// Ready queues n, of a goroutine that has no slot, or with a priority.
func (q *Scheduler) Ready(n *chain.Node, priority int32) {
	switch {
	case priority == 0:
		q.inject.push(n) //bug:P1
	case priority > 0:
		q.high.push(n, priority)
	default:
		q.low.push(n, priority)
	}
	q.idle.notify()
}

// Here returns the slot that the calling goroutine holds; nil if none.
func (q *Scheduler) Here() *Slot {
	if g := Goid(); g != 0 {
		return q.holders.find(g)
	}
	return nil
}

// Work reports whether a task is queued, but for those that a slot keeps to run next.
func (q *Scheduler) Work() bool {
	if q.inject.n.Load() > 0 || q.high.n.Load() > 0 || q.low.n.Load() > 0 { //bug:high
		return true
	}
	for _, s := range q.slots {
		if !s.deque.empty() {
			return true
		}
	}
	return false
}

// Parked returns how many slots are parked.
func (q *Scheduler) Parked() int { return int(q.idle.parked.Load()) }

// AllParked reports whether all slots are parked.
func (q *Scheduler) AllParked() bool { return q.Parked() == len(q.slots) }

// Parks returns how many slots are parked, and how often one was.
func (q *Scheduler) Parks() (parked int, times uint64) {
	i := &q.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.list), i.parks
}

// EachParked calls f for the parked slots, which stay so until it returns: f may use
// what is the holder's.
func (q *Scheduler) EachParked(f func(*Slot)) {
	i := &q.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.list {
		f(s)
	}
}

// Lengths returns the lengths of the queues that belong to no slot.
func (q *Scheduler) Lengths() [3]int64 {
	return [3]int64{q.inject.n.Load(), q.high.n.Load(), q.low.n.Load()}
}

// View returns what a slot is like now.
func (q *Scheduler) View(slot int) View {
	s := q.slots[slot]
	return View{s.deque.top.Load(), s.deque.bottom.Load(), s.g.Load()}
}

// NotAtRest says what keeps q from being at rest; "" if each slot is parked, none is counted as
// hunting and nothing is queued. It is for tests. While the list is locked no slot leaves it; and
// what belongs to the holder of a slot on the list was written before the slot came there.
func (q *Scheduler) NotAtRest() string {
	i := &q.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case len(i.list) != len(q.slots) || !q.AllParked():
		return "not all slots are parked"
	case i.hunting.Load() != 0:
		return "slots are counted as hunting"
	case q.Work():
		return "tasks are queued"
	}
	for _, s := range q.slots {
		if s.hunting || s.Next != nil {
			return "a parked slot hunts, or has a task"
		}
	}
	return ""
}

// A Scheduler distributes ready tasks among slots. Unless a method says otherwise, any goroutine
// may call it.
type Scheduler struct {
	// Constant after Init.
	host   Host
	rounds int
	slots  []*Slot

	holders holders
	idle    idle
	inject  inject
	high    prioQueue // priority above zero: before everything else
	low     prioQueue // below zero: when there is nothing else
}

// A Host is the runtime whose tasks are scheduled. The holder of a slot calls it, and holds no
// lock.
type Host interface {
	// Poll looks for what completes tasks. It reports whether there is anything to poll, so that
	// it is worth a longer look before the slot parks.
	Poll(s *Slot) bool

	// Stole tells that s has stolen taken tasks from another slot, and is about to run the oldest
	// of them.
	Stole(s, from *Slot, oldest *chain.Node, taken int)

	// Parks tells that s is about to sleep, if all: as the last of all slots; and Unparks that it
	// is awake.
	Parks(s *Slot, all bool)
	Unparks(s *Slot)

	// Wakes tells that a slot has left the list of those that are parked. Any goroutine may call
	// it.
	Wakes()
}

// A Slot is the right to run tasks. Exactly one goroutine holds it at a time. Unless a method says
// otherwise, only the holder may call it.
type Slot struct {
	// Constant after Init.
	q  *Scheduler
	ID int

	// Owned by the holder.
	Next    *chain.Node // runs next, past the queue
	tick    uint32
	turn    uint32 // successors that ran next since the last look at what waits
	rng     rand.PCG
	hunting bool // counted in idle.hunting

	_     pad
	g     atomic.Uintptr        // goroutine that holds the slot; written by it
	cell  *atomic.Pointer[Slot] // place in holders; guarded by holders.mu
	deque deque
	sema  sleeper // of the holder when it is parked
}

// A View is what anybody may see of a slot. It changes when the slot takes or queues a task of its
// own, and when another goroutine takes it.
type View struct {
	top, bottom int64
	holder      uintptr
}

// idle is where slots without work go. README.md, "Idle slots", has the protocol;
// the numbers in the code are its steps.
type idle struct {
	_       pad
	hunting xatomic.Int32 // slots that look for work
	parked  xatomic.Int32 // slots in list
	_       pad
	mu      xatomic.Mutex
	list    []*Slot // +checklocks:mu
	closed  bool    // +checklocks:mu
	parks   uint64  // how often a slot was put into list. +checklocks:mu
}

// holders finds the slot that a goroutine holds. It is a table with one cell for each slot,
// placed by the holder's identity. A goroutine only ever asks for itself, and
// only it can make slot.g its own identity, so an entry that matches is true.
type holders struct {
	tab  []atomic.Pointer[Slot]
	mask uintptr
	far  atomic.Uintptr // longest distance of an entry from its home; only grows
	mu   sync.Mutex     // orders changes
}
