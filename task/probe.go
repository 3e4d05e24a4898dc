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
