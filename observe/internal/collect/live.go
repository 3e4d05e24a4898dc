// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"weft/observe/internal/taskprof"
)

// live is a task that is not known to be over. Its times are in ticks.
//
// Events of different sources come in any order, so nothing here depends on it: what is a time is the time of an event, and what is
// a duration is a sum in which each event counts with its time, once with a plus and once with a minus. The sum means something
// when there are as many of either sign, and none is missing: see settled.
type live struct {
	id, parent uint64
	spec       uint32
	weight     int64 // of how many tasks it is one
	flags      uint8 // of Spawned
	seen       uint8

	spawned, ready, started, ended, released, over int64

	// run is what has ended a stretch of running, less what has begun one. blocked and queued are the same for what follows.
	run, blocked, queued int64
	running              int32 // stretches begun, less those ended
	stops, goes, returns int32 // Blocked, Unblocked, Resumed
	inner                int32 // bodies begun on top of this one, less those ended

	by       uint64 // whose end made it ready
	outer    uint64 // whose body it ran on top of
	request  uint64 // that it is bound to, or waits for; the last one
	reason   uint8  // of the last Blocked
	failed   bool
	skipped  bool
	slot     int32  // that it ran on last
	moved    bool   // its goroutine was without a slot, and may have another one since
	first    *slot  // that it began on
	last     *slot  // that it ended on
	changed  int64  // time of the last event
	marks    []mark // for the graph
	accesses []access
	loop     *recorded // that it is part of; nil: none
	round    uint64    // of that loop
}

// declared are the accesses that order t.
func (t *live) declared() []access {
	if t.loop != nil {
		return t.loop.accesses
	}
	return t.accesses
}

// access is one that a task has declared.
type access struct {
	lo   uintptr
	size uintptr
	mode uint8
	weak bool
	rng  bool
}

// Bits of live.seen.
const (
	sawSpawned = 1 << iota
	sawReady
	sawStarted
	sawEnded
	sawReleased // or there was nothing to release
	sawOver
)

// settled reports whether all events of t have come, if those of each source that t's goroutine was on
// have come up to t's end. They have, if it was on one slot only. Else there may be as many of
// either sign by chance: t is blocked on slot 0, goes on on slot 1, is blocked there, goes on on slot 0
// and ends, and what slot 1 says has not come.
func (t *live) settled() bool {
	const whole = sawSpawned | sawReady | sawStarted | sawEnded | sawReleased | sawOver
	return t.seen == whole && t.running == 0 && t.inner == 0 && t.stops == t.returns && t.stops == t.goes
}

// state is where t is in its life, and since when.
func (t *live) state() (s string, since int64) {
	switch {
	case t.seen&sawEnded != 0:
		if t.seen&sawReleased == 0 {
			return "bound", t.ended
		}
		return "over but for its children", max(t.ended, t.released)
	case t.stops > t.goes:
		return "blocked", t.changed
	case t.stops > t.returns:
		return "ready", t.changed
	case t.seen&sawStarted != 0:
		if t.inner > 0 {
			return "blocked", t.changed
		}
		return "running", t.changed
	case t.seen&sawReady != 0:
		return "ready", t.ready
	}
	return "waiting", t.spawned
}

// times are the durations of a task that is over, in ticks.
func (t *live) times() taskprof.Times {
	span := func(ticks int64) time.Duration { return time.Duration(max(0, ticks)) }
	x := taskprof.Times{Count: 1, Deps: span(t.ready - t.spawned)}
	if t.skipped {
		return x
	}
	x.Ready = span(t.started - t.ready + t.queued)
	x.Run = span(t.run)
	x.Blocked = span(t.blocked)
	if t.released != 0 {
		x.Comm = span(t.released - t.ended)
	}
	return x
}
