// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "weft/internal/fabric"

// frameOf returns a frame whose head and n bytes depend on seed.
func frameOf(seed uint64, n int) (f fabric.Frame) {
	for i := range f.Head {
		f.Head[i] = seed<<32 | uint64(i+1)<<24 | uint64(n)
	}
	f.Data = make([]byte, n)
	for i := range f.Data {
		f.Data[i] = byte(uint64(i)*7 + seed + uint64(i>>8))
	}
	return f
}
