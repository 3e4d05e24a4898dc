// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What collectives are called, with their operators, roots and elements.
func TestSignatureTexts(t *testing.T) {
	own := OpFunc(true, func(in, inout []int64) {})
	ints, none, wide, odd := Of([]int64{1}), Buffer{}, Of([]complex128{1}), Of([]cell{{}})
	for want, x := range map[string]struct {
		k    collKind
		op   Op
		root int
		b    Buffer
		unit int
	}{
		"barrier":                              {barrier, Op{}, -1, none, 0},
		"bcast (root 0) of 2 int64 (16 bytes)": {bcast, Op{}, 0, ints, 16},
		"bcast (root 0)":                       {bcast, Op{}, 0, ints, 0},
		"bcast (root 1) of 3 bytes":            {bcast, Op{}, 1, none, 3},
		"gather (root 16777214) of 1 complex128 (16 bytes)": {gather, Op{}, 1<<24 - 2, wide, 16},
		"reduce (sum, root 3) of 1 int64 (8 bytes)":         {reduce, Sum, 3, ints, 8},
		"reduce (min, root 0) of 1 int64 (8 bytes)":         {reduce, Min, 0, ints, 8},
		"allreduce (max) of 1 int64 (8 bytes)":              {allreduce, Max, -1, ints, 8},
		"scan (prod) of 2 int64 (16 bytes)":                 {scan, Prod, -1, ints, 16},
		"scan (user operator) of 2 int64 (16 bytes)":        {scan, own, -1, ints, 16},
		"allgather of 3 elements of 16 bytes (48 bytes)":    {allgather, Op{}, -1, odd, 48},
		"dup":           {dup, Op{}, -1, ints, 16}, // the elements are ours
		"create window": {window, Op{}, -1, ints, 16},
		"fence":         {fence, Op{}, -1, none, 0},
		"set info":      {setInfo, Op{}, -1, ints, 16},
		"shrink":        {shrink, Op{}, -1, none, 0},
		"no collective": {0, Op{}, -1, none, 0},
		"collective 20": {numColls, Op{}, -1, none, 0},
	} {
		s := newSignature(newCollective(x.k, x.op, x.root), elemOf(&x.b.b, &x.b.b), x.unit)
		require.Equal(t, want, s.String())
		require.Equal(t, x.k, s.what.kind())
		require.Equal(t, x.root, s.what.root(), want)
		require.Equal(t, x.op.impl != nil, s.what.reduces(), want)
		require.Equal(t, x.k == agree || x.k == shrink, s.what.votes(), want)
		require.Equal(t, s, signatureOf(s.append(nil)), want)
	}
	require.True(t, newCollective(agree, Op{}, -1).votes())
	for k := barrier; k < numColls; k++ {
		made := map[collKind]collKind{dup: allgather, split: allgather, window: allgather, allocate: allgather, attach: allgather, setInfo: allgather,
			fence: barrier, freeing: barrier}[k]
		if made == 0 {
			made = k
		}
		require.Equal(t, made, k.madeAs(), collNames[k])
	}
}

// Two signatures agree, with the same digest, unless one thing differs that ranks must agree on.
// Elements that are only moved may be bytes at one of two ranks.
func TestSignaturesAgree(t *testing.T) {
	ints, floats, bytes, none := Of([]int64{1}), Of([]float64{1}), Of([]byte{1}), Buffer{}
	sig := func(k collKind, op Op, root int, b Buffer, unit int) signature {
		return newSignature(newCollective(k, op, root), elemOf(&b.b, &b.b), unit)
	}
	moved := sig(bcast, Op{}, 1, ints, 16)
	summed := sig(reduce, Sum, 1, ints, 16)
	vote := sig(agree, Op{}, -1, none, 0)
	for what, x := range map[string]struct {
		a, b   signature
		agrees bool
		digest bool // is the same
	}{
		"the same":                  {moved, moved, true, true},
		"another history":           {moved, signature{moved.what | 1<<historyShift, moved.elem, moved.unit}, false, false},
		"bytes for integers":        {moved, sig(bcast, Op{}, 1, bytes, 16), true, true},
		"floats for integers":       {moved, sig(bcast, Op{}, 1, floats, 16), false, true},
		"other opaque elements":     {sig(bcast, Op{}, 1, Of([]cell{{}}), 48), sig(bcast, Op{}, 1, Of([][3]int64{{}}), 48), false, true},
		"another size":              {moved, sig(bcast, Op{}, 1, ints, 8), false, false},
		"another root":              {moved, sig(bcast, Op{}, 2, ints, 16), false, false},
		"another collective":        {moved, sig(scatter, Op{}, 1, ints, 16), false, false},
		"nothing of anything":       {sig(bcast, Op{}, 1, ints, 0), sig(bcast, Op{}, 1, floats, 0), true, true},
		"the same sum":              {summed, summed, true, true},
		"another operator":          {summed, sig(reduce, Max, 1, ints, 16), false, false},
		"a sum of bytes":            {summed, sig(reduce, Sum, 1, bytes, 16), false, false},
		"a sum of floats":           {summed, sig(reduce, Sum, 1, floats, 16), false, false},
		"agree and shrink":          {vote, sig(shrink, Op{}, -1, none, 0), true, false},
		"agree and a barrier":       {vote, sig(barrier, Op{}, -1, none, 0), false, false},
		"what it is made as":        {sig(fence, Op{}, -1, none, 0), sig(barrier, Op{}, -1, none, 0), false, false},
		"nothing, and another root": {sig(bcast, Op{}, 1, ints, 0), sig(bcast, Op{}, 2, ints, 0), false, false},
	} {
		require.Equal(t, x.agrees, x.a.agrees(x.b), what)
		require.Equal(t, x.agrees, x.b.agrees(x.a), what)
		if what != "another history" { // which is no part of what a history is made of
			require.Equal(t, x.digest, x.a.digest(7) == x.b.digest(7), what)
		}
	}
	require.NotEqual(t, moved.digest(7), moved.digest(8))
	require.NotEqual(t, summed.digest(moved.digest(7)), moved.digest(summed.digest(7)), "the order counts")
	require.EqualValues(t, 0, sig(bcast, Op{}, 1, ints, 0).elem)
	require.Equal(t, moved, newSignature(moved.what|0xffff<<historyShift, moved.elem, 16), "bits of a history are no part of it")

	// As far as the words say.
	require.True(t, moved.what.fits(sig(bcast, Op{}, 1, bytes, 99).what))
	require.False(t, moved.what.fits(sig(bcast, Op{}, 1, floats, 16).what))
	require.False(t, summed.what.fits(sig(reduce, Sum, 1, bytes, 16).what))
	require.False(t, moved.what.fits(moved.what|1<<historyShift))
	require.True(t, summed.what.fits(summed.what))
}

