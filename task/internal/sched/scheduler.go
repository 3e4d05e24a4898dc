// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"math/rand/v2"

	"weft/internal/chain"
)

// Rounds is how often a slot looks at everything before it parks (bench task/blocks; to park and to be
// woken cost about as much).
const Rounds = 40

// Init makes q the scheduler of the given slots, whose identities are their places. A slot looks
// at everything so many rounds before it parks. The seed decides the order in which slots look at others.
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

// Ready queues n, of a goroutine that has no slot.
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

// NotAtRest says what keeps q from being at rest; "" if each slot is parked, none is counted as hunting
// and nothing is queued. It is for tests. While the list is locked no slot leaves it; and what belongs
// to the holder of a slot on the list was written before the slot came there.
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
