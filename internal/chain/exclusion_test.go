// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Objects are spread over all shards except that of ranges, and within a shard over its hash
// chains. A shard keeps a bounded amount of memory when nothing is held.
func TestResources(t *testing.T) {
	var e exclusion
	mem := make([]int64, 120_000)
	var here []object // in one shard
	var in [shardCount]int
	for i := range mem {
		key := object(unsafe.Pointer(&mem[i]))
		s := shardOf(key)
		if in[s]++; s == 7 {
			here = append(here, key)
		}
	}
	for s, n := range in {
		require.Equal(t, s != byteShard, n > 0, "shard %d", s)
	}
	s := &e.shards[7]
	for _, n := range []int{1, 100, shardKept, shardKept, shardKept + 1, shardKept + 20, 3} {
		before := s.nfree
		claims := map[object]*resource{}
		for i, key := range here[:n] {
			require.Nil(t, e.find(key))
			c := e.findOrAdd(key)
			require.Same(t, c, e.findOrAdd(key))
			claims[key] = c
			require.Equal(t, i+1, s.n)
			require.Equal(t, max(0, before-i-1), s.nfree, "records are used again")
		}
		longest := 0
		for _, c := range s.tab {
			k := 0
			for ; c != nil; c = c.next {
				k++
			}
			longest = max(longest, k)
		}
		require.Less(t, longest, 12)
		for key, c := range claims {
			require.Same(t, c, e.find(key))
			e.remove(c)
			require.Nil(t, e.find(key))
			require.Nil(t, c.key, "an object is kept alive")
		}
		free := 0
		for c := s.free; c != nil; c = c.next {
			free++
		}
		require.Equal(t, free, s.nfree)
		require.LessOrEqual(t, free, shardKept)
		require.Equal(t, min(max(before, n), shardKept), free)
		require.Equal(t, n <= shardKept, s.tab != nil, "%d objects", n)
	}
}

// When a piece is cut, both parts have its holder, also if there are many pieces.
func TestPiecesAreCut(t *testing.T) {
	var e exclusion
	nodes := make([]Node, 150)
	for i := range nodes {
		at := uintptr(10*i + 10)
		e.cutOut(extent{at, at + 8})
		e.each(extent{at, at + 8}, func(c *resource) { c.take(&nodes[i]) })
	}
	for i := range nodes {
		at := uintptr(10 * (len(nodes) - i)) // in descending order, so that full arrays are cut
		e.cutAt(at)
		e.cutAt(at + 4)
		e.cutAt(at + 8)
		e.cutAt(at + 9)
	}
	require.Equal(t, 2*len(nodes), e.bytes.n)
	for i := range nodes {
		at := uintptr(10*i + 10)
		first, second := e.piece(at), e.piece(at+4)
		require.NotSame(t, first, second)
		require.True(t, first.holder == &nodes[i] && second.holder == &nodes[i], "piece %d", i)
		require.Same(t, first, e.piece(at+3))
		require.Same(t, second, e.piece(at+7))
		require.Nil(t, e.piece(at+8))
	}
	require.Nil(t, e.piece(9))
	require.Nil(t, e.piece(1<<40))
}

// Adjacent bytes that one node gives back are noted as one range.
func TestDroppedBytes(t *testing.T) {
	var a, b Node
	var l locks
	for _, d := range []byteDrop{{&a, extent{0, 4}}, {&a, extent{4, 8}}, {&b, extent{8, 12}}, {&b, extent{12, 13}}, {&b, extent{14, 15}}, {&a, extent{15, 16}}} {
		l.dropBytes(d.lo, d.hi, d.owner)
	}
	require.Equal(t, []byteDrop{{&a, extent{0, 8}}, {&b, extent{8, 13}}, {&b, extent{14, 15}}, {&a, extent{15, 16}}}, l.bytes)
}

// When a waiter has its objects, neither the waiter nor the objects keep references to each other,
// however many there are.
func TestWaitersAreLeftEmpty(t *testing.T) {
	for _, k := range []int{1, 4, 5, 9} {
		var f Flow
		var roots [2]Node
		var a, b Node
		x := make([]int, k)
		var list []Access
		for i := range x {
			list = append(list, Commutative(&x[i]))
		}
		require.True(t, roots[0].Register(&a, list, &f) && a.Acquire(&f))
		require.True(t, roots[1].Register(&b, list, &f) && !b.Acquire(&f))
		var claims []*resource
		for i := range x {
			c := exclusions.find(object(unsafe.Pointer(&x[i])))
			claims = append(claims, c)
			require.Equal(t, i == 0, c.watchers == 1, "the first is watched")
			require.Same(t, c.first, c.last)
		}
		w := claims[0].first.w
		require.Same(t, &b, w.node)
		require.Equal(t, k > len(w.few), w.more != nil)
		a.Finish(&f)
		require.Same(t, &b, f.NextReady())
		require.True(t, w.node == nil && w.watch == nil && w.more == nil)
		require.Equal(t, [len(w.few)]queueEntry{}, w.few)
		for _, c := range claims {
			require.True(t, c.holder == &b && c.watchers == 0 && c.first == nil && c.last == nil && c.clean == nil)
		}
		b.Finish(&f)
		require.Empty(t, f.locks.dropped)
		for _, d := range f.locks.dropped[:cap(f.locks.dropped)] {
			require.Equal(t, drop{}, d)
		}
		for _, key := range f.locks.keys[:cap(f.locks.keys)] {
			require.Nil(t, key)
		}
		require.Zero(t, Resources())
	}
}

