// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"slices"
)

// A wait for children ends a part of a body, and the graph has to know when, and what the body had run
// until then. Events that say so are of several sources, if the body has changed its slot, and come
// in any order: they are kept as marks, and looked at when the graph is made.

const (
	acts      uint8 = iota // it does something of its own, so no wait is under way
	leaves                 // it stops running: another body begins on top of it, or it is blocked
	returns                // it goes on
	endsOnTop              // it goes on after a body on top of it, in a wait, which may be over
	waits                  // it is blocked in a wait, which is over when it returns
)

// stop is the end of a wait, in ticks.
type stop struct {
	at  int64
	run int64 // what the body had run until then
}

// mark keeps one for the graph. +checklocks:c.mu
func (c *Collector) mark(t *live, at int64, what uint8) {
	if c.graph.hasRoom() {
		t.marks = append(t.marks, mark{at, what})
	}
}

// waitsOver are the ends of waits in a body that is over, in their order. spawns are the times at
// which the body has spawned tasks. A wait in which it ran other bodies is over with the last of
// them after which the body does something of its own.
func (t *live) waitsOver(spawns []int64) (list []stop) {
	marks := append(slices.Clone(t.marks), mark{t.ended, acts})
	for _, at := range spawns {
		marks = append(marks, mark{at, acts})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	run, running := -t.started, 1 // as live.run and live.running
	var onTop stop                // the end of the last body on top; zero if this one has acted since
	waiting := false
	add := func(s stop) {
		if n := len(list); n > 0 {
			s.run = max(s.run, list[n-1].run) // clocks differ
		}
		list = append(list, s)
	}
	for _, m := range marks {
		switch m.what {
		case acts:
			if onTop.at != 0 {
				add(onTop)
			}
			onTop = stop{}
		case leaves, waits:
			run += m.at
			running--
			waiting = m.what == waits
		case returns, endsOnTop:
			run -= m.at
			running++
			now := stop{m.at, run}
			if running > 0 {
				now.run += m.at
			}
			switch {
			case m.what == endsOnTop:
				onTop = now
			case waiting:
				add(now)
				onTop = stop{}
			}
			waiting = false
		}
	}
	return list
}
