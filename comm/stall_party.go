// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"
	"slices"
	"strings"

	"weft/internal/fabric"
	"weft/internal/waits"
)

// maxStallLines bounds the pending operations that a report has of a rank.
const maxStallLines = 8

// newParty returns what the ranks of this process are for package waits. Blocking calls are counted where they
// wait anyway, in the matchers, at hubs and at boards; so to sleep in one costs nothing more.
func (w *world) newParty() *waits.Party {
	p := &waits.Party{
		Asleep:   func() (int, int, uint64) { n, version := w.asleep(); return n, 0, version },
		Describe: func() []string { return w.describe(false, dump.get()) },
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
			n += int64(p.m.seq)
			p.mu.Unlock()
			n += p.traffic.sent.Load() + p.traffic.here.Load() + p.traffic.pushes.Load()
		}
	}
	return n
}

// asleep counts the goroutines that sleep in blocking calls: those whose operation is queued, and callers at hubs and boards that
// have said that they sleep. Whoever wakes one takes that away before.
func (w *world) asleep() (n int, version uint64) {
	version = uint64(w.activity())
	for _, p := range w.procs {
		if p == nil {
			continue
		}
		p.mu.Lock()
		p.m.extract(func(e *posted) bool {
			if e.op().waiter == blockedCall && !e.op().away.Load() {
				n++
			}
			return false
		}, func(a *arrival) bool {
			if a.message().from != nil && a.message().from.waiter == blockedCall {
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
		p.boards.mu.Lock()
		for _, b := range p.boards.all {
			b.mu.Lock()
			if b.sleeps.seq != 0 {
				n++
				version += b.sleeps.seq
			}
			b.mu.Unlock()
		}
		p.boards.mu.Unlock()
	}
	w.hubs.each(func(_ *Comm, _ *place, state uint64) {
		if hubPhase(state&(1<<phaseBits-1)) == asleep {
			n++
		}
		version += state
	})
	return n, version
}

// describe says for each rank here what it waits for, in which call and where, or where else it is.
func (w *world) describe(still bool, goroutines map[uint64]*waits.Goroutine) []string {
	pending := w.pending(still)
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

// pending are the operations of each rank that wait for another rank. still: nothing moves, and what the ranks have
// at hubs may be read.
func (w *world) pending(still bool) [][]string {
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
		p.m.extract(func(e *posted) bool {
			add(r, e.op().describe())
			return false
		}, func(a *arrival) bool {
			if from := a.message().from; from != nil {
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
		p.boards.mu.Lock()
		for _, b := range p.boards.all {
			if waits := b.waits(); waits != "" {
				add(r, waits)
			}
		}
		p.boards.mu.Unlock()
		p.ballots.mu.Lock()
		for _, k := range p.ballots.circles {
			for _, a := range k.open {
				switch {
				case a.c == nil || a.told:
				case a.b.mine.kind == voteLeave:
					add(r, "the end of all ranks")
				default:
					add(r, "an agreement with "+a.c.place())
				}
			}
		}
		p.ballots.mu.Unlock()
	}
	w.hubs.each(func(c *Comm, p *place, state uint64) {
		if seq := state >> phaseBits; state == stateOf(seq, passive) || state == stateOf(seq, asleep) {
			what := "collective"
			if still {
				what = p.what.String()
			}
			add(c.proc.rank, fmt.Sprintf("rank %d in %s number %d, at %s", c.hub.here(seq, 0), what, seq, c.place()))
		}
	})
	return all
}

// each calls f for each place of each hub, with the communicator of its rank.
func (s *hubs) each(f func(c *Comm, p *place, state uint64)) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, w := range all {
		h := w.Value()
		if h == nil {
			continue
		}
		for r := range h.ranks {
			if places := h.ranks[r].places.Load(); places != nil {
				for i := range places {
					f(h.ranks[r].comm.Load(), &places[i], places[i].state.Load())
				}
			}
		}
	}
}

func (op *recvOp) describe() string {
	switch {
	case op.c.ctx == leaving:
		return "the end of all ranks"
	case op.entry.key.ctx&1 == 0 && op.c.told != nil:
		if what := op.c.told(int(op.entry.key.src), int(op.entry.key.tag)); what != "" {
			return what + ", at " + op.c.place()
		}
		return ""
	case op.entry.key.ctx&1 == 0:
		return op.String()
	}
	return fmt.Sprintf("rank %d in %v number %d, at %s", op.entry.key.src, collective(op.expect), op.entry.key.tag, op.c.place())
}

func (op *sendOp) describe() string {
	if op.waiter == schedule {
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
