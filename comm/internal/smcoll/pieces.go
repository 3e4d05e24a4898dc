// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Large collectives are cut into pieces that are independent of each other. Each rank that is there
// takes pieces until there are none left; the rank that finishes the last one ends the collective
// for all that do not watch.

// stage finds the memory of a large collective: the buffers', or copies of strided ones.
func (e *entry) packBuffers() {
	e.inMem, e.outMem, e.packedIn, e.packedOut = nil, nil, nil, nil
	if b, ok := e.In.Contiguous(); ok {
		e.inMem = b
	} else {
		e.packedIn = mem.NewBlock(e.In.Bytes())
		e.inMem = e.packedIn.B
		e.In.CopyToBytes(e.inMem, 0)
	}
	if b, ok := e.Out.Contiguous(); ok {
		e.outMem = b
	} else {
		e.packedOut = mem.NewBlock(e.Out.Bytes())
		e.outMem = e.packedOut.B
		e.Out.CopyToBytes(e.outMem, 0) // what a collective leaves alone stays
	}
}

func (e *entry) unpackBuffers(err error) {
	if e.packedOut != nil && err == nil {
		e.Out.CopyFromBytes(e.outMem, 0)
	}
	for _, b := range []*mem.Block{e.packedIn, e.packedOut} {
		if b != nil && err == nil {
			b.Free() // after an error others may still look
		}
	}
	e.inMem, e.outMem, e.packedIn, e.packedOut = nil, nil, nil, nil
}

// Sizes of pieces in bytes: small enough to stay in the nearest caches with what is combined, and
// to end together; large enough that to take one costs nothing. Guesses.
const (
	pieceLeast = 4 << 10
	pieceMost  = 32 << 10
)

// pieceSize is how many bytes of a part a piece has: whole elements, where they are combined.
func pieceSize(d *coll.Call, n int) int {
	size := min(max(d.Unit/(4*n), pieceLeast), pieceMost)
	size = max(size, d.Unit>>(pieceBits-4-2*bitsOf(n))) // not too many to be counted
	if d.Op == nil {
		return size // bytes are copied, whatever they are
	}
	e := max(d.In.ElemSize(), 1)
	return max(size/e, 1) * e
}

func bitsOf(n int) int {
	b := 0
	for n > 1<<b {
		b++
	}
	return min(b, 6)
}

// cuts is how many pieces a part is cut into.
func cuts(d *coll.Call, n int) int {
	size := pieceSize(d, n)
	return max((d.Unit+size-1)/size, 1)
}

// pieces is how many there are in all.
func pieces(d *coll.Call, n int) int {
	switch d.Kind {
	case coll.Gather, coll.Scatter, coll.Allgather:
		return n * cuts(d, n)
	case coll.Alltoall:
		return n * (n + 1) / 2 * cuts(d, n)
	}
	return cuts(d, n)
}

// exhausted reports whether there are no pieces left to take.
func (st *Segment) exhausted(d *coll.Call, seq uint64) bool {
	v := st.pieceCount(seq).next.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// complete reports whether all pieces are finished.
func (st *Segment) complete(d *coll.Call, seq uint64) bool {
	v := st.pieceCount(seq).done.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// take returns the number of a piece that is the caller's to do, or -1.
func (s *pieceCount) take(seq uint64, total int) int {
	for {
		v := s.next.Load()
		n := 0
		switch {
		case v>>pieceBits > seq:
			return -1
		case v>>pieceBits == seq:
			n = int(v & allTaken)
		}
		if n >= total {
			return -1
		}
		if s.next.CompareAndSwap(v, seq<<pieceBits|uint64(n+1)) {
			return n
		}
	}
}

// did counts a finished piece, and reports whether it was the last.
func (s *pieceCount) finish(seq uint64, total int) bool {
	for {
		v := s.done.Load()
		n := 1
		if v>>pieceBits == seq {
			n = int(v&allTaken) + 1
		}
		if s.done.CompareAndSwap(v, seq<<pieceBits|uint64(n)) {
			return n == total
		}
	}
}

// close leaves no piece to take, unless one has been taken.
func (st *Segment) closePieces(seq uint64) bool {
	s := st.pieceCount(seq)
	for {
		v := s.next.Load()
		if v>>pieceBits >= seq {
			return v == seq<<pieceBits|allTaken
		}
		if s.next.CompareAndSwap(v, seq<<pieceBits|allTaken) {
			return true
		}
	}
}

// work does pieces until there are none left. The rank is active, so all memory is there until it
// ends.
func (s *Member) work(seq uint64) {
	d, sl := &s.entries[seq%Width].Call, s.st.pieceCount(seq)
	if d.Total > 1 && s.st.procs > 1 && !s.st.exhausted(d, seq) {
		s.wakeHelpers(seq)
	}
	var e *executor
	for {
		i := sl.take(seq, d.Total)
		if i < 0 {
			break
		}
		if e == nil {
			e = executors.Get().(*executor)
			e.st, e.seq, e.call, e.Pad = s.st, seq, d, coll.Pads.Get().(*coll.Pad)
		}
		s.doPiece(e, i, sl, seq, d.Total)
	}
	if e != nil {
		e.release()
	}
}

// piece does one. If a user's operator panics, the piece counts as failed, so that the others come
// to their end.
func (s *Member) doPiece(e *executor, i int, sl *pieceCount, seq uint64, total int) {
	returned := false
	defer func() {
		if !returned {
			sl.fail(seq, coll.ErrOperator)
		}
		if sl.finish(seq, total) {
			s.finishWaiting(seq)
		}
		if !returned {
			for i := sl.take(seq, total); i >= 0; i = sl.take(seq, total) {
				if sl.finish(seq, total) {
					s.finishWaiting(seq)
				}
			}
		}
	}()
	if f := sl.err.Load(); f == nil || f.seq != seq {
		if err := e.do(i); err != nil {
			sl.fail(seq, err)
		}
	}
	returned = true
}

func (s *pieceCount) fail(seq uint64, err error) {
	if f := s.err.Load(); f == nil || f.seq != seq {
		s.err.Store(&pieceError{seq, err}) // any of several
	}
}

// wakeHelpers makes those active that sleep in a call.
func (s *Member) wakeHelpers(seq uint64) {
	for r := range s.st.size {
		q := s.st.cell(r, seq)
		if r != s.rank && q.state.CompareAndSwap(stateOf(seq, asleep), stateOf(seq, active)) {
			s.st.entry(r, seq).waiter.ch.Send(struct{}{})
		}
	}
}

// tellAll ends the collective for all that wait: the last piece is finished.
func (s *Member) finishWaiting(seq uint64) {
	for r := range s.st.size {
		if q := s.st.cell(r, seq); r != s.rank && q.take(seq) {
			s.st.members[r].Load().finishFor(q, seq)
		}
	}
}
