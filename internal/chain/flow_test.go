// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A Flow is empty when nothing is ready and nothing is free.
func TestFlowIsEmpty(t *testing.T) {
	var a, b Node
	for _, c := range []struct{ ready, free int }{{0, 0}, {1, 0}, {0, 1}, {1, 1}, {2, 1}} {
		var f Flow
		for range c.ready {
			f.MakeReady(&a)
		}
		for range c.free {
			f.free.push(&b)
		}
		for range c.ready {
			require.False(t, f.Empty(), "%v", c)
			require.Same(t, &a, f.NextReady())
		}
		for range c.free {
			require.False(t, f.Empty(), "%v", c)
			require.Same(t, &b, f.NextFree())
		}
		require.True(t, f.Empty(), "%v", c)
		require.Nil(t, f.NextReady())
		require.Nil(t, f.NextFree())
	}
}

// Shrink gives up the memory of long lists, and that of no others.
func TestFlowShrinks(t *testing.T) {
	const most = 1024
	for size, kept := range map[int]bool{1: true, most - 1: true, most: true, most + 1: false, 10 * most: false} {
		f := Flow{work: make([]step, 0, size), msgs: make([]message, 0, size), outs: make([]out, 0, size)}
		f.ready.nodes, f.free.nodes = make([]*Node, 0, size), make([]*Node, 0, size)
		f.Shrink()
		for _, list := range []int{cap(f.work), cap(f.msgs), cap(f.outs), cap(f.ready.nodes), cap(f.free.nodes)} {
			require.Equal(t, kept, list == size, "%d elements", size)
			require.Equal(t, kept, list != 0)
		}
	}
	var used [1]*Node
	require.Len(t, shrunk(append(make([]*Node, 0, 2*most), used[:]...)), 1, "what is in use stays")
}

// Access.Memory returns the bytes of the object, whatever its size.
func TestMemoryOfAccess(t *testing.T) {
	var x [3]int32
	at := uintptr(unsafe.Pointer(&x))
	for _, c := range []struct {
		a      Access
		lo, hi uintptr
		slice  bool
	}{
		{In(&x), at, at + 12, false}, {In(&x[1]).Weak(), at + 4, at + 8, false},
		{Slice(x[1:]).Out(), at + 4, at + 12, true}, {Slice(x[:0]).Out(), 0, 0, true}, {Slice([]int(nil)).In(), 0, 0, true}, {Access{}, 0, 0, false},
		{NewReduction(&x[2], Sum[int32]()).InOut(), at + 8, at + 12, false},
	} {
		lo, hi, slice := c.a.Memory()
		require.Equal(t, []any{c.lo, c.hi, c.slice}, []any{lo, hi, slice}, "%v", c.a)
	}
	for _, size := range []uintptr{0, 1, 1<<32 - 1, 1 << 32, 1<<47 - 1} {
		require.Equal(t, size, Range{object(unsafe.Pointer(&x)), size}.Commutative().size())
	}
	modes := []Mode{ModeIn, ModeOut, ModeInOut, ModeConcurrent, ModeReduce, ModeCommutative}
	for _, m := range modes {
		for _, n := range modes {
			want := ModeInOut
			if m == n && m != ModeOut {
				want = m
			}
			require.Equal(t, want, m.Both(n))
		}
	}
}

// Accesses meet by their objects, or by their bytes if one is a range.
func TestMeets(t *testing.T) {
	var x [4]byte
	first := (*[2]byte)(x[:2])
	r := NewReduction(&x[1], Sum[byte]())
	for _, c := range []struct {
		a, b Access
		want bool
	}{
		{In(&x), In(&x[0]), true}, {In(&x), In(&x[1]), false}, {In(first), In(&x[1]), false}, {r.Access(), In(&x[1]), true}, {r.Access(), In(&x[0]), false},
		{Slice(x[1:2]).In(), In(&x), true}, {Slice(x[1:2]).In(), In(first), true}, {Slice(x[2:3]).In(), In(first), false},
		{Slice(x[:1]).In(), Slice(x[1:]).In(), false}, {Slice(x[:2]).In(), Slice(x[1:]).In(), true}, {Slice(x[1:1]).In(), In(&x), false}, {Slice(x[:]).In(), r.Access(), true},
	} {
		require.Equal(t, c.want, c.a.Meets(c.b), "%v, %v", c.a, c.b)
		require.Equal(t, c.want, c.b.Meets(c.a), "%v, %v", c.b, c.a)
	}
}

// After releases in random order, the index by which they were found goes to the table cache.
func TestIndexIsCached(t *testing.T) {
	for n, large := range map[int]bool{scanMax + 1: false, domainMax/4 - 1: false, domainMax / 4: true, domainMax: true} {
		x := make([]int, n)
		var f Flow
		var root, node Node
		var list []Access
		for i := range x {
			list = append(list, InOut(&x[i]))
		}
		require.True(t, root.Register(&node, list, &f))
		for _, i := range []int{n - 1, n - 2, 0, 1, 2} {
			require.NoError(t, node.Release(list[i], &f))
			require.True(t, node.dom.own == nil, "those at the ends, and beside the last, need no table")
		}
		require.NoError(t, node.Release(list[n/2], &f))
		size := len(node.dom.own.tab)
		takeCached(size)
		node.Finish(&f)
		require.True(t, node.dom.own == nil)
		require.Equal(t, large, takeCached(size) != nil, "%d accesses", n)
	}
}

// Release of a task with children uses the table of their domain, and makes no other.
func TestReleaseByTheDomainOfChildren(t *testing.T) {
	var x [scanMax + 5]int
	var f Flow
	var root, node, child Node
	var list []Access
	for i := range x {
		list = append(list, InOut(&x[i]))
	}
	require.True(t, root.Register(&node, list, &f))
	require.True(t, node.Register(&child, list[3:4], &f))
	require.NoError(t, node.Release(list[len(list)/2], &f))
	require.True(t, node.dom.own == nil)
	require.ErrorContains(t, node.Release(list[len(list)/2], &f), "has given it up before")
}

// An access that has sent its last token, while an earlier message may still be under way, keeps no
// other task's memory, though its own task is not over.
func TestLastTokenCutsTheLink(t *testing.T) {
	var x, y int
	var f Flow
	var root, reader, writer, weak, next Node
	root.Register(&reader, []Access{In(&x)}, &f)
	root.Register(&writer, []Access{InOut(&y)}, &f)
	root.Register(&weak, []Access{In(&x).Weak(), InOut(&y).Weak()}, &f)
	require.False(t, root.Register(&next, []Access{InOut(&x)}, &f))
	weak.Finish(&f) // it passes the read token on
	require.True(t, weak.at(0).succLate() == next.at(0))
	reader.Finish(&f)
	require.True(t, f.NextReady() == &next)
	require.Nil(t, weak.at(0).succLate())
	for _, n := range []*Node{&next, &writer} {
		n.Finish(&f)
	}
	require.Nil(t, f.NextReady())
}
