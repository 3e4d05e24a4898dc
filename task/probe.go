// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/audit"
	"weft/task/internal/lint"
	"weft/task/internal/record"
	"weft/task/internal/watchdog"
)

// A probe is the one seam between the runtime and those that observe its tasks: the recording, the
// watchdog, debug mode and lint mode. The runtime tells it what happens, at the places named by its
// methods, and looks at nothing but whether there is a probe. A runtime that nobody observes has
// none, so what is not observed costs one look at a pointer.
//
// Each slot has a probe of its own, which belongs to the holder of the slot; goroutines without a
// slot share the runtime's. The probe that a method is called of is the caller's.
type probe struct {
	rt    *Runtime
	rec   *record.Recorder   // nil if there is no recording
	ev    *record.Slot       // the slot's; nil if there is no recording, or no slot
	out   *event.Shared      // what goroutines without a slot record with; nil if there is no recording
	watch *watchdog.Watchdog // nil without a watchdog
	audit *audit.Audit       // nil without debug mode
	lint  *lint.Lint         // nil in a build that is not for lint mode
}

// noted is what the observers keep of a task. It stays valid when the task's memory serves another.
type noted struct {
	audited *audit.Record
	watched *watchdog.Record
	linted  *lint.Record
}

// notes returns what the observers keep of t; nothing if none of them keeps notes. Precondition: t
// is alive.
func (t *Task) notes() (n noted) {
	if p := t.run.rt.probe; p != nil && p.keepsNotes() {
		n = t.more.noted
	}
	return n
}

func (p *probe) keepsNotes() bool { return p.watch != nil || p.audit != nil || race.Lint }

// probeOf returns the probe of a caller that has slot s, or none.
func (rt *Runtime) probeOf(s *slot) *probe {
	if s != nil {
		return s.probe
	}
	return rt.probe
}

// observe gives rt, which does not run yet, the observers that its configuration asks for.
func (rt *Runtime) observe() {
	p := probe{rt: rt}
	if race.Lint {
		p.lint = lint.New(rt.cfg.Lint)
	}
	if rt.cfg.Debug {
		p.audit = audit.New(rt.cfg.Logger)
	}
	if rt.cfg.Watchdog > 0 {
		p.watch = watchdog.New(watchdog.Config{Limit: rt.cfg.Watchdog, Out: rt.cfg.Reports, Slots: rt.cfg.Workers, Sees: func() { rt.probe.sees(false) }})
	}
	var rec *record.Recorder
	if rt.cfg.Trace != nil {
		lo, hi := callsBody().Bounds()
		rec = record.New((*event.Recorder)(rt.cfg.Trace), rt.cfg.Workers, !rt.cfg.Lint, lo, hi) // annotated bodies would meet in the contexts of Go's tools
	}
	if p.lint == nil && p.audit == nil && p.watch == nil && rec == nil {
		return
	}
	if rec != nil {
		p.rec, p.out = rec, rec.Off
	}
	rt.probe = &p
	for i, s := range rt.slots.all {
		own := p
		if rec != nil {
			own.ev = rec.Slots[i]
		}
		s.probe = &own
	}
}

// open starts what the observers do by themselves, and stop ends it: before the slots end.
func (p *probe) open() {
	if p.watch != nil {
		p.watch.Open()
	}
}

func (p *probe) stop() {
	if p.watch != nil {
		p.watch.Close()
	}
}

// close ends what the observers keep. The slots have ended.
func (p *probe) close() {
	if p.lint != nil {
		p.lint.Close()
	}
	if p.rec != nil {
		p.rec.Close()
	}
}
