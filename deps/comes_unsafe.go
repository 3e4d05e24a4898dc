// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"unsafe"

	"weft/internal/xatomic"
)

// comes asks for the lines of n, which has become ready, that the runtime looks at first, and Finish: its own, behind the node, and that of succ.
func (n *Node) comes() {
	xatomic.PrefetchW4(unsafe.Pointer(n))
}
