// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"runtime"

	"weft/internal/event"
	"weft/internal/xatomic"
)

// idle is where slots without work go. README.md, "Idle slots", has the protocol;
// the numbers in the code are its steps.
type idle struct {
	_       pad
	hunting xatomic.Int32 // slots that look for work
	parked  xatomic.Int32 // slots in list
	_       pad
	mu      xatomic.Mutex
	list    []*slot // +checklocks:mu
	closed  bool    // +checklocks:mu
	parks   uint64  // how often a slot was put into list. +checklocks:mu
	still   *standstill
}

const (
	huntRounds = 40 // looks at everything before a slot parks (bench task/blocks; a park and wake cost about as much)
	huntPause  = 60 // empty loop turns between two looks (guess: a cache line's way)
	huntYield  = 8  // every so many looks the processor goes to another goroutine
)

// notify is called after work was queued (step P1): it wakes a slot if one is
// parked and none is hunting.
func (i *idle) notify() {
	if i.parked.Load() == 0 || i.hunting.Load() != 0 { // P2
		return
	}
	i.wake()
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
		// Whoever queued work meanwhile took this goroutine for a hunter. If a slot
		// has parked since, it may not have seen that work: wake it.
		if i.hunting.Add(-1) != 0 || i.parked.Load() == 0 { //bug:P3
			return
		}
	}
	s := i.list[n-1]
	i.list = i.list[:n-1]
	i.parked.Add(-1)
	i.mu.Unlock()
	s.hunting = true //bug:P4
	s.sema.wake()    // P4; the slot is hunting from here on //bug:P4
	i.still.wakes()
}

// hunt looks for work elsewhere and parks when there is none. It returns nil and false when
// the caller should look at its own queues again.
func (s *slot) hunt() (t *Task, closed bool) {
	rt := s.rt
	i := &rt.idle
	if s.looks != rt.pool.looks.Load() {
		s.shrink()
	}
	if !s.hunting && 2*i.hunting.Load() < int32(len(rt.slots.all)) {
		s.hunting = true
		i.hunting.Add(1) // H1
	}
	if s.hunting {
		for round := 1; round <= rt.polls.rounds(rt.huntRounds); round++ {
			s.poll()
			if t := s.look(); t != nil { // H2
				return t, false
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

// found ends the hunt of a slot that has work, or that ends. The last hunter wakes another slot:
// there may be more work than it can do.
func (s *slot) found() {
	if !s.hunting {
		return
	}
	s.hunting = false
	if s.rt.idle.hunting.Add(-1) == 0 { //bug:P2
		s.rt.idle.notify()
	}
}

// look takes work from anywhere.
func (s *slot) look() *Task {
	rt := s.rt
	if t := rt.high.pop(); t != nil {
		return t
	}
	if t := rt.inject.pop(); t != nil {
		return t
	}
	all := rt.slots.all
	if n := len(all); n > 1 {
		at := int(s.rng.Uint64() % uint64(n))
		for k := range n {
			v := all[(at+k)%n]
			if v == s {
				continue
			}
			for {
				t, lost := v.deque.steal()
				if t != nil {
					n := s.raid(&v.deque)
					if s.probe != nil {
						s.probe.stolen(t, v, n+1)
					}
					return t
				}
				if !lost {
					break
				}
			}
		}
	}
	return rt.low.pop()
}

// stealMax bounds what a thief takes at one visit (bench task/independent; the gain is over at 8).
const stealMax = 8

// raid takes up to half of what is left in d, where a steal has just succeeded. Each
// visit costs the owner the line of bottom, so it is to be worth it.
func (s *slot) raid(d *deque) (taken int) {
	n := min(d.bottom.Load()-d.top.Load(), 2*(stealMax-1)) / 2
	for range n {
		t, _ := d.steal()
		if t == nil {
			return taken
		}
		s.deque.push(t)
		taken++
	}
	return taken
}

// anyWork reports whether there is something that look would find.
func (rt *Runtime) anyWork() bool {
	if rt.inject.n.Load() > 0 || rt.high.n.Load() > 0 || rt.low.n.Load() > 0 { //bug:high
		return true
	}
	for _, s := range rt.slots.all {
		if !s.deque.empty() {
			return true
		}
	}
	return false
}

// sleep parks the slot until there is work.
func (s *slot) sleep() (t *Task, closed bool) {
	rt := s.rt
	i := &rt.idle
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
	n := i.parked.Add(1) // S1
	i.mu.Unlock()
	if wasHunting {
		i.hunting.Add(-1) // S2
	}
	if rt.anyWork() { // S3 //bug:S1
		if i.unpark(s) {
			s.hunting = true
			i.hunting.Add(1)
			i.still.wakes()
			return s.look(), false
		}
	}
	if int(n) == len(rt.slots.all) {
		rt.window.stalled()
	}
	if s.probe != nil {
		s.probe.slotEvent(event.Parked, nil)
	}
	s.sema.sleep() // S4
	if s.probe != nil {
		s.probe.slotEvent(event.Unparked, nil)
	}
	return nil, false
}

// unpark takes s off the list again; false if it is being woken.
func (i *idle) unpark(s *slot) bool {
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

// close wakes all slots for good.
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

// count is how often a slot was parked.
func (i *idle) count() uint64 {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.parks
}

// shrink has the parked slots give up what they have too much of. Who is in the list uses nothing of its own,
// until it has come off.
func (i *idle) shrink() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, s := range i.list {
		s.shrink()
	}
}
