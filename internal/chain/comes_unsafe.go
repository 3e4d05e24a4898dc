// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"unsafe"

	"weft/internal/xatomic"
)

// comes asks for the lines of n, which has become ready: all that the runtime and Finish write for
// any task with accesses.
func (n *Node) comes() {
	xatomic.PrefetchW3(unsafe.Pointer(n))
}
