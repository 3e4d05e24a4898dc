// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import "weft/internal/event"

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
