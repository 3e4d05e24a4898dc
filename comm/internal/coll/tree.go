// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"sync"

	"weft/comm/internal/mem"
)

// maxDepth is the depth of the deepest tree of combinations: that of 2^31 ranks.
const maxDepth = 31

// Pad is working memory for combining. It comes from Pads.
type Pad struct {
	Acc    *mem.Block
	levels [maxDepth]*mem.Block
}

var Pads = sync.Pool{New: func() any { return new(Pad) }}

// Release frees the memory and returns the Pad to Pads.
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

// Scratch returns n bytes of the block *b. It replaces the block if that is too small or nil.
func Scratch(b **mem.Block, n int) []byte {
	if *b == nil || len((*b).B) < n {
		if *b != nil {
			(*b).Free()
		}
		*b = mem.NewBlock(n)
	}
	return (*b).B[:n]
}

// tree is the order in which a reduction combines: the same as by messages, so the results have the
// same bits.
type tree struct {
	op    *Operator
	like  mem.Buffer
	n     int
	Width int // a power of two that is not less than the number of leaves
	fold  int // leaves that are two ranks: the pairs of foldedRanks
	top   int // rank of leaf 0
	Leaf  func(r int) []byte
}

// TreeOf returns the order of a reduction of n ranks. The caller sets Leaf.
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

// single returns the memory of leaf v if it is one rank, nil if it is two. exists is false if the
// leaf has no rank.
func (t *tree) single(v int) (mem []byte, exists bool) {
	switch {
	case v < t.fold:
		return nil, true
	case v+t.fold >= t.n:
		return nil, false
	}
	return t.Leaf((v + t.fold + t.top) % t.n), true
}

// Eval sets dst to the combination of the leaves from lo up to hi. Their number is a power of two,
// and leaf lo exists.
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
	// The lower half is used in place, or is computed in working memory; the upper half in dst.
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
