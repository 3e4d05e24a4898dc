// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"sync"

	"weft/comm/internal/mem"
)

// maxDepth is the depth of the deepest tree of combinations: that of 2^31 ranks.
const maxDepth = 31

// Pad is working memory of combinations.
type Pad struct {
	Acc    *mem.Block
	levels [maxDepth]*mem.Block
}

var Pads = sync.Pool{New: func() any { return new(Pad) }}

func (e *Pad) Release() {
	if e.Acc != nil {
		e.Acc.Free()
	}
	for _, b := range e.levels {
		if b != nil {
			b.Free()
		}
	}
	*e = Pad{}
	Pads.Put(e)
}

func Scratch(b **mem.Block, n int) []byte {
	if *b == nil || len((*b).B) < n {
		if *b != nil {
			(*b).Free()
		}
		*b = mem.NewBlock(n)
	}
	return (*b).B[:n]
}

// tree is the order in which a reduction combines: the same, and so the same bits, as by messages.
type tree struct {
	op    *Operator
	like  mem.Buffer
	n     int
	Width int // a power of two that is not less than the number of leaves
	fold  int // leaves that are two ranks: those of allreduceDoubling, beyond a power of two
	top   int // rank of leaf 0
	Leaf  func(r int) []byte
}

func TreeOf(d *Call, n int) tree {
	t := tree{op: d.Op, like: d.In, n: n, Width: 1}
	for 2*t.Width <= n {
		t.Width *= 2
	}
	if d.Kind == Reduce {
		if t.Width < n {
			t.Width *= 2
		}
		if d.Op.Commutes() {
			t.top = d.Root
		}
		return t
	}
	t.fold = n - t.Width
	return t
}

// single returns the memory of a leaf that is one rank, nil if it is two. It does not exist if it
// has no rank.
func (t *tree) single(v int) (mem []byte, exists bool) {
	switch {
	case v < t.fold:
		return nil, true
	case v+t.fold >= t.n:
		return nil, false
	}
	return t.Leaf((v + t.fold + t.top) % t.n), true
}

// Eval leaves the combination of the leaves from lo up to hi, a power of two of them, in dst. Leaf
// lo exists.
func (t *tree) Eval(e *Pad, dst []byte, lo, hi, depth int) error {
	if hi-lo == 1 {
		if mem, _ := t.single(lo); mem != nil {
			copy(dst, mem)
			return nil
		}
		return t.op.combine(t.like.Over(dst), t.like.Over(t.Leaf(2*lo)), t.like.Over(t.Leaf(2*lo+1)))
	}
	mid := (lo + hi) / 2
	if _, exists := t.single(mid); !exists {
		return t.Eval(e, dst, lo, mid, depth)
	}
	// The lower half where it is, or in working memory; the upper half in dst.
	var lower, upper []byte
	if mid-lo == 1 {
		lower, _ = t.single(lo)
		upper, _ = t.single(mid)
	}
	if lower == nil {
		lower = Scratch(&e.levels[depth], len(dst))
		if err := t.Eval(e, lower, lo, mid, depth+1); err != nil {
			return err
		}
	}
	if upper != nil {
		return t.op.combine(t.like.Over(dst), t.like.Over(lower), t.like.Over(upper))
	}
	if err := t.Eval(e, dst, mid, hi, depth+1); err != nil {
		return err
	}
	return t.op.Apply(t.like.Over(lower), t.like.Over(dst))
}
