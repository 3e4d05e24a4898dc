// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"slices"
	"sync"

	"weft/internal/fabric"
)

// said is what a rank has said: that it waits, and so does all else in its process.
type said struct {
	sent, here int64 // frames
	waits      string
	doubt      bool   // goroutines of its program wait too, and may act
	answered   uint64 // the last question that this was the answer to
}

// quorum is what rank 0 knows of all ranks, where no launcher does: the launcher's part in README.md, "Deadlocks". It is pure.
type quorum struct {
	all      []*said // by rank; nil: it moves
	question uint64
}

// take takes what a rank says, nil: that it moves, by itself, or as the answer to a question. It returns whether all are to be asked
// now, and, when all have answered that nothing has changed, what they wait for.
func (g *quorum) take(rank int, question uint64, now *said) (ask bool, over []string) {
	last := g.all[rank]
	g.all[rank] = now
	if now == nil {
		return false, nil
	}
	if question != 0 {
		if question != g.question || last == nil || last.sent != now.sent || last.here != now.here {
			return false, nil
		}
		now.answered = question
	}
	var sent, here int64
	for _, s := range g.all {
		switch {
		case s == nil, question != 0 && s.answered != question:
			return false, nil
		}
		sent += s.sent
		here += s.here
		over = append(over, s.waits)
	}
	switch {
	case question != 0:
		return false, over
	case sent != here:
		return false, nil
	}
	g.question++
	return true, nil
}

// doubt reports whether what some rank has said last is not certain.
func (g *quorum) doubt() bool {
	return slices.ContainsFunc(g.all, func(s *said) bool { return s != nil && s.doubt })
}

// pact is how the ranks of a run find a deadlock by themselves.
type pact struct {
	p    *proc
	at0  *quorum       // at rank 0, owned by its stalls
	some chan struct{} // there is news for rank 0

	mu   sync.Mutex
	news []saying // guarded by mu
}

// saying is one that has come.
type saying struct {
	rank     int
	question uint64
	said     *said
}

// agree has stalls of this process, which has one rank, go to rank 0.
func (s *stalls) agree(p *proc) {
	a := &pact{p: p, some: make(chan struct{}, 1)}
	if p.rank == 0 {
		a.at0 = &quorum{all: make([]*said, s.w.size)}
	}
	s.asks = make(chan uint64, 1)
	s.answer = func(question uint64, found *stall) {
		var now *said
		if found != nil {
			now = &said{sent: found.sent, here: found.here, waits: found.text(), doubt: !found.certain}
		}
		if p.rank == 0 {
			s.gather(saying{0, question, now})
			return
		}
		// These frames are not counted, so that to ask changes nothing. Errors are those of the run.
		f := fabric.Frame{Head: [fabric.HeadWords]uint64{question, 0, 0, stalling.word()}}
		if now != nil {
			f.Head[1], f.Head[2], f.Head[4] = uint64(now.sent), uint64(now.here), 1
			if now.doubt {
				f.Head[4] = 2
			}
			f.Data = []byte(now.waits)
		}
		_ = p.ep.Send(0, f)
	}
	s.report = func(found *stall) { s.answer(0, found) }
	s.agreed.Store(a)
}

// gather is a rank's saying, at rank 0.
func (s *stalls) gather(x saying) {
	a := s.agreed.Load()
	ask, over := a.at0.take(x.rank, x.question, x.said)
	switch {
	case ask:
		for r := range s.w.size {
			if r != 0 {
				_ = a.p.ep.Send(r, fabric.Frame{Head: [fabric.HeadWords]uint64{a.at0.question, 0, 0, asking.word()}})
			}
		}
		s.asked(a.at0.question)
	case over != nil && a.at0.doubt():
		if !s.said {
			s.said = true
			s.say(over, nil, s.lasts())
		}
	case over != nil:
		s.w.end(&DeadlockError{Ranks: over, For: s.lasts()})
	}
}

// hear takes a frame of an agreement. It does not block.
func (s *stalls) hear(src int, f *fabric.Frame) {
	if s == nil {
		return // this rank waits for ever
	}
	a := s.agreed.Load()
	switch {
	case a == nil:
	case protocol(f.Head[3]>>8) == asking:
		if src == 0 {
			s.asked(f.Head[0])
		}
	case a.at0 != nil:
		x := saying{rank: src, question: f.Head[0]}
		if f.Head[4] != 0 {
			x.said = &said{sent: int64(f.Head[1]), here: int64(f.Head[2]), waits: string(f.Data[:min(len(f.Data), maxReason)]), doubt: f.Head[4] == 2}
		}
		a.mu.Lock()
		a.news = append(a.news, x)
		a.mu.Unlock()
		select {
		case a.some <- struct{}{}:
		default:
		}
	}
}

// gatherAll takes all that has come.
func (s *stalls) gatherAll() {
	a := s.agreed.Load()
	a.mu.Lock()
	news := a.news
	a.news = nil
	a.mu.Unlock()
	for _, x := range news {
		s.gather(x)
	}
}
