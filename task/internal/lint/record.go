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
	mu sync.Mutex // of all trees; the race detector does not see it

	// world is released at each spawn and at each end of a body. The goroutines that run slots
	// acquire it, so what they do for the runtime is ordered after the bodies. Bodies never acquire
	// it.
	world race.Clock

	// off is the one record of all tasks if lint mode is off; nil if it is on.
	off *Record

	asleep *waits.Counter // goroutines that wait for a body's goroutine, or stay
	closed bool           // no more goroutines stay. +checklocks:stayed.mu
}

// New returns the lint mode of a runtime in a build for it. If lint mode is off there, the race
// detector still does not see the runtime. So the order in which bodies happen to run is made
// explicitly: a caller that acquires world comes after everything that bodies have done so far, and
// two bodies race only while both run.
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

// follow orders the caller after all releases of c so far; of world, if lint mode is off.
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
	kids race.Clock // by each descendant at its end

	task *order.Task // +checklocks:l.mu
	// of the accesses of which the body has given up parts early. +checklocks:l.mu
	parts []part
	preds []*Record // of a task of a recorded loop: the tasks before it in the loop's graph
	loop  bool
}

// span is some bytes, with the clock for them.
type span struct {
	lo, hi uintptr
	out    *race.Clock
}

func (s span) meets(lo, hi uintptr) bool { return s.lo < hi && lo < s.hi }

// part is a part of the bytes of an access of which some are given up. held: this part is not.
type part struct {
	span
	of   *order.Entry
	held bool
}
