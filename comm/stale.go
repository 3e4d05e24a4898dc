// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"time"

	"weft/comm/internal/consensus"
	"weft/comm/internal/match"
	"weft/comm/internal/smcoll"
)

// staleAfter is how long a collective waits, at least, until the other rank is asked. Well over
// what a rank computes between collectives in a tight program; a question costs one frame.
var staleAfter = time.Second // constant, but in tests

// begin begins to look. A timer does, so that no goroutine is there meanwhile.
func (s *stale) begin(w *world) {
	s.w, s.waits = w, map[*proc]map[waiting]uint64{}
	if !s.inSight() {
		s.need()
	}
}

// inSight reports whether all collectives are in sight, where ranks meet. Agreements are not.
func (s *stale) inSight() bool { return !s.w.apart && s.w.direct && s.w.size <= smcoll.FlatRanks }

// need sees to it that a look is to come. It does nothing for ranks that Run has not started, as
// tests have them: no end would stop the timer.
func (s *stale) need() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w != nil && s.timer == nil && !s.over {
		s.timer = time.AfterFunc(staleAfter, s.look)
	}
}

// end returns when nobody looks any more.
func (s *stale) end() {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	s.looks.Lock() // a look may be under way
	defer s.looks.Unlock()
}

// look asks on behalf of what waits now and has waited at the last look.
func (s *stale) look() {
	s.looks.Lock()
	defer s.looks.Unlock()
	s.mu.Lock()
	over := s.over
	s.timer = nil
	s.mu.Unlock()
	if over {
		return
	}
	if s.ask(false); len(s.waits) > 0 || !s.inSight() {
		s.need()
	}
}

// askAll asks on behalf of all that waits now, however short, and reports whether there was
// anything to ask: the answers may end what looks like a deadlock.
func (s *stale) askAll() bool {
	s.looks.Lock()
	defer s.looks.Unlock()
	return s.ask(true)
}

// ask is a look. all: also on behalf of what had not waited at the last one. The caller holds
// looks.
func (s *stale) ask(all bool) (asked bool) {
	type wait struct {
		c *Comm
		waiting
	}
	for _, p := range s.w.own {
		var long []wait
		now := map[waiting]uint64{}
		note := func(c *Comm, w waiting) {
			if before, old := s.waits[p][w]; c != nil && w.Ctx&1 != 0 {
				if now[w] = before; old || all {
					long = append(long, wait{c, w})
				}
			}
		}
		p.mu.Lock()
		p.m.Each(func(e *match.Posted) {
			note(opOf(e).c, waiting{e.Key, waitReceive})
		}, func(a *match.Arrival) {
			note(p.find(a.Key.Ctx&^1, nil), waiting{a.Key, waitMessage})
		})
		p.mu.Unlock()
		p.ballots.Each(func(ctx uint64, seq uint32, a *consensus.Agreement) {
			if a.Waits() && a.Number != 0 {
				if r := a.Instance.Awaits(); r >= 0 {
					note((*Comm)(a.Group.(*voters)), waiting{match.Key{Ctx: ctx | 1, Src: int32(r), Tag: int32(seq)}, waitVote})
				}
			}
		})
		for _, w := range long {
			if begun := w.c.hist.begun() + 1; begun > now[w.waiting] {
				now[w.waiting], asked = begun, true
				w.c.ask(int(w.Src), false, false)
			}
		}
		if delete(s.waits, p); len(now) > 0 {
			s.waits[p] = now
		}
	}
	return asked
}
