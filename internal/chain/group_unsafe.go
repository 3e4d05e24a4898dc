// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"

	"weft/internal/xatomic"
)

// isLeft is the bit of Node.refs that says that an access of the node lingers: the node is left to
// the collector.
const isLeft = 1 << 30

// An access that lingers is never at rest, so its node is left to the collector with its links. A
// list of such nodes would be kept by whatever keeps the first. So who passes the write token on
// cuts the link; who comes late finds nil, and drops a message that the write token has made void.
// The links of the node's other accesses are cut when all are over.

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
// pass tokens through its accesses. What an access has passed down to a child is not its object any
// more.
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
// used again: whatever still points to it, such as a queue that it has been in, keeps n's memory
// and no more.
func (n *Node) Drop() {
	n.Unlink()
	n.more, n.dom, n.hasDom = nil, nil, false
}

// cut is Drop for a node that is left to the collector. Late messages may still look for where they
// go.
func (n *Node) cut() {
	for i := range n.count {
		n.at(i).cutSucc()
		n.at(i).cutChild()
	}
}

// Unlink makes n, to which nothing refers, keep no other node's memory.
func (n *Node) Unlink() { n.succs, n.objs = [groupLen]*access{}, [groupLen]object{} }

// trim drops what is not to be kept for the next task: children's accesses, and memory that is too
// large.
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

// Prefetches of what is likely to be in another processor's cache, to be written soon (README.md,
// "Where things lie").

// prefetch asks for the line of a, and prefetch2 for the next one as well, with succ.
func (a *access) prefetch()  { xatomic.PrefetchW(unsafe.Pointer(a)) }
func (a *access) prefetch2() { xatomic.PrefetchW2(unsafe.Pointer(a)) }

// ahead asks for the lines of the accesses that n's tokens go to, all at once: each is likely to be
// in another processor's cache, and the atomic operations of Finish would wait for one after the
// other. It reports whether n is a star (giveAll).
func (n *Node) ahead() (star bool) {
	star = true
	for i := range n.count {
		a := n.at(i)
		s := a.state.Load()
		if s&hasNext != 0 { // one that was released before may be cut just now
			a.succLate().prefetch2()
		}
		star = star && (s&isReader != 0) == (i > 0)
	}
	return star
}

// further asks for the line of the second reader behind a, a writer: the write token of its
// successor lets a reader start, which passes the read token on. It is called some time after
// ahead, since it needs what that has asked for.
//
// The successor cannot be over: it waits for a, which is not given up.
func (a *access) further() {
	if xatomic.Explored || a.state.Load()&hasNext == 0 { // the steps would be for nothing
		return
	}
	if next := a.succ(); next.state.Load()&(hasNext|isReader) == hasNext|isReader {
		next.succ().prefetch2()
	}
}

// comes asks for the lines of n, which has become ready: all that the runtime and Finish write for
// any task with accesses.
func (n *Node) comes() { xatomic.PrefetchW3(unsafe.Pointer(n)) }
