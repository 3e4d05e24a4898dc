// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm/internal/mem"
)

// Buffers that do not fit are refused.
func TestShapesAreChecked(t *testing.T) {
	b := func(n int) mem.Buffer { return mem.Of(make([]int64, n)) }
	require.NoError(t, checkShape(b(2), b(6), 3, "x"))
	require.NoError(t, checkShape(b(0), mem.Of([]byte{}), 3, "x"), "nothing of whatever kind")
	require.NoError(t, checkShape(mem.Buffer{}, mem.Buffer{}, 3, "x"))
	require.ErrorContains(t, checkShape(b(2), b(5), 3, "x"), "x of 5 elements, where 3 times 2 are needed")
	require.ErrorContains(t, checkShape(b(2), b(7), 3, "x"), "x of 7 elements")
	require.ErrorContains(t, checkShape(b(2), mem.Of(make([]uint64, 6)), 3, "x"), "message of int64 (8 bytes) where uint64 (8 bytes) is expected")
	require.ErrorContains(t, checkShape(mem.Of([]cell{{}}), mem.Of([][3]int64{{}}), 1, "x"), "(24 bytes)")
	require.ErrorIs(t, checkShape(b(1), mem.Of([]cell{{}}), 1, "x"), mem.ErrType)
	all := &Call{Kind: Alltoall, In: b(5), Out: b(5)}
	require.ErrorContains(t, all.Check(0, 3), "5 elements are not a multiple of 3 ranks")
}

// The root of a collective must be a rank.
func TestRootsAreChecked(t *testing.T) {
	for _, k := range []Kind{Bcast, Gather, Scatter, Reduce} {
		for root, good := range map[int]bool{-1: false, 0: true, 2: true, 3: false} {
			d := &Call{Kind: k, Op: Sum, Root: root, In: mem.Of([]int64{1, 2, 3}), Out: mem.Of([]int64{1, 2, 3})}
			switch {
			case k == Gather:
				d.Out = mem.Of(make([]int64, 9))
			case k == Scatter:
				d.In = mem.Of(make([]int64, 9))
			}
			err := d.Check(1, 3)
			require.Equal(t, good, err == nil, "%v %v", Names[k], err)
			if !good {
				require.ErrorIs(t, err, ErrRank)
			}
		}
	}
	require.ErrorContains(t, (&Call{Kind: Bcast, Root: 3}).Check(0, 3), "root 3; this communicator has ranks 0 to 2")
}

// Combining empty buffers of any kind does nothing.
func TestCombinationsOfNothing(t *testing.T) {
	called := NewOperator(mem.ElementOf[int64](), true, func(_, _ mem.Buffer) error {
		t.Error("called")
		return nil
	})
	for _, op := range []*Operator{Sum, Min, Max, Prod, called} {
		none := mem.Of([]int64{})
		require.NoError(t, op.combine(none, none, none))
		require.NoError(t, op.combine(mem.Buffer{}, mem.Buffer{}, mem.Buffer{}))
	}
}

// Strided buffers get working memory; contiguous ones are used in place.
func TestContiguousBuffers(t *testing.T) {
	x := new(Schedule)
	m := make([]int64, 10)
	for _, b := range []mem.Buffer{mem.Of(m), mem.Of(m[:1]), mem.Of(m[:0]), {}} {
		require.True(t, mem.SameMemory(b, x.contiguous(b)))
	}
	require.Empty(t, x.blocks)
	s := x.contiguous(mem.Vector(m, 5, 1, 2))
	require.False(t, mem.SameMemory(mem.Of(m), s))
	require.Equal(t, 5, s.Len())
	require.Len(t, x.blocks, 1)
	whole, ok := s.Contiguous()
	require.True(t, ok)
	require.Len(t, whole, 40)

	// move copies, unless the two are the same memory.
	mem.Copy(s, mem.Of([]int64{1, 2, 3, 4, 5}))
	x.move(mem.Vector(m, 5, 1, 2), s)
	require.Equal(t, []int64{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}, m)
	other := mem.Of([]int64{9, 9})
	x.move(other, other)
	over := new(ended)
	x.m = over
	x.finish()
	require.Empty(t, x.blocks)
	require.Equal(t, 1, over.n)
}

// ended is a member that counts the ends of its collective.
type ended struct {
	member
	n int
}

func (e *ended) Over(error) { e.n++ }
