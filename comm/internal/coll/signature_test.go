// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"testing"

	"weft/comm/internal/mem"

	"github.com/stretchr/testify/require"
)

type cell [2]int64

// The texts of collectives, with their operators, roots and elements.
func TestSignatureTexts(t *testing.T) {
	own := NewOperator(mem.ElementOf[int64](), true, func(in, inout mem.Buffer) error { return nil })
	ints, none, wide, odd := mem.Of([]int64{1}), mem.Buffer{}, mem.Of([]complex128{1}), mem.Of([]cell{{}})
	for want, x := range map[string]struct {
		k    Kind
		op   *Operator
		root int
		b    mem.Buffer
		unit int
	}{
		"barrier":                              {Barrier, nil, -1, none, 0},
		"bcast (root 0) of 2 int64 (16 bytes)": {Bcast, nil, 0, ints, 16},
		"bcast (root 0)":                       {Bcast, nil, 0, ints, 0},
		"bcast (root 1) of 3 bytes":            {Bcast, nil, 1, none, 3},
		"gather (root 16777214) of 1 complex128 (16 bytes)": {Gather, nil, 1<<24 - 2, wide, 16},
		"reduce (sum, root 3) of 1 int64 (8 bytes)":         {Reduce, Sum, 3, ints, 8},
		"reduce (min, root 0) of 1 int64 (8 bytes)":         {Reduce, Min, 0, ints, 8},
		"allreduce (max) of 1 int64 (8 bytes)":              {Allreduce, Max, -1, ints, 8},
		"scan (prod) of 2 int64 (16 bytes)":                 {Scan, Prod, -1, ints, 16},
		"scan (user operator) of 2 int64 (16 bytes)":        {Scan, own, -1, ints, 16},
		"allgather of 3 elements of 16 bytes (48 bytes)":    {Allgather, nil, -1, odd, 48},
		"dup":           {Dup, nil, -1, ints, 16}, // the elements are internal
		"create window": {Window, nil, -1, ints, 16},
		"fence":         {Fence, nil, -1, none, 0},
		"set info":      {SetInfo, nil, -1, ints, 16},
		"shrink":        {Shrink, nil, -1, none, 0},
		"no collective": {0, nil, -1, none, 0},
		"collective 20": {NumKinds, nil, -1, none, 0},
	} {
		s := NewSignature(NewCollective(x.k, x.op, x.root), (&Call{In: x.b, Out: x.b}).Elem(), x.unit)
		require.Equal(t, want, s.String())
		require.Equal(t, x.k, s.What.Kind())
		require.Equal(t, x.root, s.What.Root(), want)
		require.Equal(t, x.op != nil, s.What.Reduces(), want)
		require.Equal(t, x.k == Agree || x.k == Shrink, s.What.IsAgreement(), want)
		require.Equal(t, s, SignatureOf(s.Append(nil)), want)
	}
	require.True(t, NewCollective(Agree, nil, -1).IsAgreement())
	for k := Barrier; k < NumKinds; k++ {
		made := map[Kind]Kind{Dup: Allgather, Split: Allgather, Window: Allgather, Allocate: Allgather, Attach: Allgather, SetInfo: Allgather,
			Fence: Barrier, Freeing: Barrier}[k]
		if made == 0 {
			made = k
		}
		require.Equal(t, made, k.MadeAs(), Names[k])
	}
}

// Two signatures agree, with the same digest, unless they differ in something on which ranks must
// agree. Elements that are only moved may be bytes at one of two ranks.
func TestSignaturesAgree(t *testing.T) {
	ints, floats, bytes, none := mem.Of([]int64{1}), mem.Of([]float64{1}), mem.Of([]byte{1}), mem.Buffer{}
	sig := func(k Kind, op *Operator, root int, b mem.Buffer, unit int) Signature {
		return NewSignature(NewCollective(k, op, root), (&Call{In: b, Out: b}).Elem(), unit)
	}
	moved := sig(Bcast, nil, 1, ints, 16)
	summed := sig(Reduce, Sum, 1, ints, 16)
	agreement := sig(Agree, nil, -1, none, 0)
	for what, x := range map[string]struct {
		a, b   Signature
		agrees bool
		digest bool // is the same
	}{
		"the same":                  {moved, moved, true, true},
		"another history":           {moved, Signature{moved.What | 1<<HistoryShift, moved.Elem, moved.Unit}, false, false},
		"bytes for integers":        {moved, sig(Bcast, nil, 1, bytes, 16), true, true},
		"floats for integers":       {moved, sig(Bcast, nil, 1, floats, 16), false, true},
		"other opaque elements":     {sig(Bcast, nil, 1, mem.Of([]cell{{}}), 48), sig(Bcast, nil, 1, mem.Of([][3]int64{{}}), 48), false, true},
		"another size":              {moved, sig(Bcast, nil, 1, ints, 8), false, false},
		"another root":              {moved, sig(Bcast, nil, 2, ints, 16), false, false},
		"another collective":        {moved, sig(Scatter, nil, 1, ints, 16), false, false},
		"nothing of anything":       {sig(Bcast, nil, 1, ints, 0), sig(Bcast, nil, 1, floats, 0), true, true},
		"the same sum":              {summed, summed, true, true},
		"another operator":          {summed, sig(Reduce, Max, 1, ints, 16), false, false},
		"a sum of bytes":            {summed, sig(Reduce, Sum, 1, bytes, 16), false, false},
		"a sum of floats":           {summed, sig(Reduce, Sum, 1, floats, 16), false, false},
		"agree and shrink":          {agreement, sig(Shrink, nil, -1, none, 0), true, false},
		"agree and a barrier":       {agreement, sig(Barrier, nil, -1, none, 0), false, false},
		"what it is made as":        {sig(Fence, nil, -1, none, 0), sig(Barrier, nil, -1, none, 0), false, false},
		"nothing, and another root": {sig(Bcast, nil, 1, ints, 0), sig(Bcast, nil, 2, ints, 0), false, false},
	} {
		require.Equal(t, x.agrees, x.a.Agrees(x.b), what)
		require.Equal(t, x.agrees, x.b.Agrees(x.a), what)
		if what != "another history" { // Digest leaves out the bits of the history
			require.Equal(t, x.digest, x.a.Digest(7) == x.b.Digest(7), what)
		}
	}
	require.NotEqual(t, moved.Digest(7), moved.Digest(8))
	require.NotEqual(t, summed.Digest(moved.Digest(7)), moved.Digest(summed.Digest(7)), "the order counts")
	require.EqualValues(t, 0, sig(Bcast, nil, 1, ints, 0).Elem)
	require.Equal(t, moved, NewSignature(moved.What|0xffff<<HistoryShift, moved.Elem, 16), "bits of a history are no part of it")

	// Fits compares only the words.
	require.True(t, moved.What.Fits(sig(Bcast, nil, 1, bytes, 99).What))
	require.False(t, moved.What.Fits(sig(Bcast, nil, 1, floats, 16).What))
	require.False(t, summed.What.Fits(sig(Reduce, Sum, 1, bytes, 16).What))
	require.False(t, moved.What.Fits(moved.What|1<<HistoryShift))
	require.True(t, summed.What.Fits(summed.What))
}
