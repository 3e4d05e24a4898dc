// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Large collectives on the heap are cut into pieces that are independent of each other. Each active
// rank takes pieces until none are left. The rank that finishes the last piece ends the collective
// for all ranks that wait.

// packBuffers finds the memory of a large collective: that of the buffers, or packed copies of
// strided buffers.
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
		// elements that the collective does not write keep their values
		e.Out.CopyToBytes(e.outMem, 0)
	}
}

// unpackBuffers copies the result to a strided buffer and frees the packed copies.
func (e *entry) unpackBuffers(err error) {
	if e.packedOut != nil && err == nil {
		e.Out.CopyFromBytes(e.outMem, 0)
	}
	for _, b := range []*mem.Block{e.packedIn, e.packedOut} {
		if b != nil && err == nil {
			b.Free() // not after an error: other ranks may still read it
		}
	}
	e.inMem, e.outMem, e.packedIn, e.packedOut = nil, nil, nil, nil
}

// Sizes of pieces in bytes. A piece and the pieces combined with it should stay in the nearest
// caches, and all ranks should finish at about the same time. Taking a piece should cost little
// compared with the piece. Guesses.
const (
	pieceLeast = 4 << 10
	pieceMost  = 32 << 10
)

// pieceSize returns how many bytes of a rank's block are in a piece. If elements are combined, they
// are whole elements.
func pieceSize(d *coll.Call, n int) int {
	size := min(max(d.Unit/(4*n), pieceLeast), pieceMost)
	size = max(size, d.Unit>>(pieceBits-4-2*bitsOf(n))) // the count has to fit in pieceBits
	if d.Op == nil {
		return size // bytes are only copied
	}
	e := max(d.In.ElemSize(), 1)
	return max(size/e, 1) * e
}

// bitsOf returns the bits of the numbers below n, at most 6.
func bitsOf(n int) int {
	b := 0
	for n > 1<<b {
		b++
	}
	return min(b, 6)
}

// cuts returns how many pieces a rank's block is cut into.
func cuts(d *coll.Call, n int) int {
	size := pieceSize(d, n)
	return max((d.Unit+size-1)/size, 1)
}

// pieces returns how many pieces a collective of n ranks has.
func pieces(d *coll.Call, n int) int {
	switch d.Kind {
	case coll.Gather, coll.Scatter, coll.Allgather:
		return n * cuts(d, n)
	case coll.Alltoall:
		return n * (n + 1) / 2 * cuts(d, n)
	}
	return cuts(d, n)
}

// exhausted reports whether no pieces are left to take.
func (st *Segment) exhausted(d *coll.Call, seq uint64) bool {
	v := st.pieceCount(seq).next.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// complete reports whether all pieces are finished.
func (st *Segment) complete(d *coll.Call, seq uint64) bool {
	v := st.pieceCount(seq).done.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// take returns the number of a piece for the caller to do; -1 if none are left.
func (c *pieceCount) take(seq uint64, total int) int {
	for {
		v := c.next.Load()
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
		if c.next.CompareAndSwap(v, seq<<pieceBits|uint64(n+1)) {
			return n
		}
	}
}

// finish counts a finished piece, and reports whether it was the last one.
func (c *pieceCount) finish(seq uint64, total int) bool {
	for {
		v := c.done.Load()
		n := 1
		if v>>pieceBits == seq {
			n = int(v&allTaken) + 1
		}
		if c.done.CompareAndSwap(v, seq<<pieceBits|uint64(n)) {
			return n == total
		}
	}
}

// closePieces leaves no piece to take, and reports whether it could: not if one has been taken.
func (st *Segment) closePieces(seq uint64) bool {
	c := st.pieceCount(seq)
	for {
		v := c.next.Load()
		if v>>pieceBits >= seq {
			return v == seq<<pieceBits|allTaken
		}
		if c.next.CompareAndSwap(v, seq<<pieceBits|allTaken) {
			return true
		}
	}
}

// work does pieces until none are left. The rank is active, so no rank has finished and the memory
// of all stays valid.
func (s *Member) work(seq uint64) {
	d, count := &s.entries[seq%Width].Call, s.st.pieceCount(seq)
	if d.Total > 1 && s.st.procs > 1 && !s.st.exhausted(d, seq) {
		s.wakeHelpers(seq)
	}
	var e *executor
	for {
		i := count.take(seq, d.Total)
		if i < 0 {
			break
		}
		if e == nil {
			e = executors.Get().(*executor)
			e.st, e.seq, e.call, e.Pad = s.st, seq, d, coll.Pads.Get().(*coll.Pad)
		}
		s.doPiece(e, i, count, seq, d.Total)
	}
	if e != nil {
		e.release()
	}
}

// doPiece does one piece. If a user's operator panics, the piece and all that are left count as
// finished with an error, so that the other ranks do not wait for them.
func (s *Member) doPiece(e *executor, i int, count *pieceCount, seq uint64, total int) {
	returned := false
	defer func() {
		if !returned {
			count.fail(seq, coll.ErrOperator)
		}
		if count.finish(seq, total) {
			s.finishWaiting(seq)
		}
		if !returned {
			for i := count.take(seq, total); i >= 0; i = count.take(seq, total) {
				if count.finish(seq, total) {
					s.finishWaiting(seq)
				}
			}
		}
	}()
	if f := count.err.Load(); f == nil || f.seq != seq {
		if err := e.do(i); err != nil {
			count.fail(seq, err)
		}
	}
	returned = true
}

func (c *pieceCount) fail(seq uint64, err error) {
	if f := c.err.Load(); f == nil || f.seq != seq {
		c.err.Store(&pieceError{seq, err}) // of several errors, any one will do
	}
}

// wakeHelpers makes sleeping callers active and wakes them, to take pieces as well.
func (s *Member) wakeHelpers(seq uint64) {
	for r := range s.st.size {
		q := s.st.cell(r, seq)
		if r != s.rank && q.state.CompareAndSwap(stateOf(seq, asleep), stateOf(seq, active)) {
			s.st.entry(r, seq).waiter.ch.Send(struct{}{})
		}
	}
}

// finishWaiting ends the collective for all ranks that wait. The last piece is finished.
func (s *Member) finishWaiting(seq uint64) {
	for r := range s.st.size {
		if q := s.st.cell(r, seq); r != s.rank && q.take(seq) {
			s.st.members[r].Load().finishFor(q, seq)
		}
	}
}
