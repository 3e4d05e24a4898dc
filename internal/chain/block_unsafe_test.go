// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// The fields that other tasks write as tokens pass are in one cache line of a node, and the links
// in another.
func TestNodeLines(t *testing.T) {
	const line = 64
	var n Node
	require.Equal(t, uintptr(8), unsafe.Sizeof(access{}))
	for _, at := range []uintptr{unsafe.Offsetof(n.accs), unsafe.Offsetof(n.pending), unsafe.Offsetof(n.refs), unsafe.Offsetof(n.rested), unsafe.Offsetof(n.count), unsafe.Offsetof(n.Flags), unsafe.Offsetof(n.Parent)} {
		require.Less(t, at, uintptr(line))
	}
	require.Equal(t, uintptr(line), unsafe.Offsetof(n.succs))
	require.LessOrEqual(t, unsafe.Offsetof(n.succs)+unsafe.Sizeof(n.succs), uintptr(2*line))
	require.Equal(t, uintptr(2*line), unsafe.Offsetof(n.objs))
	require.Equal(t, uintptr(3*line), unsafe.Sizeof(accessBlock{}))

	// The sizes of a waiter and a resource.
	var w waiter
	require.Equal(t, uintptr(3*line), unsafe.Sizeof(w))
	require.Equal(t, uintptr(line), unsafe.Offsetof(w.few))
	require.Equal(t, uintptr(line), unsafe.Sizeof(resource{}))
}

// Each access of a node has its own state, succ and ref, however many accesses there are.
func TestPositions(t *testing.T) {
	const most = 3*blockLen + 1
	var other Node
	for _, k := range []int{1, blockLen, blockLen + 1, 2*blockLen - 1, 2 * blockLen, 2*blockLen + 1, most} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			var n Node
			things := make([]byte, most)
			n.reserve(k)
			n.count = int32(k)
			for i := range n.count {
				a := n.at(i)
				a.put(i, uint32(i)*0x4001)
				a.released = i%2 == 0
				a.state.Init(uint32(i))
				a.setSucc(n.at(n.count - 1 - i))
				a.setRef(object(unsafe.Pointer(&things[i])))
			}
			for i := range n.count {
				a := n.at(i)
				require.Same(t, &n, a.owner())
				require.True(t, n.has(a))
				require.False(t, other.has(a))
				require.Equal(t, uint32(i)*0x4001, a.small())
				require.Equal(t, i%2 == 0, a.released)
				require.Equal(t, uint32(i), a.state.Load())
				require.Same(t, n.at(n.count-1-i), a.succ())
				require.Equal(t, object(unsafe.Pointer(&things[i])), a.ref())
				a.setSmall(bigSize)
				require.Same(t, &n, a.owner())
				require.EqualValues(t, bigSize, a.small())
			}
			require.False(t, n.has(other.at(0)))
			require.Zero(t, n.pending.Load()+n.refs.Load()+int32(n.rested), "what lies between belongs to the node")
			require.True(t, n.dom == nil && n.Parent == nil)
		})
	}
	var b bridge
	b.access().pos = inExtraBlock
	require.Nil(t, b.access().owner())
}

// A node keeps the memory of its accesses for the next task, unless there are many.
func TestMemoryOfAccesses(t *testing.T) {
	var n Node
	n.reserve(blockLen)
	require.Nil(t, n.more, "the first ones are the node's own")
	n.reserve(maxKept)
	n.count = maxKept
	first := n.at(blockLen)
	n.trim()
	n.reserve(blockLen + 1)
	require.Same(t, first, n.at(blockLen))
	n.reserve(maxKept + 2*blockLen)
	n.count = maxKept + 2*blockLen
	n.trim()
	require.Nil(t, n.more)
	n.trim()
}

// A node whose accesses come to rest during Finish is free once, however many there are: Finish
// counts only some of them itself.
func TestManyAccessesRest(t *testing.T) {
	for _, k := range []int{1, maxRested - 1, maxRested, maxRested + 1, 3*maxRested + 1} {
		for _, later := range []int{0, 1, k / 2, k} {
			// number of accesses that get a successor after Finish
			t.Run(fmt.Sprintf("%d, %d later", k, later), func(t *testing.T) {
				var f Flow
				p, n, before, after := new(Node), new(Node), new(Node), new(Node)
				accs := eachOf(make([]int, k))
				require.True(t, p.Register(n, accs, &f))
				p.Register(before, accs[later:], &f)
				n.Finish(&f)
				require.EqualValues(t, min(k-later, maxRested), n.rested)
				require.Equal(t, later == 0, n.Retire())
				require.Nil(t, f.NextFree())
				if later > 0 {
					require.True(t, p.Register(after, accs[:later], &f))
					require.Same(t, n, f.NextFree())
					require.Nil(t, f.NextFree())
				}
			})
		}
	}
}

