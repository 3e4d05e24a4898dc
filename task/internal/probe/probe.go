// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package probe is the one seam between a runtime and the observers of its tasks: the recording,
// the watchdog, debug mode and lint mode. The core of the runtime calls a probe's methods at
// certain moments, and otherwise only checks whether there is a probe. A runtime without observers
// has none.
package probe

import (
	"io"
	"log/slog"
	"time"

	"weft/internal/chain"
	"weft/internal/event"
	"weft/internal/race"
	"weft/task/internal/audit"
	"weft/task/internal/lint"
	"weft/task/internal/record"
	"weft/task/internal/watchdog"
)

// A Probe has the observers of a runtime. Each slot has its own probe, which belongs to the holder
// of the slot; goroutines without a slot share the runtime's. A caller uses its own probe.
type Probe struct {
	Ev    *record.Slot       // the slot's; nil if there is no recording, or no slot
	Watch *watchdog.Watchdog // nil without a watchdog
	Lint  *lint.Lint         // nil except in a build for lint mode
	rec   *record.Recorder   // nil if there is no recording
	// the ring of goroutines without a slot; nil if there is no recording
	out   *event.Shared
	audit *audit.Audit // nil without debug mode
}

// Notes are the observers' records of a task. They stay valid when the task's memory serves another
// task. The record of an observer that is off is nil.
type Notes struct {
	Linted  *lint.Record
	Audited *audit.Record
	Watched *watchdog.Record
}

// Config says which observers there are.
type Config struct {
	Slots    int
	Lint     bool // lint mode is on, in a build for it
	Debug    bool
	Logger   *slog.Logger
	Watchdog time.Duration // zero: there is none
	Reports  io.Writer
	Acquire  func() // orders the caller, the watchdog, after what bodies have done, in lint mode
	Trace    *event.Recorder
	Bounds   func() (lo, hi uintptr) // of the code that calls bodies
}

// New returns the probe of goroutines without a slot, and the probes of the slots; nil if there are
// no observers.
func New(c Config) (off *Probe, slots []*Probe) {
	p := Probe{}
	if race.Lint {
		p.Lint = lint.New(c.Lint)
	}
	if c.Debug {
		p.audit = audit.New(c.Logger)
	}
	if c.Watchdog > 0 {
		p.Watch = watchdog.New(watchdog.Config{Limit: c.Watchdog, Out: c.Reports, Slots: c.Slots, Acquire: c.Acquire})
	}
	if c.Trace != nil {
		lo, hi := c.Bounds()
		// in lint mode, annotated bodies would share the contexts of Go's tools
		p.rec = record.New(c.Trace, c.Slots, !c.Lint, lo, hi)
		p.out = p.rec.Off
	}
	if p == (Probe{}) {
		return nil, nil
	}
	for i := range c.Slots {
		own := p
		if p.rec != nil {
			own.Ev = p.rec.Slots[i]
		}
		slots = append(slots, &own)
	}
	return &p, slots
}

// Open starts the observers' goroutines, and Stop ends them, before the slots end.
func (p *Probe) Open() {
	if p.Watch != nil {
		p.Watch.Open()
	}
}

// Stop ends the goroutines that Open has started.
func (p *Probe) Stop() {
	if p.Watch != nil {
		p.Watch.Close()
	}
}

// Close closes the observers. Precondition: the slots have ended.
func (p *Probe) Close() {
	if p.Lint != nil {
		p.Lint.Close()
	}
	if p.rec != nil {
		p.rec.Close()
	}
}

// Lints reports whether lint mode is on.
func (p *Probe) Lints() bool { return race.Lint && !p.Lint.Off() }

// Keeps reports whether the observers keep notes of tasks.
func (p *Probe) Keeps() bool { return p.Watch != nil || p.audit != nil || race.Lint }

// A Spawn is what the observers are told of a new task.
type Spawn struct {
	At     int // the number of the slot; negative: none
	Label  string
	PC     uintptr
	Wait   bool // it has the attribute Wait
	Loop   bool // it is of a recorded loop
	NoBody bool
}

// Enter makes the notes of a new task. parent has the notes of its parent; they are empty for the
// main task of a run. Precondition: Keeps. (accs is not in x: see record.Slot.Spawned.)
func (p *Probe) Enter(parent Notes, x *Spawn, accs []chain.Access) (n Notes) {
	if p.Watch != nil {
		n.Watched = p.Watch.Enter(x.At, parent.Watched, x.Label, x.PC, accs, x.Loop)
	}
	if p.audit != nil && !x.NoBody {
		n.Audited = p.audit.Enter(parent.Audited, x.Label, x.PC, accs, x.Loop)
	}
	if p.Lint != nil {
		n.Linted = p.Lint.Enter(parent.Linted, accs, x.Wait, x.Loop)
	}
	return n
}

// Put records a trace event.
func (p *Probe) Put(k event.Kind, a, b, c uint64) {
	switch {
	case p.Ev != nil:
		p.Ev.Put(k, a, b, c)
	case p.out != nil:
		p.out.Put(k, a, b, c)
	}
}

// NewID returns a number for a run or a task; zero if there is no recording.
func (p *Probe) NewID() uint64 {
	switch {
	case p.Ev != nil:
		return p.Ev.NewID()
	case p.rec != nil:
		return p.rec.NewID()
	}
	return 0
}

// MainSpawned records the main task of a run, and returns the number of its origin.
func (p *Probe) MainSpawned(id uint64, x *record.Spawn) (spec uint32) {
	if p.rec == nil {
		return 0
	}
	return p.rec.MainSpawned(id, x)
}
