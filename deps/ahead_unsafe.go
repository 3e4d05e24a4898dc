//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"unsafe"

	"weft/internal/xatomic"
)

// ahead asks for the lines of the accesses that n's tokens go to, all at once: each is likely to be in another processor's
// cache, and the atomic operations of Finish would wait for one after the other.
func (n *Node) ahead() {
	for i := range n.accs {
		a := &n.accs[i]
		if a.state.Load()&hasNext != 0 {
			xatomic.PrefetchW(unsafe.Pointer(a.succ))
		}
	}
}
