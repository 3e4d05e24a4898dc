// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"runtime"

	"weft/internal/chain"
)

const (
	huntPause = 60 // empty iterations between two searches (guess: the transfer of a cache line)
	huntYield = 8  // searches after which a slot yields the processor once
	// factor by which a slot hunts longer if it polls: about 20 µs, since to be woken takes some 10
	pollRounds = 6
)

// notify is called after work was queued (P1). It wakes a slot if one is parked and none hunts.
func (i *idle) notify() {
	if i.parked.Load() != 0 && i.hunting.Load() == 0 { // P2
		i.wake()
	}
}

func (i *idle) wake() {
	var n int
	for {
		if !i.hunting.CompareAndSwap(0, 1) { // P3
			return
		}
		i.mu.Lock()
		if n = len(i.list); n > 0 {
			break
		}
		i.mu.Unlock()
		// A goroutine that queued work meanwhile took the caller for a hunter. If a slot has parked
		// since, it may not have seen that work: wake it.
		if i.hunting.Add(-1) != 0 || i.parked.Load() == 0 { //bug:P3
			return
		}
	}
	s := i.list[n-1]
	i.list = i.list[:n-1]
	i.parked.Add(-1)
	i.mu.Unlock()
	s.hunting = true //bug:P4
	s.sema.wake()    // P4; the slot hunts from here on //bug:P4
	s.q.host.Wakes()
}

// Hunt searches for a task in other queues, and parks if there is none. It returns nil and false if
// the caller should call Pick again. closed: the scheduler is closed.
func (s *Slot) Hunt() (n *chain.Node, closed bool) {
	if n, closed = s.hunt(); n != nil {
		s.has(n)
	}
	return n, closed
}

func (s *Slot) hunt() (n *chain.Node, closed bool) {
	q := s.q
	i := &q.idle
	if !s.hunting && 2*i.hunting.Load() < int32(len(q.slots)) {
		s.hunting = true
		i.hunting.Add(1) // H1
	}
	if s.hunting {
		limit := q.rounds
		for round := 1; round <= limit; round++ {
			if limit = q.rounds; q.host.Poll(s) {
				limit *= pollRounds
			}
			if n := s.search(); n != nil { // H2
				return n, false
			}
			if round%huntYield == 0 {
				runtime.Gosched()
			} else {
				for range huntPause {
					spinHint()
				}
			}
		}
	}
	return s.sleep()
}

//go:noinline
func spinHint() {}

// has ends the hunt of a slot that has n.
func (s *Slot) has(n *chain.Node) *chain.Node {
	if s.hunting {
		s.found()
	}
	return n
}

// found ends the hunt of a slot that has found work. The last hunter wakes another slot, since more
// work may be queued.
func (s *Slot) found() {
	s.hunting = false
	if s.q.idle.hunting.Add(-1) == 0 { //bug:P2
		s.q.idle.notify()
	}
}

// search takes a task from any queue but the slot's own; nil if there is none.
func (s *Slot) search() *chain.Node {
	q := s.q
	if n := q.high.pop(); n != nil {
		return n
	}
	if n := q.inject.pop(); n != nil {
		return n
	}
	if slots := len(q.slots); slots > 1 {
		at := int(s.rng.Uint64() % uint64(slots))
		for k := range slots {
			if v := q.slots[(at+k)%slots]; v != s {
				if n := s.stealFrom(v); n != nil {
					return n
				}
			}
		}
	}
	return q.low.pop()
}

// stealFrom steals tasks from v, and returns the oldest of them; nil if v has none.
func (s *Slot) stealFrom(v *Slot) *chain.Node {
	for {
		n, lost := v.deque.steal()
		if n != nil {
			taken := s.stealBatch(&v.deque)
			s.q.host.Stole(s, v, n, taken+1)
			return n
		}
		if !lost {
			return nil
		}
	}
}

// batchMax is how many tasks a thief takes at once (bench task/independent: no gain above 8).
const batchMax = 8

// stealBatch steals up to half of the tasks that are left in d, after a successful steal, into the
// slot's own deque. Each visit of a thief costs the owner the cache line of bottom, so few visits
// take many tasks.
func (s *Slot) stealBatch(d *deque) (taken int) {
	n := min(d.bottom.Load()-d.top.Load(), 2*(batchMax-1)) / 2
	for range n {
		x, _ := d.steal()
		if x == nil {
			return taken
		}
		s.deque.push(x)
		taken++
	}
	return taken
}

// sleep parks the slot until there is work.
func (s *Slot) sleep() (n *chain.Node, closed bool) {
	q := s.q
	i := &q.idle
	i.mu.Lock()
	if i.closed {
		i.mu.Unlock()
		if s.hunting {
			s.hunting = false
			i.hunting.Add(-1)
		}
		return nil, true
	}
	i.parks++
	wasHunting := s.hunting //bug:S1
	s.hunting = false
	i.list = append(i.list, s)
	parked := i.parked.Add(1) // S1
	i.mu.Unlock()
	if wasHunting {
		i.hunting.Add(-1) // S2
	}
	if q.Work() { // S3 //bug:S1
		if i.unpark(s) {
			s.hunting = true
			i.hunting.Add(1)
			q.host.Wakes()
			return s.search(), false
		}
	}
	q.host.Parks(s, int(parked) == len(q.slots))
	s.sema.sleep() // S4
	q.host.Unparks(s)
	return nil, false
}

// unpark takes s off the list again. It returns false if another goroutine is waking s.
func (i *idle) unpark(s *Slot) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k, x := range i.list {
		if x == s {
			last := len(i.list) - 1
			i.list[k] = i.list[last]
			i.list = i.list[:last]
			i.parked.Add(-1)
			return true
		}
	}
	return false
}

// close wakes all parked slots. No slot parks any more.
func (i *idle) close() {
	i.mu.Lock()
	i.closed = true
	l := i.list
	i.list = nil
	i.parked.Add(int32(-len(l)))
	i.mu.Unlock()
	for _, s := range l {
		s.sema.wake()
	}
}
