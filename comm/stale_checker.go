// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"time"

	"weft/comm/internal/consensus"
	"weft/comm/internal/match"
	"weft/comm/internal/smcoll"
)

// staleAfter is the least time that a collective waits until the other rank is asked. It is well
// over the time that a rank computes between collectives in a tight program; a question costs one
// frame.
var staleAfter = time.Second // a variable for tests

// start schedules the first check, unless no collective needs one. A timer runs the checks, so no
// goroutine exists in between.
func (s *staleChecker) start(w *world) {
	s.w, s.waited = w, map[*proc]map[waiting]uint64{}
	if !s.allInMemory() {
		s.schedule()
	}
}

// allInMemory reports whether all collectives go through memory, where ranks see each other's
// calls. Agreements never do.
func (s *staleChecker) allInMemory() bool {
	return !s.w.multiProcess && s.w.memoryColls && s.w.size <= smcoll.FlatRanks
}

// schedule schedules a check if none is scheduled. It does nothing for ranks that Run has not
// started, as tests have them: nothing would stop the timer.
func (s *staleChecker) schedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.w != nil && s.timer == nil && !s.over {
		s.timer = time.AfterFunc(staleAfter, s.check)
	}
}

// stop returns when no check runs any more, and none will.
func (s *staleChecker) stop() {
	s.mu.Lock()
	s.over = true
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	s.checkMu.Lock() // a check may be running
	defer s.checkMu.Unlock()
}

// check asks the ranks for which something has waited at the last check and still waits.
func (s *staleChecker) check() {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	s.mu.Lock()
	over := s.over
	s.timer = nil
	s.mu.Unlock()
	if over {
		return
	}
	if s.ask(false); len(s.waited) > 0 || !s.allInMemory() {
		s.schedule()
	}
}

// askAll asks for all that waits now, however short, and reports whether there was anything to ask:
// the answers may end an apparent deadlock.
func (s *staleChecker) askAll() bool {
	s.checkMu.Lock()
	defer s.checkMu.Unlock()
	return s.ask(true)
}

// ask asks the ranks that are waited for, and notes what waits. all: also for what was not waiting
// at the last check. The caller holds checkMu.
func (s *staleChecker) ask(all bool) (asked bool) {
	type wait struct {
		c *Comm
		waiting
	}
	for _, p := range s.w.own {
		var long []wait
		now := map[waiting]uint64{}
		note := func(c *Comm, w waiting) {
			if before, old := s.waited[p][w]; c != nil && w.Ctx&1 != 0 {
				if now[w] = before; old || all {
					long = append(long, wait{c, w})
				}
			}
		}
		p.mu.Lock()
		p.m.Each(func(e *match.Posted) {
			note(opOf(e).c, waiting{e.Key, waitReceive})
		}, func(a *match.Arrival) {
			note(p.findComm(a.Key.Ctx&^1, nil), waiting{a.Key, waitMessage})
		})
		p.mu.Unlock()
		p.agreements.Each(func(ctx uint64, seq uint32, a *consensus.Agreement) {
			if a.Waits() && a.Number != 0 {
				if r := a.Instance.Awaits(); r >= 0 {
					note((*Comm)(a.Group.(*agreementGroup)), waiting{match.Key{Ctx: ctx | 1, Src: int32(r), Tag: int32(seq)}, waitAgreement})
				}
			}
		})
		for _, w := range long {
			if begun := w.c.hist.begun() + 1; begun > now[w.waiting] {
				now[w.waiting], asked = begun, true
				w.c.ask(int(w.Src), false, false)
			}
		}
		if delete(s.waited, p); len(now) > 0 {
			s.waited[p] = now
		}
	}
	return asked
}
