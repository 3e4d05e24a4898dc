// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"

	"weft/internal/xatomic"
)

// leftToGC is the bit of Node.refs that says that an access of the node lingers, so that the node
// is left to the garbage collector.
//
// Such a node must not form a list with others, which a reference to the first would keep alive. So
// the goroutine that passes the write token on cuts the link. A sender whose message is late finds
// nil and drops the message, which the write token has made void. When all accesses are over, the
// links of the node's other accesses are cut too.
const leftToGC = 1 << 30

// Number returns the number that SetNumber set.
func (n *Node) Number() int32 { return *n.number() }

// SetNumber gives n, which is registered without accesses, a number for the runtime's use. It is
// stored in the place of the first access, in the line that the runtime reads for every task.
func (n *Node) SetNumber(i int32) { *n.number() = i }
func (n *Node) number() *int32    { return (*int32)(unsafe.Pointer(&n.accs)) }

// reserve makes room for k accesses.
func (n *Node) reserve(k int) {
	if k <= blockLen {
		return
	}
	k = (k - 1) / blockLen
	if n.more == nil {
		n.more = new([]accessBlock)
	}
	if len(*n.more) >= k {
		return
	}
	g := make([]accessBlock, k)
	for i := range g {
		g[i].owner = n
	}
	*n.more = g
}

// simple reports whether all accesses of n are in its first block and its children have named no
// object.
func (n *Node) simple() bool { return !n.hasDom && n.count <= blockLen }

// forget drops the objects of n, whose task is over, so that n keeps none of them alive while other
// tasks still pass tokens through its accesses. It skips accesses with a child: their ref is the
// child's access.
func (n *Node) forget() {
	if n.simple() {
		n.objs = [blockLen]object{}
		return
	}
	for i := range n.count {
		if a := n.at(i); a.state.Load()&hasChild == 0 {
			a.setRef(nil)
		}
	}
}

// Drop cuts n's links to others. It is for a node that nothing refers to any more and that is not
// used again. Anything that still points to n, such as a queue that it has been in, then keeps only
// n's memory.
func (n *Node) Drop() {
	n.Unlink()
	n.more, n.dom, n.hasDom = nil, nil, false
}

// cut is Drop for a node that is left to the collector. Senders of late messages may still read the
// links.
func (n *Node) cut() {
	for i := range n.count {
		n.at(i).cutSucc()
		n.at(i).cutChild()
	}
}

// Unlink makes n, to which nothing refers, keep no other node's memory alive.
func (n *Node) Unlink() { n.succs, n.objs = [blockLen]*access{}, [blockLen]object{} }

// trim drops what must not be kept for the next task: children's accesses, and memory that is too
// large.
func (n *Node) trim() {
	if n.hasDom {
		n.objs = [blockLen]object{}
	}
	if n.count > blockLen && len(*n.more)*blockLen > maxKept {
		n.count, n.more = 0, nil
	}
}

// has reports whether a is one of n's accesses. It compares addresses, because a's own line is
// likely to be in another processor's cache.
func (n *Node) has(a *access) bool {
	const size = blockLen * unsafe.Sizeof(access{})
	at := uintptr(unsafe.Pointer(a))
	if at-uintptr(unsafe.Pointer(n)) < size {
		return true
	}
	return n.count > blockLen && at-uintptr(unsafe.Pointer(unsafe.SliceData(*n.more))) < uintptr(len(*n.more))*unsafe.Sizeof(accessBlock{})
}

// Prefetches of lines that are likely to be in another processor's cache and will be written soon
// (README.md, "Memory layout").

// prefetch prefetches the line of a, and prefetch2 also the next one, with succ.
func (a *access) prefetch()  { xatomic.PrefetchW(unsafe.Pointer(a)) }
func (a *access) prefetch2() { xatomic.PrefetchW2(unsafe.Pointer(a)) }

// prefetchSuccs prefetches the lines of all accesses that n's tokens go to. Each line is likely to
// be in another processor's cache, and the atomic operations of Finish would wait for one after the
// other. It reports whether n is a star (see giveAll).
func (n *Node) prefetchSuccs() (star bool) {
	star = true
	for i := range n.count {
		a := n.at(i)
		s := a.state.Load()
		if s&hasNext != 0 { // late: the link of a released access may be cut concurrently
			a.succLate().prefetch2()
		}
		star = star && (s&isReader != 0) == (i > 0)
	}
	return star
}

// prefetchSecondReader prefetches the access of the second reader after a, a writer: the write
// token lets a's successor start, a reader, which passes the read token on to the second. It reads
// the line of the successor, so it is called some time after prefetchSuccs.
//
// The successor cannot be over: it waits for a, which is not given up.
func (a *access) prefetchSecondReader() {
	if xatomic.Explored || a.state.Load()&hasNext == 0 { // exploring these loads finds nothing
		return
	}
	if next := a.succ(); next.state.Load()&(hasNext|isReader) == hasNext|isReader {
		next.succ().prefetch2()
	}
}

// prefetchReady prefetches the three cache lines of a task that has just become ready: all that the
// runtime and Finish write for any task with accesses.
func (n *Node) prefetchReady() { xatomic.PrefetchW3(unsafe.Pointer(n)) }
