//go:build amd64 && !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stream

import "unsafe"

const usable = true

// copyRows prefetches the source ahead bytes before the loads. It uses only instructions that every
// amd64 processor has.
//
// Preconditions: dst begins on a cache line; size is a multiple of a line; size > 0; rows > 0.
//
//go:noescape
func copyRows(dst, src unsafe.Pointer, rows, size, stride, ahead int)
