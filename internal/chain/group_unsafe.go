// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"sync/atomic"
	"unsafe"

	"weft/internal/xatomic"
)

// access is one task's use of one object, a link in the object's chain. It is what other tasks write in
// passing, and no more, so that all accesses of a stencil's task, with the counters of its node, are one cache line (README.md, "Where things lie"). What else
// belongs to an access is in two other lines, each as far from it as from any other: see succ and ref.
type access struct {
	state  xatomic.Uint32
	given  bool   // given up by Release; owned by the body
	place  uint8  // in its group: see owner; and four bits of the size
	sizeLo uint16 // bytes that the chain covers (extent.go)
}

// groupLen is how many accesses have one group: those of a stencil.
const groupLen = 5

// A group is memory for accesses. A Node begins with a group, for its first accesses, with its own fields in the gaps; tasks with more accesses
// have more groups.
type group struct {
	accs  [groupLen]access
	owner *Node // constant once registered
	_     [2]uint64
	succs [groupLen]*access
	_     [3]uint64
	refs  [groupLen]unsafe.Pointer
	_     [3]uint64 // to a whole number of cache lines, so that two tasks' groups share none
}

// How far succ and ref of an access are from it.
const (
	toSucc = unsafe.Offsetof(group{}.succs)
	toRef  = unsafe.Offsetof(group{}.refs)
)

// Fails to compile when a Node does not begin as a group does, or what belongs to the accesses of a group is not as far apart as they are.
const (
	_ = -(toSucc ^ unsafe.Offsetof(Node{}.succs))
	_ = -(toRef ^ unsafe.Offsetof(Node{}.objs))
	_ = -unsafe.Offsetof(Node{}.accs)
	_ = -(unsafe.Sizeof(access{}) ^ unsafe.Sizeof(uintptr(0)))
)

// Bits of access.place.
const (
	placeIn   = 7      // index in the group
	elsewhere = 1 << 3 // the group is not the node's own
	placeBits = 4      // above them: the highest bits of the size
)

// at returns n's access i.
func (n *Node) at(i int32) *access {
	if i < groupLen {
		return &n.accs[i]
	}
	i -= groupLen
	return &(*n.more)[i/groupLen].accs[i%groupLen]
}

// placeOf is the place of access i of a node.
func placeOf(i int32) uint8 {
	if i < groupLen {
		return uint8(i)
	}
	return uint8(i%groupLen) | elsewhere
}

// owner returns the node of a; nil if it is a bridge. It is constant once registered.
func (a *access) owner() *Node {
	first := unsafe.Add(unsafe.Pointer(a), -int(a.place&placeIn)*int(unsafe.Sizeof(*a)))
	if a.place&elsewhere == 0 {
		return (*Node)(first)
	}
	return (*group)(first).owner
}

// succ returns the next access in the chain, or the parent's access. It is written before hasNext.
func (a *access) succ() *access { return *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) }

func (a *access) setSucc(next *access) { *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) = next }

// ref returns the object, which it keeps alive, until a child's access is linked; from then on, by
// hasChild, it is the first of those, and the object is in the table of the domain.
func (a *access) ref() unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(a), toRef))
}

func (a *access) setRef(p unsafe.Pointer) {
	*(*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(a), toRef)) = p
}

// isLeft is the bit of Node.refs that says that an access of the node lingers: the node is left to the collector.
const isLeft = 1 << 30

// An access that lingers is never at rest, so its node is left to the collector with its links. A list of such nodes would
// be kept by whatever keeps the first. So who passes the write token on cuts the link; who comes late finds nil, and
// drops a message that the write token has made void. The links of the node's other accesses are cut when all are over.

// succLate is succ for who has a message, perhaps late.
func (a *access) succLate() *access { return (*access)(atomic.LoadPointer(a.word(toSucc))) }

// childLate is the same for the first access of a child. Precondition: hasChild.
func (a *access) childLate() *access { return (*access)(atomic.LoadPointer(a.word(toRef))) }

func (a *access) cutSucc()  { atomic.StorePointer(a.word(toSucc), nil) }
func (a *access) cutChild() { atomic.StorePointer(a.word(toRef), nil) }

func (a *access) word(at uintptr) *unsafe.Pointer {
	return (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(a), at))
}

// Number returns what SetNumber has set.
func (n *Node) Number() int32 { return *n.number() }

// SetNumber gives n, which is registered without accesses, a number of the runtime's own. It lies
// where an access of another node would, in the line that the runtime looks at anyway.
func (n *Node) SetNumber(i int32) { *n.number() = i }

func (n *Node) number() *int32 { return (*int32)(unsafe.Pointer(&n.accs)) }

// reserve makes room for k accesses.
func (n *Node) reserve(k int) {
	if k <= groupLen {
		return
	}
	k = (k - 1) / groupLen
	if n.more == nil {
		n.more = new([]group)
	}
	if len(*n.more) >= k {
		return
	}
	g := make([]group, k)
	for i := range g {
		g[i].owner = n
	}
	*n.more = g
}

// simple reports whether n has few accesses, and has had no children with any.
func (n *Node) simple() bool { return !n.hasDom && n.count <= groupLen }

// forget drops the objects of n, whose task is over: it keeps none of them alive while others still
// pass tokens through its accesses. What an access has passed down to a child is not its object any more.
func (n *Node) forget() {
	if n.simple() {
		n.objs = [groupLen]unsafe.Pointer{}
		return
	}
	for i := range n.count {
		if a := n.at(i); a.state.Load()&hasChild == 0 {
			a.setRef(nil)
		}
	}
}

// Drop cuts n's links to others. It is for a node that nothing refers to any more, and that is not
// used again: whatever still points to it, such as a queue that it has been in, keeps n's memory and no more.
func (n *Node) Drop() {
	n.Unlink()
	n.more, n.dom, n.hasDom = nil, nil, false
}

// cut is Drop for a node that is left to the collector. Late messages may still look for where they go.
func (n *Node) cut() {
	for i := range n.count {
		n.at(i).cutSucc()
		n.at(i).cutChild()
	}
}

// Unlink makes n, to which nothing refers, keep no other node's memory.
func (n *Node) Unlink() { n.succs, n.objs = [groupLen]*access{}, [groupLen]unsafe.Pointer{} }

// trim drops what is not to be kept for the next task: children's accesses, and memory that is too large.
func (n *Node) trim() {
	if n.hasDom {
		n.objs = [groupLen]unsafe.Pointer{}
	}
	if n.count > groupLen && len(*n.more)*groupLen > maxKept {
		n.count, n.more = 0, nil
	}
}

// has reports whether a is one of n's. It asks the address, because a's own line is
// likely to be in another processor's cache.
func (n *Node) has(a *access) bool {
	const size = groupLen * unsafe.Sizeof(access{})
	at := uintptr(unsafe.Pointer(a))
	if at-uintptr(unsafe.Pointer(n)) < size {
		return true
	}
	return n.count > groupLen && at-uintptr(unsafe.Pointer(unsafe.SliceData(*n.more))) < uintptr(len(*n.more))*unsafe.Sizeof(group{})
}
