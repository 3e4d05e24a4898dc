// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"weft/comm/internal/coll"
	"weft/comm/internal/mem"
)

// Large collectives are cut into pieces that are independent of each other. Whoever is there takes pieces until there are
// none left; who finishes the last one ends the collective for all that do not watch.

// stage finds the memory of a large collective: the buffers', or copies of strided ones.
func (p *place) stage() {
	p.inMem, p.outMem, p.stageIn, p.stageOut = nil, nil, nil, nil
	if b, ok := p.In.Contiguous(); ok {
		p.inMem = b
	} else {
		p.stageIn = mem.NewBlock(p.In.Bytes())
		p.inMem = p.stageIn.B
		p.In.CopyToBytes(p.inMem, 0)
	}
	if b, ok := p.Out.Contiguous(); ok {
		p.outMem = b
	} else {
		p.stageOut = mem.NewBlock(p.Out.Bytes())
		p.outMem = p.stageOut.B
		p.Out.CopyToBytes(p.outMem, 0) // what a collective leaves alone stays
	}
}

func (p *place) unstage(err error) {
	if !p.Large {
		return
	}
	if p.stageOut != nil && err == nil {
		p.Out.CopyFromBytes(p.outMem, 0)
	}
	for _, b := range []*mem.Block{p.stageIn, p.stageOut} {
		if b != nil && err == nil {
			b.Free() // after an error others may still look
		}
	}
	p.inMem, p.outMem, p.stageIn, p.stageOut = nil, nil, nil, nil
}

// Sizes of pieces in bytes: small enough to stay in the nearest caches with what is combined, and to end together; large
// enough that to take one costs nothing. Guesses.
const (
	pieceLeast = 4 << 10
	pieceMost  = 32 << 10
)

// pieceSize is how many bytes of a part a piece has: whole elements, where they are combined.
func pieceSize(d *coll.Call, n int) int {
	size := min(max(d.Unit/(4*n), pieceLeast), pieceMost)
	size = max(size, d.Unit>>(pieceBits-4-2*bitsOf(n))) // not too many to be counted
	if d.Op == nil {
		return size // bytes are copied, and who copies need not know what they are
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
func (h *hub) exhausted(d *coll.Call, seq uint64) bool {
	v := h.slot(seq).next.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// complete reports whether all pieces are finished.
func (h *hub) complete(d *coll.Call, seq uint64) bool {
	v := h.slot(seq).done.Load()
	return v>>pieceBits == seq && int(v&allTaken) >= d.Total
}

// take returns the number of a piece that is the caller's to do, or -1.
func (s *hubSlot) take(seq uint64, total int) int {
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
func (s *hubSlot) did(seq uint64, total int) bool {
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

// close lets nobody take a piece any more, unless somebody has taken one.
func (h *hub) close(seq uint64) bool {
	s := h.slot(seq)
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

// work does pieces until there are none left. The place is active, so all memory is there until it ends.
func (h *hub) work(p *place, me int, seq uint64) {
	s := h.slot(seq)
	total := p.Total
	if total > 1 && h.procs > 1 && !h.exhausted(&p.Call, seq) {
		h.wakeHelpers(me, seq)
	}
	var e *executor
	for {
		i := s.take(seq, total)
		if i < 0 {
			break
		}
		if e == nil {
			e = executors.Get().(*executor)
			e.hub, e.seq, e.call, e.Pad = h, seq, &p.Call, coll.Pads.Get().(*coll.Pad)
		}
		h.piece(e, i, s, me, seq, total)
	}
	if e != nil {
		e.release()
	}
}

// piece does one. If a user's operator panics, the piece counts as failed, so that the others come to their end.
func (h *hub) piece(e *executor, i int, s *hubSlot, me int, seq uint64, total int) {
	returned := false
	defer func() {
		if !returned {
			s.fail(seq, ErrOperator)
		}
		if s.did(seq, total) {
			h.tellAll(me, seq)
		}
		if !returned {
			for i := s.take(seq, total); i >= 0; i = s.take(seq, total) {
				if s.did(seq, total) {
					h.tellAll(me, seq)
				}
			}
		}
	}()
	if f := s.err.Load(); f == nil || f.seq != seq {
		if err := e.do(i); err != nil {
			s.fail(seq, err)
		}
	}
	returned = true
}

func (s *hubSlot) fail(seq uint64, err error) {
	if f := s.err.Load(); f == nil || f.seq != seq {
		s.err.Store(&hubError{seq, err}) // any of several
	}
}

// wakeHelpers makes those active that sleep in a call.
func (h *hub) wakeHelpers(me int, seq uint64) {
	for r := range h.size {
		q := h.place(r, seq)
		if r != me && q.state.CompareAndSwap(stateOf(seq, asleep), stateOf(seq, active)) {
			q.waiter.ch <- struct{}{}
		}
	}
}

// tellAll ends the collective for all that wait: the last piece is finished.
func (h *hub) tellAll(me int, seq uint64) {
	for r := range h.size {
		if q := h.place(r, seq); r != me && q.claim(seq) {
			h.finishFor(q, r, seq)
		}
	}
}
