// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package sched is the scheduler of package task: it decides which task a slot runs next, and puts
// slots without work to sleep. A task is a ready node of the dependency engine here; only the
// runtime knows what else belongs to a task, and how to run it.
//
// Ready tasks are in four kinds of queues. Each slot has a deque: the slot works at one end, and
// other slots steal at the other. The injection queue has tasks that goroutines without a slot have
// made ready. Two queues have the tasks with a priority above and below zero. README.md has the
// states of a slot, and the protocols of the deque and of idle slots.
package sched

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// Rounds is how many times a slot searches all queues before it parks (bench task/blocks: to park
// and to be woken cost about as much).
const Rounds = 40

// Init makes q the scheduler of the given slots; the ID of a slot is its index. A slot searches all
// queues so many rounds before it parks. The seed decides the order in which a slot visits other
// slots.
func (q *Scheduler) Init(host Host, slots []*Slot, rounds int, seed uint64) {
	q.host, q.rounds, q.slots = host, rounds, slots
	q.holders.init(len(slots))
	for id, s := range slots {
		s.q, s.ID, s.sema = q, id, newSleeper()
		s.rng = *rand.NewPCG(uint64(id), 0x9E3779B97F4A7C15^seed)
		s.deque.init(ringMin)
	}
}

// Close ends all slots: Hunt returns closed to each of them. Queued tasks are not run.
func (q *Scheduler) Close() { q.idle.close() }

// Free gives back the descriptors that slots have slept with. Precondition: no slot has a holder.
func (q *Scheduler) Free() {
	for _, s := range q.slots {
		s.sema.close()
	}
}

// Ready queues n, which has a priority, or which a goroutine without a slot has made ready.
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

// Work reports whether a task is queued. Tasks in Slot.Next do not count.
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

// Parks returns how many slots are parked, and how many times a slot has parked so far.
func (q *Scheduler) Parks() (parked int, times uint64) {
	i := &q.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.list), i.parks
}

// EachParked calls f for the parked slots, which stay parked until it returns: f may use what the
// holder owns.
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

// View returns the current state of a slot.
func (q *Scheduler) View(slot int) View {
	s := q.slots[slot]
	return View{s.deque.top.Load(), s.deque.bottom.Load(), s.g.Load()}
}

// NotAtRest returns what keeps q from being at rest; "" if each slot is parked, none is counted as
// hunting and nothing is queued. It is for tests. While the list is locked, no slot leaves it; and
// the holder's fields of a slot on the list were written before the slot was put there.
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
	// Poll polls for completions of tasks. It reports whether there is anything to poll: if there
	// is, the slot hunts longer before it parks.
	Poll(s *Slot) bool

	// Stole is called after s has stolen taken tasks from another slot. It runs the oldest next.
	Stole(s, from *Slot, oldest *chain.Node, taken int)

	// Parks is called before s sleeps; all: it is the last slot to do so. Unparks is called when s
	// is awake.
	Parks(s *Slot, all bool)
	Unparks(s *Slot)

	// Wakes is called after a slot has left the list of parked slots. Any goroutine may call it.
	Wakes()
}

// A Slot is the right to run tasks. Exactly one goroutine holds it at a time. Unless a method says
// otherwise, only the holder may call it.
type Slot struct {
	// Constant after Init.
	q  *Scheduler
	ID int

	// Owned by the holder.
	Next    *chain.Node // runs next, without being queued
	tick    uint32
	turn    uint32 // successors that ran next since Turns last chose the oldest task
	rng     rand.PCG
	hunting bool // counted in idle.hunting

	_     pad
	g     atomic.Uintptr        // goroutine that holds the slot; written by it
	cell  *atomic.Pointer[Slot] // in holders.tab; guarded by holders.mu
	deque deque
	sema  sleeper // of the holder when it is parked
}

// A View is what any goroutine may read of a slot. It changes when the slot takes or queues a task
// of its own, and when another goroutine takes the slot.
type View struct {
	top, bottom int64
	holder      uintptr
}

// idle has the slots without work. README.md, "Idle slots", has the protocol; the numbers in the
// code are its steps.
type idle struct {
	_       pad
	hunting xatomic.Int32 // slots that hunt, and wakers
	parked  xatomic.Int32 // slots in list
	_       pad
	mu      xatomic.Mutex
	list    []*Slot // +checklocks:mu
	closed  bool    // +checklocks:mu
	parks   uint64  // how many times a slot was put into list. +checklocks:mu
}

// holders finds the slot that a goroutine holds. It is a hash table with one cell for each slot,
// with the holder's identity as the key. A goroutine searches only for itself, and no other
// goroutine sets slot.g to its identity, so an entry that matches is true.
type holders struct {
	tab  []atomic.Pointer[Slot]
	mask uintptr
	far  atomic.Uintptr // longest distance of an entry from its home cell; only grows
	mu   sync.Mutex     // orders changes
}
