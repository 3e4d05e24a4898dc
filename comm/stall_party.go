// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"weft/comm/internal/ballot"
	"weft/comm/internal/coll"
	"weft/comm/internal/match"
	"weft/comm/internal/meet"
	"weft/internal/fabric"
	"weft/internal/waits"
)

// maxStallLines bounds the pending operations that a report has of a rank.
const maxStallLines = 8

// newParty returns what the ranks of this process are for package waits. Blocking calls are counted where they
// wait anyway, in the matchers and where ranks meet; so to sleep in one costs nothing more.
func (w *world) newParty() *waits.Party {
	p := &waits.Party{
		Asleep:   func() (int, int, uint64) { n, version := w.asleep(); return n, 0, version },
		Describe: func() []string { return w.describe(dump.Shared()) },
	}
	if w.apart {
		p.Outside = func() bool { return true }
	}
	return p
}

// activity is a number that changes with everything that happens to the ranks of this process, mostly.
func (w *world) activity() (n int64) {
	for _, p := range w.procs {
		if p != nil {
			p.mu.Lock()
			n += int64(p.m.Seq)
			p.mu.Unlock()
			n += p.traffic.sent.Load() + p.traffic.here.Load() + p.traffic.pushes.Load()
		}
	}
	return n
}

// asleep counts the goroutines that sleep in blocking calls: those whose operation is queued, and callers where ranks meet that
// have said that they sleep. Whoever wakes one takes that away before.
func (w *world) asleep() (n int, version uint64) {
	version = uint64(w.activity())
	for _, p := range w.procs {
		if p == nil {
			continue
		}
		p.mu.Lock()
		p.m.Extract(func(e *match.Posted) bool {
			if opOf(e).waiter == blockedCall && !opOf(e).away.Load() {
				n++
			}
			return false
		}, func(a *match.Arrival) bool {
			if messageOf(a).from != nil && messageOf(a).from.waiter == blockedCall {
				n++
			}
			return false
		})
		p.mu.Unlock()
		p.far.mu.Lock()
		for _, op := range p.far.sends {
			if op.waiter == blockedCall {
				n++
			}
		}
		p.far.mu.Unlock()
	}
	for _, st := range w.stages.All() {
		k, v := st.Asleep()
		n, version = n+k, version+v
	}
	return n, version
}

// describe says for each rank here what it waits for, in which call and where, or where else it is.
func (w *world) describe(goroutines map[uint64]*waits.Goroutine) []string {
	pending := w.pending()
	var lines []string
	for r, p := range w.procs {
		if p == nil {
			continue
		}
		b := w.bodies[r]
		if b.over.Load() {
			lines = append(lines, fmt.Sprintf("rank %d has returned", r))
			continue
		}
		line := fmt.Sprintf("rank %d", r)
		if g := goroutines[b.id.Load()]; g != nil {
			if f, waits := g.Call(); !waits {
				line += " is in " + g.String()
			} else if line += " waits in " + f.Func; f.At != "" {
				line += " at " + f.At
			}
		}
		if len(pending[r]) > 0 {
			line += ", for: " + strings.Join(pending[r], "; ")
		}
		lines = append(lines, line)
	}
	return lines
}

// pending are the operations of each rank that wait for another rank.
func (w *world) pending() [][]string {
	all := make([][]string, w.size)
	add := func(r int, text string) {
		switch n := len(all[r]); {
		case text == "":
		case n < maxStallLines:
			all[r] = append(all[r], text)
		case n == maxStallLines:
			all[r] = append(all[r], "and more")
		}
	}
	for r, p := range w.procs {
		if p == nil {
			continue
		}
		p.mu.Lock()
		p.m.Extract(func(e *match.Posted) bool {
			add(r, opOf(e).describe())
			return false
		}, func(a *match.Arrival) bool {
			if from := messageOf(a).from; from != nil {
				add(from.c.proc.rank, from.describe())
			}
			return false
		})
		p.mu.Unlock()
		p.far.mu.Lock()
		for _, op := range p.far.sends {
			add(r, op.describe())
		}
		p.far.mu.Unlock()
		p.ballots.mu.Lock()
		for _, k := range p.ballots.circles {
			for _, a := range k.open {
				switch {
				case a.c == nil || a.told:
				case a.b.Mine.Kind == ballot.VoteLeave:
					add(r, "the end of all ranks")
				default:
					add(r, "an agreement with "+a.c.place())
				}
			}
		}
		p.ballots.mu.Unlock()
	}
	for _, st := range w.stages.All() {
		st.Waiting(func(h meet.Host, text string) {
			c := (*Comm)(h.(*host))
			add(c.proc.rank, text+", at "+c.place())
		})
	}
	return all
}

func (op *recvOp) describe() string {
	switch {
	case op.c.ctx == leaving:
		return "the end of all ranks"
	case op.entry.Key.Ctx&1 == 0 && op.c.told != nil:
		if what := op.c.told(int(op.entry.Key.Src), int(op.entry.Key.Tag)); what != "" {
			return what + ", at " + op.c.place()
		}
		return ""
	case op.entry.Key.Ctx&1 == 0:
		return op.String()
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", op.entry.Key.Src, coll.Collective(op.expect), op.entry.Key.Tag, op.c.place())
}

func (op *sendOp) describe() string {
	if op.waiter == aSchedule {
		return fmt.Sprintf("rank %d to take %d bytes in collective number %d, from %s", op.dst, op.buf.Bytes(), op.tag, op.c.place())
	}
	return op.String()
}

// frame sends a frame to another process, and counts it, so that all ranks together know whether any is under way.
func (p *proc) frame(dst int, f fabric.Frame) error {
	p.traffic.sent.Add(1) // before: it may be taken, counted there and answered at once
	err := p.ep.Send(dst, f)
	if err != nil {
		p.traffic.sent.Add(-1)
	}
	return err
}

// push is likewise for payloads, which are under way until done is called.
func (p *proc) push(dst int, key uint64, data []byte, done func(error)) {
	p.traffic.pushes.Add(1)
	p.ep.Push(dst, key, data, func(err error) {
		p.traffic.pushes.Add(-1)
		done(err)
	})
}

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
