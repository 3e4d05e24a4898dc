// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import "weft/internal/event"

// slot is what is known of a slot of a runtime. All its events come from one source, in their order.
type slot struct {
	place
	parked bool
	task   uint64 // that it runs; zero: none
	since  int64  // ticks
	stands int64  // of how many tasks it is one
	busy   int64  // ticks in bodies since the last flush, without the body that is under way; where tasks are sampled, what those ticks stand for
	from   int64  // the last flush
	share  float64
}

func (c *Collector) slot(p event.Place) *slot {
	key := place{p.Group, p.Index}
	s := c.slots[key]
	if s == nil {
		s = &slot{place: key, from: c.end}
		c.slots[key] = s
	}
	return s
}

// begin notes that the slot runs a body from now on.
func (s *slot) begin(t *live, when int64) {
	s.endOf(when)
	s.task, s.since, s.stands = t.id, when, max(t.weight, 1)
	s.parked = false
}

// endOf notes that the slot runs no body from now on.
func (s *slot) endOf(when int64) {
	if s.task != 0 {
		s.busy += s.stands * max(0, when-max(s.since, s.from))
	}
	s.task, s.since = 0, when
}

// shareTurn is over how much time the share is taken, in flushes: some smoothing.
const shareTurn = 0.3

// flush ends a stretch over which the share of time in bodies is taken.
func (s *slot) flush(when int64) {
	if s.task != 0 {
		s.busy += s.stands * max(0, when-max(s.since, s.from))
	}
	if d := when - s.from; d > 0 {
		s.share += shareTurn * (min(1, float64(s.busy)/float64(d)) - s.share)
	}
	s.busy, s.from = 0, when
}

// rate is how many tasks were over at some moments of the last minutes.
type rate struct {
	points []ratePoint
}

type ratePoint struct {
	at   float64 // seconds
	over int64
}

const (
	rateEvery = 0.5 // seconds
	ratePast  = 120.0
)

func (r *rate) add(at float64, over int64) {
	n := len(r.points)
	if n > 0 && at-r.points[n-1].at < rateEvery {
		return
	}
	for n > 0 && at-r.points[0].at > ratePast {
		r.points = r.points[1:]
		n--
	}
	r.points = append(r.points, ratePoint{at, over})
}
