// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"

	"weft/internal/xatomic"
)

// Prefetches of what is likely to be in another processor's cache, to be written soon (README.md, "Where things lie").

// prefetch asks for the line of a, and prefetch2 for the next one as well, with succ.
func (a *access) prefetch()  { xatomic.PrefetchW(unsafe.Pointer(a)) }
func (a *access) prefetch2() { xatomic.PrefetchW2(unsafe.Pointer(a)) }

// ahead asks for the lines of the accesses that n's tokens go to, all at once: each is likely to be in another processor's
// cache, and the atomic operations of Finish would wait for one after the other. It reports whether n is a star (giveAll).
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

// further asks for the line of the second reader behind a, a writer: the write token of its successor lets a
// reader start, which passes the read token on. It is called some time after ahead, since it needs what that has asked for.
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
