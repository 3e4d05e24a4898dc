// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"time"

	"weft/internal/event"
	"weft/observe/internal/taskprof"
)

// declared returns the accesses that order t.
func (t *live) declared() *[]access {
	if t.loop != nil {
		return &t.loop.accesses
	}
	return &t.accesses
}

// Bits of live.seen.
const (
	sawSpawned = 1 << iota
	sawReady
	sawStarted
	sawEnded
	sawReleased // or t has nothing to release
	sawOver
)

// settled reports whether all events of t have arrived. It is right if every source has delivered
// its events up to t's end. That holds if t's goroutine was on one slot only. Otherwise the sums
// may balance by chance: t is blocked on slot 0, continues on slot 1, is blocked there, continues
// on slot 0 and ends, and the events of slot 1 have not arrived.
func (t *live) settled() bool {
	const whole = sawSpawned | sawReady | sawStarted | sawEnded | sawReleased | sawOver
	return t.seen == whole && t.running == 0 && t.inner == 0 && t.stops == t.returns && t.stops == t.goes
}

// state returns the state of t, and when it began.
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

// times returns the durations of a task that is over, in ticks.
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

func (c *Collector) slot(p event.Location) *slot {
	key := slotKey{p.Group, p.Index}
	s := c.slots[key]
	if s == nil {
		s = &slot{slotKey: key, from: c.end}
		c.slots[key] = s
	}
	return s
}

// begin starts the body of t on the slot.
func (s *slot) begin(t *live, when int64) {
	s.endOf(when)
	s.task, s.since, s.weight = t.id, when, max(t.weight, 1)
	s.parked = false
}

// endOf ends the body on the slot, if there is one.
func (s *slot) endOf(when int64) {
	if s.task != 0 {
		s.busy += s.weight * max(0, when-max(s.since, s.from))
	}
	s.task, s.since = 0, when
}

// shareWeight is the weight of the last flush in the moving average of the share.
const shareWeight = 0.3

// flush adds the time since the last flush to the share of time in bodies.
func (s *slot) flush(when int64) {
	if s.task != 0 {
		s.busy += s.weight * max(0, when-max(s.since, s.from))
	}
	if d := when - s.from; d > 0 {
		s.share += shareWeight * (min(1, float64(s.busy)/float64(d)) - s.share)
	}
	s.busy, s.from = 0, when
}

const (
	rateEvery = 0.5 // seconds
	ratePast  = 120.0
)

func (r *rate) add(at float64, over int64) {
	p := *r
	if n := len(p); n > 0 && at-p[n-1].at < rateEvery {
		return
	}
	for len(p) > 0 && at-p[0].at > ratePast {
		p = p[1:]
	}
	*r = append(p, ratePoint{at, over})
}
