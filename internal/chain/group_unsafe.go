// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"
)

// isLeft is the bit of Node.refs that says that an access of the node lingers: the node is left to the collector.
const isLeft = 1 << 30

// An access that lingers is never at rest, so its node is left to the collector with its links. A list of such nodes would
// be kept by whatever keeps the first. So who passes the write token on cuts the link; who comes late finds nil, and
// drops a message that the write token has made void. The links of the node's other accesses are cut when all are over.

// Number returns what SetNumber has set.
func (n *Node) Number() int32 { return *n.number() }

// SetNumber gives n, which is registered without accesses, a number of the runtime's own. It lies
// where an access of another node would, in the line that the runtime looks at anyway.
func (n *Node) SetNumber(i int32) { *n.number() = i }
func (n *Node) number() *int32    { return (*int32)(unsafe.Pointer(&n.accs)) }

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
		n.objs = [groupLen]object{}
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
func (n *Node) Unlink() { n.succs, n.objs = [groupLen]*access{}, [groupLen]object{} }

// trim drops what is not to be kept for the next task: children's accesses, and memory that is too large.
func (n *Node) trim() {
	if n.hasDom {
		n.objs = [groupLen]object{}
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
