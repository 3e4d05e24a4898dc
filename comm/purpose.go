// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

// A Purpose is what a collective is for that another package makes of those here: ranks must agree on it, and errors name it. Package rma
// has windows, package nam stores.
type Purpose uint8

// The purposes.
const (
	ForWindow   = Purpose(window)
	ForFence    = Purpose(fence)
	ForFree     = Purpose(freeing)
	ForAllocate = Purpose(allocate)
	ForAttach   = Purpose(attach)
	ForInfo     = Purpose(setInfo)
)

// AllgatherFor is Allgather.
func (c *Comm) AllgatherFor(p Purpose, send, recv Buffer) error {
	return c.collective(collKind(p), send, recv, Op{}, -1)
}

// IbarrierFor is Ibarrier.
func (c *Comm) IbarrierFor(p Purpose) *Request {
	return c.icollective(collKind(p), Buffer{}, Buffer{}, Op{}, -1)
}
