//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"

	"weft/internal/xatomic"
)

// ahead asks for the lines of the accesses that n's tokens go to, all at once: each is likely to be in another processor's
// cache, and the atomic operations of Finish would wait for one after the other. It reports whether n is a star (giveAll).
func (n *Node) ahead() (star bool) {
	star = true
	for i := range n.count {
		a := n.at(i)
		s := a.state.Load()
		if s&hasNext != 0 { // one that was released before may be cut just now
			xatomic.PrefetchW2(unsafe.Pointer(a.succLate()))
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
	if a.state.Load()&hasNext == 0 {
		return
	}
	if next := a.succ(); next.state.Load()&(hasNext|isReader) == hasNext|isReader {
		xatomic.PrefetchW2(unsafe.Pointer(next.succ()))
	}
}
