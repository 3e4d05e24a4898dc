// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"sync"

	"weft/internal/order"
	"weft/internal/race"
	"weft/internal/waits"
)

// Lint is a runtime's lint mode.
type Lint struct {
	mu sync.Mutex // of all trees; not seen by the race detector

	// world is released by all who spawn and all who end, and acquired by the goroutines that run
	// slots: what these do for the runtime comes after everything. It is never acquired by a body.
	world race.Clock

	// off is the one record of all tasks where lint mode is off; nil where it is on.
	off *Record

	asleep *waits.Counter // the goroutines that wait for those of bodies, or stay
	closed bool           // no goroutine stays any more. +checklocks:stayed.mu
}

// New returns the lint mode of a runtime in a build for it. Lint mode can be off there, but the
// race detector sees the runtime no more for that. So it is told by hand the order in which things
// happen: who acquires world comes after all that bodies have done until then, so that two race
// only while both run.
func New(on bool) *Lint {
	l := &Lint{asleep: waits.NewCounter()}
	if !on {
		l.off = &Record{l: l}
	}
	return l
}

// Off reports whether lint mode is off.
func (l *Lint) Off() bool { return l.off != nil }

func (r *Record) off() bool { return r == r.l.off }

// follow makes the caller come after all who have released c, or, where lint mode is off, world.
func (r *Record) follow(c *race.Clock) {
	if r.off() {
		c = &r.l.world
	}
	race.Acquire(c)
}

func (l *Lint) lock() {
	race.Disable()
	l.mu.Lock()
}

func (l *Lint) unlock() {
	l.mu.Unlock()
	race.Enable()
}

// A Record is what lint mode knows of a task.
type Record struct {
	l      *Lint
	parent *Record // nil for a main task
	wait   bool    // Attrs.Wait

	born race.Clock // released by the creator
	done race.Clock // by the body at its end, and by its events
	kids race.Clock // by all descendants at their ends

	task *order.Task // +checklocks:l.mu
	// of the uses that the body has given up early, or parts of them. +checklocks:l.mu
	parts []part
	preds []*Record // of a task of a recorded loop: the tasks that its graph puts before it
	loop  bool
}

// span is some bytes, with the clock for them.
type span struct {
	lo, hi uintptr
	out    *race.Clock
}

func (s span) meets(lo, hi uintptr) bool { return s.lo < hi && lo < s.hi }

// part is a part of the bytes of a use of which some are given up. held: these are not.
type part struct {
	span
	of   *order.Entry
	held bool
}