// A disagreement names the lower rank first, whichever of the two has seen it; says since when
// nobody is to wait for agreements; and is of ErrType too if nothing but the elements differ.
// Another process reads the same.
func TestDisagreementFrames(t *testing.T) {
	c := &Comm{rank: 2}
	elems := func(k collKind, b Buffer, unit int) signature {
		return newSignature(newCollective(k, Op{}, -1), elemOf(&b.b, &b.b), unit)
	}
	ints, floats := Of([]int64{1}), Of([]float64{1})
	for says, x := range map[string]struct {
		r            int
		theirs, mine signature
		from         uint64
		types        bool
	}{
		"number 5 of the communicator: rank 1 is in barrier, rank 2 is in dup": {1, elems(barrier, Buffer{}, 0), elems(dup, ints, 8), 0, false},
		"number 5 of the communicator: rank 2 is in dup, rank 3 is in barrier": {3, elems(barrier, Buffer{}, 0), elems(dup, ints, 8), 0, false},
		"rank 1 is in agree, rank 2 is in barrier":                             {1, elems(agree, Buffer{}, 0), elems(barrier, Buffer{}, 0), 5, false},
		"rank 1 is in barrier, rank 2 is in shrink":                            {1, elems(barrier, Buffer{}, 0), elems(shrink, Buffer{}, 0), 5, false},
		"allgather of 1 float64 (8 bytes), rank 2":                             {1, elems(allgather, floats, 8), elems(allgather, ints, 8), 0, true},
		"allgather of 2 float64 (16 bytes), rank 2":                            {1, elems(allgather, floats, 16), elems(allgather, ints, 8), 0, false},
		"alltoall of 1 float64 (8 bytes), rank 2":                              {1, elems(alltoall, floats, 8), elems(allgather, ints, 8), 0, false},
	} {
		d := newDisagreement(c, 5, x.r, x.theirs, x.mine)
		f := d.frame(6)
		again, err := disagreementOf(&f)
		require.NoError(t, err)
		for _, d := range []*disagreement{d, again} {
			require.ErrorIs(t, d.err, ErrMismatch)
			require.ErrorContains(t, d.err, says)
			require.Equal(t, x.from, d.from, says)
			require.Equal(t, x.types, errors.Is(d.err, ErrType), says)
			require.EqualValues(t, 5, d.number)
			require.Less(t, d.a, d.b)
		}
		require.Equal(t, d.err.Error(), again.err.Error())
		require.EqualValues(t, 6, f.Head[0])
	}
	d := &disagreement{err: fmt.Errorf("%w: not known which", ErrMismatch), from: 4}
	f := d.frame(6)
	again, err := disagreementOf(&f)
	require.NoError(t, err)
	require.ErrorIs(t, again.err, ErrMismatch)
	require.Equal(t, ErrMismatch.Error()+": not known which", again.err.Error())
	require.EqualValues(t, 4, again.from)

	long := f
	long.Data = make([]byte, maxReason)
	_, err = disagreementOf(&long)
	require.NoError(t, err)
	long.Data = make([]byte, maxReason+1)
	_, err = disagreementOf(&long)
	require.ErrorContains(t, err, "that ranks do not agree")
	f.Head[0]++ // no context of messages
	_, err = disagreementOf(&f)
	require.ErrorContains(t, err, "that ranks do not agree")
	for _, n := range []int{0, 2*signatureBytes - 1, 2*signatureBytes + 1} {
		f := newDisagreement(c, 5, 1, elems(barrier, Buffer{}, 0), elems(dup, ints, 8)).frame(6)
		f.Data = append(f.Data, 0)[:n]
		_, err = disagreementOf(&f)
		require.ErrorContains(t, err, "that ranks do not agree", n)
	}
}

// Answers are counted by rank; a lost rank gives none any more; and the wait ends once, with the
// last of them.
func TestAnswers(t *testing.T) {
	over := 0
	a := &answers{of: map[int]int{1: 2, 3: 1, 4: 5}, done: func(err error) {
		require.NoError(t, err)
		over++
	}}
	a.take(1)
	a.take(2) // who was not asked
	a.lose(4)
	a.lose(4)
	require.Equal(t, map[int]int{1: 1, 3: 1}, a.of)
	a.take(3)
	require.Zero(t, over)
	a.take(1)
	require.Equal(t, 1, over)
	a.take(1)
	a.lose(3)
	require.Equal(t, 1, over)
}
