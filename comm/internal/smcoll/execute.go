// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"sync"

	"weft/comm/internal/coll"
)

// executor does pieces of a large collective on the heap: it copies and combines from the buffers
// of some ranks to those of others.
type executor struct {
	st   *Segment
	seq  uint64
	call *coll.Call

	*coll.Pad
}

var executors = sync.Pool{New: func() any { return new(executor) }}

func (e *executor) release() {
	e.Pad.Release()
	*e = executor{}
	executors.Put(e)
}

func (e *executor) in(r int) []byte { return e.st.entry(r, e.seq).inMem }

func (e *executor) out(r int) []byte { return e.st.entry(r, e.seq).outMem }

// do does piece i.
func (e *executor) do(i int) error {
	d, n := e.call, e.st.size
	cuts, size := cuts(d, n), pieceSize(d, n)
	lo := i % cuts * size
	hi := min(lo+size, d.Unit)
	which := i / cuts
	switch d.Kind {
	case coll.Bcast:
		from := e.in(d.Root)[lo:hi]
		for r := range n {
			if r != d.Root {
				copy(e.out(r)[lo:hi], from)
			}
		}
	case coll.Gather:
		move(e.out(d.Root)[which*d.Unit+lo:which*d.Unit+hi], e.in(which)[lo:hi])
	case coll.Scatter:
		move(e.out(which)[lo:hi], e.in(d.Root)[which*d.Unit+lo:which*d.Unit+hi])
	case coll.Allgather:
		from := e.in(which)[lo:hi]
		for r := range n {
			move(e.out(r)[which*d.Unit+lo:which*d.Unit+hi], from)
		}
	case coll.Alltoall:
		e.swap(which, lo, hi)
	case coll.Reduce, coll.Allreduce:
		return e.reduce(lo, hi)
	case coll.Scan:
		return e.scan(lo, hi)
	}
	return nil
}

// move copies src to dst unless they are the same memory.
func move(dst, src []byte) {
	if len(src) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// swap exchanges the blocks of two ranks in an alltoall. The send buffer of a rank may be its
// receive buffer. Pairs of ranks are numbered (0,0), (0,1), (1,1), (0,2), …
func (e *executor) swap(pair, lo, hi int) {
	i, j := 0, 0
	for pair > j {
		pair -= j + 1
		j++
	}
	i = pair
	unit := e.call.Unit
	ij, ji := e.in(i)[j*unit+lo:j*unit+hi], e.in(j)[i*unit+lo:i*unit+hi]
	toI, toJ := e.out(i)[j*unit+lo:j*unit+hi], e.out(j)[i*unit+lo:i*unit+hi]
	if i == j {
		move(toI, ij)
		return
	}
	if len(ij) > 0 && &toI[0] == &ij[0] {
		kept := coll.Scratch(&e.Acc, hi-lo)
		copy(kept, ij)
		ij = kept
	}
	copy(toI, ji)
	copy(toJ, ij)
}

// reduce combines all ranks' elements and copies the result to the root, or to all ranks.
func (e *executor) reduce(lo, hi int) error {
	d, n := e.call, e.st.size
	t := coll.TreeOf(d, n)
	t.Leaf = func(r int) []byte { return e.in(r)[lo:hi] }
	acc := coll.Scratch(&e.Acc, hi-lo)
	if err := t.Eval(e.Pad, acc, 0, t.Width, 0); err != nil {
		return err
	}
	if d.Kind == coll.Reduce {
		copy(e.out(d.Root)[lo:hi], acc)
		return nil
	}
	for r := range n {
		copy(e.out(r)[lo:hi], acc)
	}
	return nil
}

// scan combines, for each rank, the elements of the ranks up to it. The order is that of a scan by
// messages.
func (e *executor) scan(lo, hi int) error {
	n := e.st.size
	for r := range n {
		move(e.out(r)[lo:hi], e.in(r)[lo:hi])
	}
	for d := 1; d < n; d *= 2 {
		for r := n - 1; r >= d; r-- {
			if err := e.call.Op.Apply(e.call.In.Over(e.out(r - d)[lo:hi]), e.call.In.Over(e.out(r)[lo:hi])); err != nil {
				return err
			}
		}
	}
	return nil
}