// A task that gives back memory which it does not hold is detected, and the table can be used
// afterwards.
func TestBytesOfNobody(t *testing.T) {
	x := make([]byte, 8)
	at := uintptr(unsafe.Pointer(&x[0]))
	var root, other, a, b Node
	require.True(t, root.Register(&a, []Access{Slice(x[2:6]).Commutative()}, new(Flow)))
	require.PanicsWithValue(t, fmt.Sprintf("deps: memory from %#x to %#x is given back by a node that does not hold it: it was started without Acquire", at+2, at+6),
		func() { a.Finish(new(Flow)) })
	var f Flow
	require.True(t, other.Register(&b, []Access{Slice(x).Commutative()}, &f) && b.Acquire(&f))
	var c, d Node
	require.True(t, new(Node).Register(&c, []Access{Slice(x[2:6]).Commutative()}, new(Flow)))
	require.Panics(t, func() { c.Finish(new(Flow)) }, "another task has it")
	require.True(t, new(Node).Register(&d, []Access{Slice(x[:1]).Commutative()}, &f) && !d.Acquire(&f))
	b.Finish(&f)
	require.Same(t, &d, f.NextReady())
	d.Finish(&f)
	require.Empty(t, f.locks.bytes)
	for _, b := range f.locks.bytes[:cap(f.locks.bytes)] {
		require.Nil(t, b.owner)
	}
	require.Zero(t, Resources())
}

// Holds is true for the holder and for the tasks below it.
func TestWhoHolds(t *testing.T) {
	var f Flow
	var x, y [8]byte
	type want struct{ x, part, y, any bool }
	check := func(n *Node, w want) {
		t.Helper()
		require.Equal(t, w, want{n.Holds(InOut(&x)), n.Holds(Slice(x[2:4]).In()), n.Holds(In(&y)), n.HoldsAny()})
	}
	spawn := func(p *Node, exclusive bool, list ...Access) *Node {
		t.Helper()
		n := new(Node)
		require.True(t, p.Register(n, list, &f))
		require.Equal(t, exclusive, n.Exclusive())
		require.Equal(t, exclusive, n.Commutes())
		if exclusive {
			require.True(t, n.Acquire(&f))
			require.True(t, n.Commutes() && !n.Exclusive())
		}
		return n
	}
	check(new(Node), want{})
	plain := spawn(new(Node), false, InOut(&x))
	check(plain, want{})

	objects := spawn(new(Node), true, Commutative(&x), InOut(&y))
	check(objects, want{x: true, any: true})
	below := spawn(objects, false, Commutative(&x))
	check(below, want{x: true, any: true})
	below.Finish(&f)
	writer := spawn(objects, false, InOut(&x))
	check(writer, want{x: true, any: true})
	part := spawn(writer, false, Slice(x[2:4]).Commutative()) // a domain of ranges below it
	check(part, want{x: true, part: true, any: true})
	check(writer, want{x: true, any: true}) // it has declared the object, and no range
	part.Finish(&f)
	whole := spawn(writer, false, Commutative(&x))
	check(whole, want{x: true, part: true, any: true})
	whole.Finish(&f)
	writer.Finish(&f)
	objects.Finish(&f)
	require.Zero(t, Resources())

	said := Commutative(&x).Held() // by the runtime
	require.Equal(t, ModeCommutative, said.Mode())
	alone := spawn(new(Node), false, said)
	check(alone, want{x: true, any: true})
	alone.Finish(&f)

	root := new(Node)
	ranges := spawn(root, true, Slice(x[3:5]).Commutative(), InOut(&y))
	check(ranges, want{x: true, part: true, any: true})
	deep := spawn(ranges, false, Slice(x[3:4]).Commutative())
	check(deep, want{x: true, part: true, any: true})
	deep.Finish(&f)
	ranges.Finish(&f)
	strange := spawn(root, false, Slice(x[:]).InOut())
	check(strange, want{})
	strange.Finish(&f)
	require.Zero(t, Resources())
}
