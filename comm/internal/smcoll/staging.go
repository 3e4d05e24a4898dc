// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"bytes"
	"encoding/binary"
	"errors"

	"weft/comm/internal/coll"
)

// Large reductions in mapped memory go through staging buffers: each rank has one, which all ranks
// have mapped. README.md has the protocol and its argument.

// The word row.step is the number of a collective << stepBits, and how far the rank is: the number
// of steps that it has completed, or one of the values below. A round has two steps: the rank has
// filled its staging buffer; it has combined its block.
const (
	stepBits = 32
	// The rank has given up because another rank's operator has failed.
	stepGaveUp = 1<<stepBits - 3
	// The rank's operator has failed. Its result buffer has the text of the panic.
	stepFailed = 1<<stepBits - 2
	stepOver   = 1<<stepBits - 1 // the rank reads no other rank's staging buffer any more
)

// combinePiece is how many bytes a rank combines at a time: few enough to stay in the nearest cache
// until they have been copied to the output buffer.
const combinePiece = 16 << 10

// maxRounds bounds the rounds of a collective; 16 TiB. So no round has the number of a value above.
const maxRounds = 1 << 26

// fitsStaging reports whether a large reduction can go through staging buffers. The answer depends
// only on what all ranks know alike.
func fitsStaging(d *coll.Call) bool {
	return d.In.ElemSize() <= elemMax && d.Unit/stagingSize < maxRounds
}

// What a rank publishes of a large collective in mapped memory: Call.Total, as the only byte of
// data.
const (
	byMessages = 1 + iota // the rank runs the collective by messages, and so do all
	byStaging
)

// errUseMessages is the result of a large collective that some rank runs by messages.
var errUseMessages = errors.New("the collective runs by messages")

// anyUsesMessages reports whether a rank runs a large collective by messages. All have published.
func (st *Segment) anyUsesMessages(seq uint64) bool {
	for r := range st.rows {
		if st.cell(r, seq).data[0] != byStaging { //bug:any-uses-messages
			return true
		}
	}
	return false
}

// acquire gives the caller the rank's staging buffer. It returns false if another goroutine of this
// rank holds the buffer, or if other ranks may still read its previous contents.
func (w *Staging) acquire(s *Member) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held || w.retired || len(s.buffers[s.rank].in) == 0 || w.last != nil && w.last != s && !w.last.isOver(w.seq) {
		return false
	}
	w.held = true
	return true
}

// expose notes that other ranks may read the buffer from now on, in a collective of s.
func (w *Staging) expose(s *Member, seq uint64) {
	w.mu.Lock()
	w.last, w.seq = s, seq
	w.mu.Unlock()
}

// exposedFor reports whether the holder of the buffer has exposed it for a collective of s.
func (w *Staging) exposedFor(s *Member, seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held && w.last == s && w.seq == seq
}

// retire takes the buffer out of use for ever: it is not known any more which ranks read it.
func (w *Staging) retire() {
	w.mu.Lock()
	w.retired = true
	w.mu.Unlock()
}

// release ends the caller's use of the buffer.
func (w *Staging) release() {
	w.mu.Lock()
	w.held = false
	w.mu.Unlock()
}

// isOver reports whether no rank reads another rank's staging buffer any more in a collective. The
// ranks mostly end together, so isOver polls for a while.
func (s *Member) isOver(seq uint64) bool {
	const polls = 1000
	for r := range s.st.rows {
		for n := 0; s.st.rows[r].Load().step.Load() < seq<<stepBits|stepOver; n++ {
			if n == polls {
				return false
			}
		}
	}
	return true
}

// roundBounds returns which bytes of the payload round k combines.
func roundBounds(d *coll.Call, k int) (lo, hi int) {
	e := d.In.ElemSize()
	size := stagingSize / e * e
	return min(k*size, d.Unit), min((k+1)*size, d.Unit)
}

// blockBounds returns which of the bytes from lo up to hi rank r of n combines.
func blockBounds(d *coll.Call, r, n, lo, hi int) (from, to int) {
	e := d.In.ElemSize()
	m := (hi - lo) / e
	return lo + m*r/n*e, lo + m*(r+1)/n*e
}

// fillStaging copies the input that the other ranks combine in round k into the staging buffer.
func (s *Member) fillStaging(d *coll.Call, k int) {
	lo, hi := roundBounds(d, k)
	from, to := blockBounds(d, s.rank, s.st.size, lo, hi)
	mem := s.buffers[s.rank].in
	if _, whole := d.In.Contiguous(); !whole {
		from, to = hi, hi // the own block is combined from the staging buffer too
	}
	d.In.CopyToBytes(mem[:from-lo], lo)
	d.In.CopyToBytes(mem[to-lo:hi-lo], to)
}

// completeStep publishes that this rank has completed a step, and notifies ranks that sleep.
func (s *Member) completeStep(seq, step uint64) {
	s.row.step.Store(seq<<stepBits | step)
	for r := range s.st.rows {
		if r != s.rank {
			s.notify(r, seq) //bug:notify-step
		}
	}
}

// allReached reports whether all ranks have completed the step that the holder of the staging
// buffer waits for.
func (s *Member) allReached() bool {
	want := s.staging.want.Load()
	for r := range s.st.rows {
		if s.st.rows[r].Load().step.Load() < want {
			return false
		}
	}
	return true
}

// missing returns a rank for which the operation of this rank waits in a collective.
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

// waitStep waits until all ranks have completed a step. It returns an error if a rank never will.
func (s *Member) waitStep(d *coll.Call, seq, step uint64) error {
	s.staging.want.Store(seq<<stepBits | step)
	for turns := 0; ; turns++ {
		if err := s.failure(); err != nil {
			// even if all have completed it: the result is worthless
			s.staging.failure = err
			return err
		}
		switch {
		case s.allReached():
			return s.peerFailure(seq)
		case turns == 0:
			s.host.Watch(s.reached)
		default:
			s.suspend(&s.row.cells[seq%Width], d, seq, true)
		}
	}
}

// peerFailure returns why another rank has given up; nil if none has. If a rank has made
// stepGaveUp, it has found another one with stepFailed. So a second turn of the loop finds that
// one.
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

// maxPanic bounds the text of a panic in a result buffer. The length of the text is before it.
const maxPanic = 16 << 10

// combineLarge does a large reduction. All ranks have published, and agree.
func (s *Member) combineLarge(d *coll.Call, seq uint64) (err error) {
	w := s.staging
	w.failure = nil
	w.expose(s, seq)
	combines := false
	err = coll.ErrOperator // the result if a user's operator leaves its goroutine
	defer func() {
		switch {
		case err == nil:
			s.completeStep(seq, stepOver)
		case w.failure != nil: // the other ranks learn of the failure by themselves
			w.retire()
		case combines: // no rank reads this rank's result buffer in this step
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
			r := (s.rank + i) % n // so that not all ranks read the same one's buffer at a time
			from, to := blockBounds(d, r, n, lo, hi)
			d.Out.CopyFromBytes(s.buffers[r].result[:to-from], from)
		}
	}
}

// combineBlock combines this rank's block of a round.
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
	size := combinePiece / d.In.ElemSize() * d.In.ElemSize() // elemMax < combinePiece
	for at = from; at < to; at = end {
		end = min(at+size, to)
		dst := s.buffers[me].result[at-from : end-from]
		if err := t.Eval(e, dst, 0, t.Width, 0); err != nil {
			return err
		}
		d.Out.CopyFromBytes(dst, at) // only now: Out may be the memory of In
	}
	return nil
}