// A queue that is never empty stays as large as what is in it, and gives out everything in order.
func TestQueue(t *testing.T) {
	var q queue
	require.Nil(t, q.pop())
	nodes := make([]Node, 10_000)
	in, out := 0, 0
	for ; in < 5; in++ {
		q.push(&nodes[in])
	}
	for ; in < len(nodes); in++ {
		q.push(&nodes[in])
		require.Same(t, &nodes[out], q.pop())
		out++
		require.LessOrEqual(t, cap(q.nodes), 32)
	}
	for ; out < len(nodes); out++ {
		require.Same(t, &nodes[out], q.pop())
	}
	require.Nil(t, q.pop())
	for _, n := range q.nodes[:cap(q.nodes)] {
		require.Nil(t, n, "it keeps nothing alive")
	}
}

// A size that fits is stored exactly; any other is found in the domain.
func TestSizesInUnits(t *testing.T) {
	var n Node
	a := n.at(3)
	check := func(size uint32) {
		if size == bigSize || !fits(size) {
			if fits(size) {
				t.Fatalf("%d bytes fit", size)
			}
			return
		}
		a.put(3, size)
		if a.small() != size || a.owner() != &n {
			t.Fatalf("%d bytes are %d", size, a.small())
		}
		a.setSmall(size)
		if a.small() != size || a.owner() != &n {
			t.Fatalf("%d bytes are %d", size, a.small())
		}
	}
	for size := range uint32(inUnits + 2*sizeUnit) {
		check(size)
		require.Equal(t, size < inUnits || size%sizeUnit == 0, fits(size), size)
	}
	for size := uint32(inUnits + sizeUnit); size <= bigSize+sizeUnit; size += sizeUnit {
		for d := range uint32(3) {
			check(size + d - 1)
		}
		if fits(size+1) || fits(size-1) || fits(size) != (size < bigSize-sizeUnit) {
			t.Fatalf("around %d bytes", size)
		}
	}
	a.setSmall(bigSize)
	require.EqualValues(t, bigSize, a.small())
}

// The chain is as long as the largest of the variables that it names.
func TestSizesOfChain(t *testing.T) {
	for _, x := range []uint32{1, 7, 1 << 16, inUnits - 1, inUnits, bigSize} {
		for _, y := range []uint32{1, 7, 7 + 1<<16, 1 << 16, inUnits - 1, inUnits, bigSize} {
			var n Node
			a, b := n.at(0), n.at(1)
			a.put(0, x)
			b.put(1, y)
			b.inherit(a)
			require.Equal(t, max(x, y), b.small())
			require.Equal(t, x, a.small())
			require.Same(t, &n, b.owner())
			a.cover(Range{size: uintptr(y)}.In())
			require.Equal(t, max(x, y), a.small())
		}
	}
	var n Node
	a := n.at(0)
	for _, size := range []uintptr{bigSize - sizeUnit, bigSize, 1 << 40, inUnits + 1} {
		a.put(0, 1)
		a.cover(Range{size: size}.In())
		require.EqualValues(t, bigSize, a.small(), "%d bytes", size)
	}
}

// notedMemory keeps its address, since notes go by addresses.
var notedMemory [200]byte

// There are notes only for large objects in the table, unless there are few notes.
func TestNotesOfSizes(t *testing.T) {
	mem := &notedMemory
	var f Flow
	d := new(domain)
	d.alloc(domainMin)
	large := func(i int, size uintptr) Access {
		a := Range{object(unsafe.Pointer(&mem[i])), size}.In()
		a.sizeHi &^= isSlice
		return a
	}
	for i := range 32 {
		d.slot(uintptr(unsafe.Pointer(&mem[i])), &f).last = new(access)
		d.remember(large(i, uintptr(i)+1<<24))
	}
	d.remember(large(3, 5))
	for i := 32; i < 64; i++ { // not in the table any more
		d.remember(large(i, 1<<24))
	}
	require.Len(t, d.big, 64)
	d.remember(large(64, 1<<30))
	require.Len(t, d.big, 33)
	a := new(access)
	a.setSmall(bigSize)
	for i := range 32 {
		require.Equal(t, uintptr(i)+1<<24, d.sizeOf(a, uintptr(unsafe.Pointer(&mem[i]))))
	}
	require.Equal(t, uintptr(1<<30), d.sizeOf(a, uintptr(unsafe.Pointer(&mem[64]))))
	a.setSmall(9)
	require.Equal(t, uintptr(9), d.sizeOf(a, uintptr(unsafe.Pointer(&mem[0]))))
}

// Copies do not share a cache line with anything.
func TestCopiesApart(t *testing.T) {
	const line = 64
	apart := func(p, q unsafe.Pointer) uintptr {
		return max(uintptr(p), uintptr(q)) - min(uintptr(p), uintptr(q))
	}
	var b byte
	s := make([]byte, 3)
	rb, rs := NewReduction(&b, Sum[byte]()), NewSliceReduction(s, Sum[byte]())
	gb, gs := rb.Open(1), rs.Open(1)
	var all []unsafe.Pointer
	for range 50 {
		all = append(all, unsafe.Pointer(Private[byte](gb.Take(0, nil))), unsafe.Pointer(Private[byte](gs.Take(0, nil))))
	}
	for i, p := range all {
		for _, q := range all[:i] {
			require.GreaterOrEqual(t, apart(p, q), uintptr(line+3))
		}
	}
}
