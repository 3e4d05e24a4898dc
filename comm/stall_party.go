// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"strings"

	"weft/comm/internal/ballot"
	"weft/comm/internal/coll"
	"weft/comm/internal/match"
	"weft/comm/internal/meet"
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
		p.ballots.Each(func(_ uint64, _ uint32, a *ballot.Agreement) {
			switch {
			case !a.Waits():
			case a.Ballot.Mine.Kind == ballot.VoteLeave:
				add(r, "the end of all ranks")
			default:
				add(r, "an agreement with "+(*Comm)(a.Group.(*voters)).place())
			}
		})
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
