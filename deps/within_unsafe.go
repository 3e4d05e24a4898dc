// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "unsafe"

// within reports whether a is one of the first k of list. It asks the address, because a's own line is
// likely to be in another processor's cache.
func (a *access) within(list []access, k int) bool {
	return uintptr(unsafe.Pointer(a))-uintptr(unsafe.Pointer(unsafe.SliceData(list))) < uintptr(k)*unsafe.Sizeof(access{})
}
