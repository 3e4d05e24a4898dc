// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"slices"
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/event"
	"weft/task/internal/sched"
)

// polls are the functions that slots without work call before they park. They are rarely changed, and so copied.
type polls struct {
	all atomic.Pointer[[]*func() bool] // not explored: nobody relies on a poll being made
	mu  sync.Mutex                     // held by who changes all
}

// Poll has slots without work call poll before they park, and returns a function that ends this. poll looks for something that completes tasks,
// or makes new ones, such as a message, and reports whether there was any. It must not block, and several slots may call it at a time.
//
// Polling only shortens the way: parked slots do not poll, so whatever poll finds must come by itself as well.
func (rt *Runtime) Poll(poll func() bool) (stop func()) {
	mustCall("Poll", poll != nil)
	p := &rt.polls
	change := func(f func([]*func() bool) []*func() bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		var now []*func() bool
		if all := p.all.Load(); all != nil {
			now = slices.Clone(*all)
		}
		if now = f(now); len(now) == 0 {
			p.all.Store(nil)
			return
		}
		p.all.Store(&now)
	}
	if rt.probe != nil {
		rt.probe.shows()
	}
	change(func(all []*func() bool) []*func() bool { return append(all, &poll) })
	return func() {
		change(func(all []*func() bool) []*func() bool {
			return slices.DeleteFunc(all, func(f *func() bool) bool { return f == &poll })
		})
	}
}

// here returns the slot that the calling goroutine holds; nil if none.
func (rt *Runtime) here() *slot {
	if s := rt.sched.Here(); s != nil {
		return rt.slots.all[s.ID]
	}
	return nil
}

// host is what the scheduler sees of a runtime.
type host Runtime

func (h *host) slot(s *sched.Slot) *slot { return h.slots.all[s.ID] }

// Poll calls the functions of Poll.
func (h *host) Poll(x *sched.Slot) bool {
	all := h.polls.all.Load()
	if all == nil {
		return false
	}
	s := h.slot(x)
	if s.probe != nil {
		s.probe.sees(false) // what is called comes after who has registered it
	}
	s.polling = true
	for _, f := range *all {
		(*f)()
	}
	s.polling = false
	return true
}

// Stole has the observers told of a theft.
func (h *host) Stole(s, from *sched.Slot, oldest *chain.Node, taken int) {
	if p := h.slot(s).probe; p != nil {
		p.stolen(fromNode(oldest), h.slot(from), taken)
	}
}

// Parks has those told that wait for a standstill of all slots, and the observers.
func (h *host) Parks(s *sched.Slot, all bool) {
	if all {
		h.window.stalled()
	}
	if p := h.slot(s).probe; p != nil {
		p.slotEvent(event.Parked, nil)
	}
}

// Unparks has the observers told.
func (h *host) Unparks(s *sched.Slot) {
	if p := h.slot(s).probe; p != nil {
		p.slotEvent(event.Unparked, nil)
	}
}

// Wakes starts what looks for a standstill.
func (h *host) Wakes() { h.still.wakes() }
