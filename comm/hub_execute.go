// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math/bits"
	"runtime"
	"sync"

	"weft/comm/internal/coll"
)

// executor does pieces of a large collective: copies and combinations from memory to memory. How the memory of another rank
// is reached is memory's affair.
type executor struct {
	hub  *hub
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

func (e *executor) in(r int) []byte  { return e.hub.place(r, e.seq).inMem }
func (e *executor) out(r int) []byte { return e.hub.place(r, e.seq).outMem }

// do does piece i.
func (e *executor) do(i int) error {
	d, n := e.call, e.hub.size
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

// move copies, unless it is there already.
func move(dst, src []byte) {
	if len(src) > 0 && &dst[0] != &src[0] {
		copy(dst, src)
	}
}

// swap does what two ranks send each other in an alltoall, which may be the same memory as what they receive. Pairs are counted
// (0,0), (0,1), (1,1), (0,2), …
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

// reduce combines all ranks' elements and gives the result to whom it belongs.
func (e *executor) reduce(lo, hi int) error {
	d, n := e.call, e.hub.size
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

// scan gives each rank what the ranks up to it come to, in the order of a scan by messages.
func (e *executor) scan(lo, hi int) error {
	n := e.hub.size
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

// watchFlat and watchLarge are how often a caller looks before it sleeps: about as long as it takes to be woken at another processor; while
// others copy for us, a little less. Guesses.
const (
	watchFlat   = 10000
	watchParted = 20000 // for one that has to be woken first
	watchLarge  = 8000
	longFound   = 1000    // so many looks that found, one after the other, are a state that lasts
	seldom      = 1 << 12 // wakes between two tries to be at two processors, at most
	yields      = 20      // where processors are scarce, others are let run instead
)

// watch looks for a while whether it goes on.
func (h *hub) watch(d *coll.Call, me int, seq uint64) bool {
	if h.procs < h.size {
		for range yields {
			runtime.Gosched()
			if h.ready(d, me, seq) {
				return true
			}
		}
		return false
	}
	r := &h.ranks[me]
	if r.woke.Load() && !h.part(r, seq) {
		return false
	}
	n := watchFlat
	switch {
	case d.Large:
		n = watchLarge
	case h.parted.Load() >= seq:
		n = watchParted
	}
	for range n {
		if h.ready(d, me, seq) {
			if n := r.found.Load() + 1; n < longFound {
				r.found.Store(n)
			} else if r.wakes.Load() != 0 {
				r.wakes.Store(0)
			}
			return true
		}
	}
	r.found.Store(0)
	return false
}

// part is called for a rank that has just woken a caller, and reports whether the rank looks all the same. That caller is not running yet, but next in line
// at the rank's own processor: it goes on when the rank sleeps, at once, and to look would only keep it from that, until another processor comes to take
// it, which takes longer. So two ranks can go on for ever at one processor, each waking the other. Now and then the rank steps back into the line of
// all processors, for another one to take it, while the one that it has woken looks in the collective after this: from then on both look, and nobody is woken.
// If none comes, or what the two have then does not last, that has cost what a look takes; so it is tried more and more seldom, until it lasts.
func (h *hub) part(r *hubRank, seq uint64) bool {
	r.woke.Store(false)
	n := r.wakes.Add(1)
	if again := n&(n-1) == 0 && bits.TrailingZeros32(n)%3 == 0; !again && n%seldom != 0 {
		return false // it is not 1, 8, 64, …
	}
	h.parted.Store(seq + 1)
	runtime.Gosched()
	return true
}
