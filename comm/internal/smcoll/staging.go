// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"bytes"
	"encoding/binary"
	"errors"

	"weft/comm/internal/coll"
)

// Large reductions in mapped memory: what is to be combined goes through a window, memory of each
// rank that all have mapped. README.md has the protocol and its argument.

// Of the word step: the number of a collective << stepBits, and what a rank has done of it. In each
// round it first shows what the others are to combine, and then what it has combined.
const (
	stepBits = 32
	// it has given up because another rank's operator has failed: no round has this number
	stepGaveUp = 1<<stepBits - 3
	// its operator has failed, and its result is what that has panicked with
	stepFailed = 1<<stepBits - 2
	stepOver   = 1<<stepBits - 1 // it needs no other rank's stage any more
)

// windowPiece is how many bytes a rank combines at a time: small enough to stay in the nearest
// cache until it has been copied to where it belongs.
const combinePiece = 16 << 10

// windowRounds bounds the rounds of a collective; 16 TiB.
const maxRounds = 1 << 26

// stageable reports whether windows will do for the elements: what all ranks know alike.
func fitsStaging(d *coll.Call) bool {
	return d.In.ElemSize() <= elemMax && d.Unit/stagingSize < maxRounds
}

// What a rank shows of a large collective, as Total.
const (
	byMessages = 1 + iota // it makes it of messages, and then all do
	byStaging
)

// errMixed is how a large collective ends that some rank makes of messages.
var errUseMessages = errors.New("it is made of messages")

// mixed reports whether a rank makes a large collective of messages.
func (st *Segment) anyUsesMessages(seq uint64) bool {
	for r := range st.rows {
		if st.cell(r, seq).data[0] != byStaging { //bug:any-uses-messages
			return true
		}
	}
	return false
}

// lend gives the caller the rank's window, if it is not in use: neither another goroutine of this
// rank, nor another rank that reads what was there before.
func (w *Staging) acquire(s *Member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held || w.retired || len(s.buffers[s.rank].in) == 0 || w.last != nil && w.last != s && !w.last.isOver(w.seq) {
		return false
	}
	w.held = true
	return true
}

// used says that others may read the window from now on.
func (w *Staging) expose(s *Member, seq uint64) {
	w.mu.Lock()
	w.last, w.seq = s, seq
	w.mu.Unlock()
}

// busyWith reports whether a seat has got as far as the windows in a collective.
func (w *Staging) exposedFor(s *Member, seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held && w.last == s && w.seq == seq
}

// spoilt says that it cannot be known any more which ranks read it.
func (w *Staging) retire() {
	w.mu.Lock()
	w.retired = true
	w.mu.Unlock()
}

// returned ends the caller's use.
func (w *Staging) release() {
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
}

// isOver reports whether no rank reads another one's window for a collective any more. They mostly
// end together, so it looks some times.
func (s *Member) isOver(seq uint64) bool {
	const looks = 1000
	for r := range s.st.rows {
		for n := 0; s.st.rows[r].Load().step.Load() < seq<<stepBits|stepOver; n++ {
			if n == looks {
				return false
			}
		}
	}
	return true
}

// windowOf returns which bytes of the payload round k is about.
func roundBounds(d *coll.Call, k int) (lo, hi int) {
	e := d.In.ElemSize()
	size := stagingSize / e * e
	return min(k*size, d.Unit), min((k+1)*size, d.Unit)
}

// blockOf returns which bytes of a window rank r combines.
func blockBounds(d *coll.Call, r, n, lo, hi int) (from, to int) {
	e := d.In.ElemSize()
	m := (hi - lo) / e
	return lo + m*r/n*e, lo + m*(r+1)/n*e
}

// show puts what the others are to combine in round k into the window.
func (s *Member) fillStaging(d *coll.Call, k int) {
	lo, hi := roundBounds(d, k)
	from, to := blockBounds(d, s.rank, s.st.size, lo, hi)
	mem := s.buffers[s.rank].in
	if _, whole := d.In.Contiguous(); !whole {
		from, to = hi, hi // it is combined from here, too
	}
	d.In.CopyToBytes(mem[:from-lo], lo)
	d.In.CopyToBytes(mem[to-lo:hi-lo], to)
}

// done says how far this rank has come, and wakes those that sleep.
func (s *Member) completeStep(seq, step uint64) {
	s.row.step.Store(seq<<stepBits | step)
	for r := range s.st.rows {
		if r != s.rank {
			s.notify(r, seq) //bug:notify-step
		}
	}
}

// come reports whether all ranks have come as far as the caller wants that has the window.
func (s *Member) allReached() bool {
	want := s.staging.want.Load()
	for r := range s.st.rows {
		if s.st.rows[r].Load().step.Load() < want {
			return false
		}
	}
	return true
}

