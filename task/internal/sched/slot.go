// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/race"
)

// injectPeriod: while a slot has tasks of its own, it takes each 61st task from the injection queue
// (as Go's scheduler does with its global queue).
const injectPeriod = 61

// turnMax is how many successors a slot runs before it runs the task that has waited longest
// (guess). A chain can be endless: a recorded loop starts its next iteration by itself.
const turnMax = 64

// Take makes the caller the holder of s.
func (s *Slot) Take() { s.q.holders.set(Goid(), s) }

// Leave ends Take. After it, another goroutine may get the caller's identity, or s.
func (s *Slot) Leave() { s.g.Store(0) }

// Mine reports whether the caller holds s. Any goroutine may call it.
func (s *Slot) Mine() bool { return s.g.Load() == Goid() }

// Pick takes a task of the slot's own, or a task that must not wait for these; nil if there is
// none. queued: the task has waited in a queue that belongs to no slot.
func (s *Slot) Pick() (n *chain.Node, queued bool) {
	q := s.q
	if q.high.n.Load() > 0 {
		if n := q.high.pop(); n != nil {
			if next := s.Next; next != nil { // another slot may run it while this one runs n
				s.Next = nil
				s.deque.push(next)
				q.idle.notify()
			}
			return s.has(n), true
		}
	}
	if n := s.Next; n != nil {
		s.Next = nil
		return s.has(n), false
	}
	if s.tick++; s.tick%injectPeriod == 0 {
		if n := q.inject.pop(); n != nil {
			return s.has(n), true
		}
	}
	if n = s.deque.pop(); n != nil {
		s.has(n)
	}
	return n, false
}

// Push puts n into the slot's own deque, and Pop takes the newest task out. Push wakes no slot.
func (s *Slot) Push(n *chain.Node) { s.deque.push(n) }
func (s *Slot) Pop() *chain.Node   { return s.deque.pop() }

// Tell wakes another slot for pushed tasks, if one is parked and none hunts.
func (s *Slot) Tell() { s.q.idle.notify() }

// Urgent reports whether a task with a priority above zero is ready.
func (s *Slot) Urgent() bool { return s.q.high.n.Load() > 0 }

// PopUrgent takes the first such task if it is fit, else nil.
func (s *Slot) PopUrgent(fit func(*chain.Node) bool) *chain.Node { return s.q.high.popIf(fit) }

// Turns is called before a successor becomes Next. After turnMax calls it sets Next to the task
// that has waited longest instead.
func (s *Slot) Turns() {
	if s.turn++; s.turn >= turnMax {
		s.turn = 0
		s.Next = s.oldest()
	}
}

// oldest takes the oldest task of the injection queue, else of the slot's own deque.
func (s *Slot) oldest() *chain.Node {
	if n := s.q.inject.pop(); n != nil {
		return n
	}
	n, _ := s.deque.steal()
	if n != nil {
		s.deque.own++
	}
	return n
}

// Shrink gives up memory for many tasks. A function that EachParked calls may call it too.
func (s *Slot) Shrink() { s.deque.shrink() }

func (h *holders) init(slots int) {
	n := 16
	for n < 8*slots {
		n *= 2
	}
	h.tab = make([]atomic.Pointer[Slot], n)
	h.mask = uintptr(n - 1)
}

// home returns where the search for g begins.
func home(g uintptr) uintptr { return g>>7 ^ g>>17 }

// set makes goroutine g, the caller, the holder of s.
func (h *holders) set(g uintptr, s *Slot) {
	s.g.Store(g)
	if h.find(g) == s || g == 0 {
		return
	}
	race.Disable()
	defer race.Enable()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.cell != nil {
		s.cell.Store(nil)
	}
	for d := uintptr(0); ; d++ {
		c := &h.tab[(home(g)+d)&h.mask]
		if c.Load() == nil {
			if d > h.far.Load() {
				h.far.Store(d)
			}
			c.Store(s)
			s.cell = c
			return
		}
	}
}

// find returns the slot that goroutine g, the caller, holds; nil if none.
func (h *holders) find(g uintptr) *Slot {
	for d, far := uintptr(0), h.far.Load(); d <= far; d++ {
		if s := h.tab[(home(g)+d)&h.mask].Load(); s != nil && s.g.Load() == g {
			return s
		}
	}
	return nil
}
