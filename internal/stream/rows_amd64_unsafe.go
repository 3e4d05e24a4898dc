//go:build amd64 && !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stream

import "unsafe"

const usable = true

// copyRows asks for what it loads ahead bytes before. It needs nothing of the processor that not
// every one of its kind has.
//
// Preconditions: dst begins on a line; size is whole lines, and above 0, as is rows.
//
//go:noescape
func copyRows(dst, src unsafe.Pointer, rows, size, stride, ahead int)