// missing returns a rank that what waits at the seat waits for.
func (s *Member) missing(seq uint64) int {
	if s.st.mapped && s.staging.exposedFor(s, seq) {
		want := s.staging.want.Load()
		for r := range s.st.rows {
			if s.st.rows[r].Load().step.Load() < want {
				return r
			}
		}
	}
	return s.st.firstMissing(seq, 0)
}

// until waits until all ranks have done a step. It returns an error if one never will.
func (s *Member) waitStep(d *coll.Call, seq, step uint64) error {
	s.staging.want.Store(seq<<stepBits | step)
	for looks := 0; ; looks++ {
		if err := s.failure(); err != nil { // also if all have come: the result is worth nothing
			s.staging.failure = err
			return err
		}
		switch {
		case s.allReached():
			return s.peerFailure(seq)
		case looks == 0:
			s.host.Watch(s.reached)
		default:
			s.suspend(&s.row.cells[seq%Width], d, seq, true)
		}
	}
}

// failure returns why another rank has given up, nil if none has. A rank that has left has seen one
// that failed, which is found then too.
func (s *Member) peerFailure(seq uint64) error {
	left := false
	for range 2 {
		for r := range s.st.rows {
			switch s.st.rows[r].Load().step.Load() {
			case seq<<stepBits | stepFailed:
				mem := s.buffers[r].result
				n := min(int(binary.LittleEndian.Uint32(mem)), len(mem)-4, maxPanic)
				return s.host.Panicked(r, bytes.Clone(mem[4:4+n]))
			case seq<<stepBits | stepGaveUp:
				left = true
			}
		}
		if !left {
			return nil
		}
	}
	return coll.ErrOperator
}

// maxPanic bounds the text of a panic, which is put where other processes read it, behind its
// length.
const maxPanic = 16 << 10

// combineLarge does a large reduction. All ranks are here, and agree.
func (s *Member) combineLarge(d *coll.Call, seq uint64) (err error) {
	w := s.staging
	w.failure = nil
	w.expose(s, seq)
	combines := false
	err = coll.ErrOperator // if a user's operator leaves its goroutine
	defer func() {
		switch {
		case err == nil:
			s.completeStep(seq, stepOver)
		case w.failure != nil: // the others hear of that by themselves
			w.retire()
		case combines: // no rank reads this rank's result
			w.retire()
			text, mem := s.host.Panic(err), s.buffers[s.rank].result
			binary.LittleEndian.PutUint32(mem, uint32(copy(mem[4:], text[:min(len(text), maxPanic)])))
			s.completeStep(seq, stepFailed)
		default:
			w.retire()
			s.completeStep(seq, stepGaveUp)
		}
	}()
	for k := 0; ; k++ {
		lo, hi := roundBounds(d, k)
		if lo == hi {
			return nil
		}
		if k > 0 {
			s.fillStaging(d, k)
		}
		s.completeStep(seq, uint64(2*k+1))
		if err := s.waitStep(d, seq, uint64(2*k+1)); err != nil { //bug:all-have-filled
			return err
		}
		combines = true
		if err := s.combineBlock(d, lo, hi); err != nil {
			return err
		}
		combines = false
		s.completeStep(seq, uint64(2*k+2))
		if err := s.waitStep(d, seq, uint64(2*k+2)); err != nil { //bug:all-have-combined
			return err
		}
		n := s.st.size
		for i := 1; i < n; i++ {
			r := (s.rank + i) % n // not all from the same one at a time
			from, to := blockBounds(d, r, n, lo, hi)
			d.Out.CopyFromBytes(s.buffers[r].result[:to-from], from)
		}
	}
}

// combineBlock combines this rank's block of a window.
func (s *Member) combineBlock(d *coll.Call, lo, hi int) error {
	me, n := s.rank, s.st.size
	own, whole := d.In.Contiguous()
	from, to := blockBounds(d, me, n, lo, hi)
	var at, end int // the piece
	t := coll.TreeOf(d, n)
	t.Leaf = func(r int) []byte {
		if r == me && whole {
			return own[at:end]
		}
		return s.buffers[r].in[at-lo : end-lo]
	}
	e := coll.Pads.Get().(*coll.Pad)
	defer e.Release()
	size := combinePiece / d.In.ElemSize() * d.In.ElemSize() // see stageable
	for at = from; at < to; at = end {
		end = min(at+size, to)
		dst := s.buffers[me].result[at-from : end-from]
		if err := t.Eval(e, dst, 0, t.Width, 0); err != nil {
			return err
		}
		d.Out.CopyFromBytes(dst, at) // only now: it may be the memory of In
	}
	return nil
}
