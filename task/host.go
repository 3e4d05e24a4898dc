// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/waits"
	"weft/task/internal/say"
	"weft/task/internal/sched"
	"weft/task/internal/stuck"
)

// Poll makes slots without work call poll before they park, and returns a function that ends this.
// poll checks for something that completes or creates tasks, such as a message, and reports whether
// there was any. It must not block, and several slots may call it at the same time.
//
// Polling only lowers latency. Parked slots do not poll, so whatever poll finds must also be
// delivered in some other way.
func (rt *Runtime) Poll(poll func() bool) (stop func()) {
	mustCall("Poll", "with", poll != nil)
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
		rt.probe.Release()
	}
	change(func(all []*func() bool) []*func() bool { return append(all, &poll) })
	return func() {
		change(func(all []*func() bool) []*func() bool {
			return slices.DeleteFunc(all, func(f *func() bool) bool { return f == &poll })
		})
	}
}

// caller returns in which part of the runtime the calling goroutine is, if Close would wait for it;
// "" if in none that is known. ofRun: the goroutine belongs to a run, which is not over before the
// goroutine returns.
func (rt *Runtime) caller() (where string, ofRun bool) {
	s := rt.here()
	if s != nil && s.cur.load() != nil {
		return "a task", true
	}
	if in := rt.guests.Find(); in != nil {
		if t, ok := in.Task.(*Task); ok {
			// not between race.Disable and Enable: package fmt passes memory between goroutines
			return in.Op + " of " + t.name(), true
		}
		return in.Op, true
	}
	switch {
	case s == nil:
		return "", false
	case s.polling:
		return "a function of Poll", false
	}
	return "an OnReady", true
}

// host implements what the scheduler and package stuck require of a runtime.
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
		s.probe.Acquire(false) // the function is ordered after its registration
	}
	s.polling = true
	for _, f := range *all {
		(*f)()
	}
	s.polling = false
	return true
}

// Stole tells the observers that s has stolen tasks.
func (h *host) Stole(s, from *sched.Slot, oldest *chain.Node, taken int) {
	if p := h.slot(s).probe; p != nil {
		p.Stolen(fromNode(oldest).id, from.ID, taken)
	}
}

// Parks tells the observers, and the throttle if all slots are parked.
func (h *host) Parks(s *sched.Slot, all bool) {
	if all {
		h.throttle.allParked()
	}
	h.slot(s).tellSlot(event.Parked, 0)
}

// Unparks tells the observers.
func (h *host) Unparks(s *sched.Slot) { h.slot(s).tellSlot(event.Unparked, 0) }

// Wakes tells package stuck.
func (h *host) Wakes() { h.stuck.Wakes() }

// Task returns the task whose body is on a slot; nil if there is none.
func (h *host) Task(slot int) any {
	if t := h.slots.all[slot].cur.load(); t != nil {
		return t
	}
	return nil
}

// Describe describes a task, which may be over by now.
func (h *host) Describe(task any) stuck.Body {
	t := task.(*Task)
	b := stuck.Body{Name: say.Task(false, t.label, t.site()), Addr: fmt.Sprintf("%p", t)}
	if f := runtime.FuncForPC(codeOf(t.fn)); f != nil {
		b.Func = f.Name()
	}
	return b
}

// Seen tells the race detector that the task of a slot has been read.
func (h *host) Seen(slot int, task any) { h.slots.all[slot].cur.seen(task.(*Task)) }

// Idle reports whether no run is under way.
func (h *host) Idle() bool { return h.life.idle() }

// Waiting reports whether some run has tasks that wait, and Fail ends these runs.
func (h *host) Waiting() bool { return len((*Runtime)(h).waitingRuns()) > 0 }

func (h *host) Fail(err error) {
	for _, r := range (*Runtime)(h).waitingRuns() {
		r.fail(err)
	}
}

// Waits says what the tasks of this runtime, and other parties of the process, wait for.
func (h *host) Waits() []string {
	lines := (*Runtime)(h).describeWaits()
	if len(lines) == 0 {
		lines = []string{heldEvents}
	}
	return append(lines, waits.Describe(h.party)...)
}

// InVain reports whether tasks wait for a Mutex that will never be unlocked.
func (h *host) InVain() bool { return (*Runtime)(h).locksInVain() }

// Report writes text to Logger, or to Reports if there is a watchdog or no Logger.
func (h *host) Report(text string) {
	if h.cfg.Watchdog == 0 && h.cfg.logs {
		h.cfg.Logger.Warn(strings.TrimPrefix(strings.TrimSuffix(text, "\n"), "weft: "))
		return
	}
	_, _ = io.WriteString(h.cfg.Reports, text)
}
