// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

// Object returns the address by which the access names its object, and whether it names one; a range
// is none. It is for tools that keep books on accesses; the address does not keep the object alive.
func (a Access) Object() (addr uintptr, ok bool) {
	return uintptr(a.ptr), a.ptr != nil && !a.isRange()
}

// IsRange reports whether the access is to a range, made by [Slice].
func (a Access) IsRange() bool { return a.isRange() }

// Combined returns the access of one task that declares both a and b, to one object: of the same mode if they are of one mode, else
// InOut; strong if one is strong.
func Combined(a, b Access) Access {
	a.mode = combine(a.mode.order(), b.mode.order())
	a.weak = a.weak && b.weak
	return a
}

// Orders reports whether m and as are the same to the order of tasks: one mode, with Out as InOut.
func (m Mode) Orders(as Mode) bool { return m.order() == as.order() }
