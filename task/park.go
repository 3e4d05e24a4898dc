// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"sync"
	"time"
	"weak"

	"github.com/panjf2000/ants/v2"

	"weft/internal/event"
	"weft/internal/race"
	"weft/internal/xatomic"
)

// here returns the slot that the calling goroutine holds; nil if none.
func (rt *Runtime) here() *slot {
	if s := rt.sched.Here(); s != nil {
		return rt.slots.all[s.ID]
	}
	return nil
}

// allParkers has all parkers of the process. Runtimes share them, so there are only as many as
// tasks have waited at the same time.
var allParkers struct {
	mu   sync.Mutex
	list []weak.Pointer[parker] // +checklocks:mu
	// length of list at which collected parkers are dropped from it. +checklocks:mu
	room int
}

// publish says in p.parked that t waits; nil: no task waits. In lint mode the race detector must
// not see the lock, which would order bodies.
func (p *parker) publish(t *Task, state parkState) {
	k := &p.parked
	if t != nil {
		race.Release(&k.clock)
	}
	race.Disable()
	defer race.Enable()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.t, k.state, k.what = t, state, waiting{}
	if t != nil {
		k.what = p.what
	}
	k.changes++
}

// eachParked calls f for each parker with its lock held.
func eachParked(f func(k *parked)) {
	a := &allParkers
	race.Disable()
	a.mu.Lock()
	list := a.list[:len(a.list):len(a.list)]
	a.mu.Unlock()
	race.Enable()
	for _, w := range list {
		if p := w.Value(); p != nil {
			race.Disable()
			p.parked.mu.Lock()
			race.Enable()
			f(&p.parked)
			race.Disable()
			p.parked.mu.Unlock()
			race.Enable()
		}
	}
}

const (
	spareExpiry  = 2 * time.Second  // idle spares end after this long (guess)
	closeTimeout = 10 * time.Second // for spares to end (guess: far more than they need)
)

// run runs s's loop on a spare goroutine.
func (p *spares) run(s *slot) {
	if xatomic.Driven() || race.Lint { // in lint mode, the pool's locks would order bodies
		race.Disable()
		xatomic.Go(s.loop)
		race.Enable()
		return
	}
	p.once.Do(func() {
		pool, err := ants.NewPoolWithFuncGeneric(-1, (*slot).loop, ants.WithExpiryDuration(spareExpiry))
		if err != nil {
			p.rt.cfg.Logger.Warn("no pool for spare goroutines; starting each anew", "err", err)
			return
		}
		p.pool = pool
	})
	if p.pool == nil || p.pool.Invoke(s) != nil {
		go s.loop()
	}
}

func (p *spares) close() error {
	p.once.Do(func() {})
	if p.pool == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return p.pool.ReleaseContext(ctx)
}

// take makes the caller the holder of s.
func (s *slot) take() {
	s.Take()
	s.tellSlot(event.SlotTaken, 0)
}

// ready queues a task that may start or be resumed.
func (s *slot) ready(t *Task) {
	if s.probe != nil {
		s.probe.Queued(t.id, t.node.Flags&flagResuming != 0)
	}
	if t.node.Flags&flagPriority != 0 {
		s.rt.sched.Ready(&t.node, t.priority)
		return
	}
	// P1 of the scheduler's README, and then P2, or a slot that parks meanwhile is not woken
	s.Push(&t.node)
	s.Tell()
}

// parkers are the free parkers. In lint mode, callers use it between race.Disable and race.Enable.
var parkers = sync.Pool{New: func() any {
	p := &parker{wake: make(xatomic.Chan[*slot], 1), at: -1}
	a := &allParkers
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) >= a.room {
		// eachParked may be reading the old list
		live := make([]weak.Pointer[parker], 0, len(a.list)+1)
		for _, w := range a.list {
			// not slices.DeleteFunc: in lint mode, the race detector sees the copies of package
			// slices
			if w.Value() != nil {
				live = append(live, w)
			}
		}
		a.list, a.room = live, max(64, 2*len(live))
	}
	a.list = append(a.list, weak.Make(p))
	return p
}}

// prepare gives t a parker, so that it can be resumed. It must precede the announcement that t
// waits for x.
func (t *Task) prepare(x waiting) {
	race.Disable()
	p := parkers.Get().(*parker)
	race.Enable()
	p.what = x
	t.parker = p
	if rt := t.run.rt; rt.probe != nil && x.op != opWait {
		t.tellWaits(rt.probe, &p.what)
	}
}

// unprepare frees the parker, after the wait or when there is nothing to wait for.
func (t *Task) unprepare() {
	if rt := t.run.rt; rt.probe != nil && t.parker.what.op != opWait {
		rt.probe.GoesOn(t.notes())
	}
	t.parker.what = waiting{}
	if !xatomic.Driven() { // under the explorer every order starts with new parkers
		race.Disable()
		t.parker.word = nil
		parkers.Put(t.parker)
		race.Enable()
	}
	t.parker = nil
}

// park gives up slot s and returns when t has a slot again. Precondition: prepare has been called,
// and then t has been announced, so that another goroutine will call resume.
func (t *Task) park(s *slot, reason uint64) {
	t.addIdle(1)
	t.giveSlot(s, reason)
	t.awaitSlot()
	t.addIdle(-1)
}

// giveSlot hands s to a spare goroutine; t's body runs without a slot from here on.
func (t *Task) giveSlot(s *slot, reason uint64) {
	if s.probe != nil {
		s.probe.Put(event.Blocked, t.id, reason, 0)
	}
	s.flush()
	s.settle(false)
	t.slot, t.outer, t.nested = nil, s.outer, s.nested
	s.cur.store(nil)
	s.outer, s.nested = nil, 0
	s.handOver()
}

// awaitSlot waits until t is given a slot.
func (t *Task) awaitSlot() {
	p, state := t.parker, parkAsleep
	if p.what.op == opThrottled || !p.what.due.IsZero() {
		state = parkTimed // the throttle never holds a program up
	}
	p.publish(t, state)
	s := p.wake.Recv()
	p.publish(nil, parkAsleep)
	t.unprepare()
	s.take()
	s.cur.store(t)
	s.outer, s.nested = t.outer, t.nested
	t.slot, t.outer, t.nested = s, nil, 0
	if s.probe != nil {
		s.probe.Put(event.Resumed, t.id, 0, 0)
	}
}

// handOver starts a spare goroutine on s.
func (s *slot) handOver() {
	s.tellSlot(event.SlotReleased, 0)
	s.Leave()
	s.rt.spares.run(s)
}

// resume queues t, whose goroutine waits for a slot.
func (rt *Runtime) resume(t *Task) {
	t.node.Flags |= flagResuming
	if s := rt.here(); s != nil {
		s.ready(t)
		return
	}
	rt.readyOutside(t)
}

// readyOutside is slot.ready for a caller without a slot.
func (rt *Runtime) readyOutside(t *Task) { rt.readyBy(t, 0) }

// readyBy is readyOutside for a task that the end of another task has made ready. by is that task's
// number in the trace.
func (rt *Runtime) readyBy(t *Task, by uint64) {
	if rt.probe != nil {
		rt.probe.QueuedBy(t.id, by, t.node.Flags&flagResuming != 0)
	}
	priority := int32(0)
	if t.node.Flags&flagPriority != 0 {
		// few tasks have a priority; for others, its cache line is not touched
		priority = t.priority
	}
	rt.sched.Ready(&t.node, priority)
}
