// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/event"
	"weft/internal/xatomic"
)

// throttleEvery is how many children a task spawns between two checks of its throttle.
const throttleEvery = 64

// live is the number of t's live children that the throttle counts, according to the counters.
// Precondition: t's body is the caller, or t is throttled.
func (t *Task) live() int64 { return t.spawned + t.count.Load() - int64(t.idle.Load()) }

// throttleSpawn makes t wait if it has more than Config.Window live children.
func (t *Task) throttleSpawn() {
	th := &t.run.rt.throttle
	most := int64(t.run.rt.cfg.Window)
	if most < 0 || t.live() <= most {
		return
	}
	s := t.slot
	s.flush()
	s.settle(false)
	if t.live() <= most {
		return
	}
	t.prepare(waiting{op: opThrottled})
	th.add(t)
	// A child that ended just now may have called check before t was on the list.
	if t.live() <= most/2 && th.remove(t) {
		t.unprepare()
		return
	}
	t.park(s, event.BlockedWindow)
}

func (th *throttle) add(t *Task) {
	th.mu.Lock()
	th.list = append(th.list, t)
	th.n.Add(1)
	th.mu.Unlock()
}

// remove takes t off the list. It returns false if another caller has done so; that caller resumes
// t.
func (th *throttle) remove(t *Task) bool {
	th.mu.Lock()
	defer th.mu.Unlock()
	for i, x := range th.list {
		if x == t {
			th.removeLocked(i)
			return true
		}
	}
	return false
}

func (th *throttle) removeLocked(i int) {
	last := len(th.list) - 1
	th.list[i] = th.list[last]
	th.list[last] = nil
	th.list = th.list[:last]
	th.n.Add(-1)
}

// check resumes the creators that have at most half of Config.Window live children. It is called
// after each change of the counters that live reads.
func (th *throttle) check() {
	if th.n.Load() == 0 {
		return
	}
	low := int64(th.rt.cfg.Window / 2)
	if th.resume(func(t *Task) bool { return t.live() <= low }) && !th.resetBackoff.Load() {
		th.resetBackoff.Store(true)
	}
}

// allParked is called when every slot is parked. The live children may be waiting for tasks that
// the throttled creators have not spawned yet. More likely they wait for something from outside,
// such as a message, so the creators go on only after a backoff. Otherwise a program that waits for
// messages now and then would spawn ever more tasks.
func (th *throttle) allParked() {
	if th.n.Load() > 0 {
		th.startBackoff() //bug:all-parked
	}
}

func (th *throttle) resume(which func(*Task) bool) (any bool) {
	var out [8]*Task
	for {
		n := 0
		th.mu.Lock()
		for i := len(th.list) - 1; i >= 0 && n < len(out); i-- {
			if t := th.list[i]; which(t) {
				out[n] = t
				n++
				th.removeLocked(i)
			}
		}
		th.mu.Unlock()
		for _, t := range out[:n] {
			th.rt.resume(t)
		}
		any = any || n > 0
		if n < len(out) {
			return any
		}
	}
}

const (
	backoffMin = time.Millisecond // most messages arrive sooner
	// a program that needs the next children to make progress spawns at least 4,000 a second
	backoffMax = 16 * time.Millisecond
)

func (th *throttle) init(rt *Runtime) {
	th.rt = rt
	th.backoff.min, th.backoff.max = backoffMin, backoffMax
	th.backoff.timer = xatomic.NewTimer(th.backoffOver)
}

// startBackoff starts the backoff timer, unless it runs. All slots are parked.
func (th *throttle) startBackoff() {
	l := &th.backoff
	if !l.armed.CompareAndSwap(false, true) { // L1
		return
	}
	if l.wait = min(2*l.wait, l.max); th.resetBackoff.Swap(false) || l.wait == 0 {
		l.wait = l.min
	}
	l.timer.Start(l.wait)
}

// backoffOver is called by the timer. It resumes the creators if all slots are parked (still, or
// again).
func (th *throttle) backoffOver() {
	th.backoff.armed.Store(false) //bug:L2
	if th.rt.sched.AllParked() {  // L3
		th.resume(func(*Task) bool { return true })
	}
}
