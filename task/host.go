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

// Poll has slots without work call poll before they park, and returns a function that ends this.
// poll looks for something that completes tasks, or makes new ones, such as a message, and reports
// whether there was any. It must not block, and several slots may call it at a time.
//
// Polling only shortens the way: parked slots do not poll, so whatever poll finds must come by
// itself as well.
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

// caller says in what of the runtime's the calling goroutine is, which Close would wait for; "" if
// in nothing that is known. ofRun: it belongs to a run, which is not over before the caller
// returns.
func (rt *Runtime) caller() (where string, ofRun bool) {
	s := rt.here()
	if s != nil && s.cur.load() != nil {
		return "a task", true
	}
	if in := rt.guests.Find(); in != nil {
		if t, ok := in.Task.(*Task); ok {
			// not hidden: package fmt hands its memory from goroutine to goroutine
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

// host is what the scheduler, and package stuck, see of a runtime.
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
		s.probe.Acquire(false) // what is called comes after who has registered it
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
		p.Stolen(fromNode(oldest).id, from.ID, taken)
	}
}

// Parks has those told that wait for a standstill of all slots, and the observers.
func (h *host) Parks(s *sched.Slot, all bool) {
	if all {
		h.window.stalled()
	}
	h.slot(s).tellSlot(event.Parked, 0)
}

// Unparks has the observers told.
func (h *host) Unparks(s *sched.Slot) { h.slot(s).tellSlot(event.Unparked, 0) }

// Wakes has those told that look for a standstill.
func (h *host) Wakes() { h.still.Wakes() }

// Task returns the task whose body is on a slot; nil if there is none.
func (h *host) Task(slot int) any {
	if t := h.slots.all[slot].cur.load(); t != nil {
		return t
	}
	return nil
}

// Describe says what a task is that may be over by now.
func (h *host) Describe(task any) stuck.Body {
	t := task.(*Task)
	b := stuck.Body{Name: say.Task(false, t.label, t.site()), Addr: fmt.Sprintf("%p", t)}
	if f := runtime.FuncForPC(codeOf(t.fn)); f != nil {
		b.Func = f.Name()
	}
	return b
}

// Seen tells the race detector that the task of a slot has been looked at.
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

// Waits says who waits for what: tasks of this runtime, and what else does.
func (h *host) Waits() []string {
	lines := (*Runtime)(h).describeWaits()
	if len(lines) == 0 {
		lines = []string{heldEvents}
	}
	return append(lines, waits.Describe(h.party)...)
}

// InVain reports whether tasks wait for a Mutex that nobody will let go of.
func (h *host) InVain() bool { return (*Runtime)(h).locksInVain() }

// Report writes what a person must hear, to where that is wanted.
func (h *host) Report(text string) {
	if h.cfg.Watchdog == 0 && h.cfg.logs {
		h.cfg.Logger.Warn(strings.TrimPrefix(strings.TrimSuffix(text, "\n"), "weft: "))
		return
	}
	_, _ = io.WriteString(h.cfg.Reports, text)
}
