// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// Memory returns the addresses of the bytes that the access covers, from lo up to hi, and whether it was made by [Slice]: an object
// is known by lo alone to other objects. Nothing is covered by an empty slice and by the zero Access. It is for tools that keep
// books on accesses; the addresses do not keep the memory alive.
func (a Access) Memory() (lo, hi uintptr, slice bool) {
	if a.ptr == nil || a.size() == 0 {
		return 0, 0, a.isRange()
	}
	lo, hi = a.extent()
	return lo, hi, a.isRange()
}

// Both returns the mode of one task that accesses one object in mode m and in mode x: the same if they are one, else
// InOut, as which Out counts too.
func (m Mode) Both(x Mode) Mode { return combine(m.order(), x.order()) }
