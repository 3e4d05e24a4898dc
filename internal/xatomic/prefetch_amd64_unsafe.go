//go:build amd64

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "unsafe"

// PrefetchW prefetches the cache line at p for writing, without waiting.
//
//go:noescape
func PrefetchW(p unsafe.Pointer)

// PrefetchW2 is PrefetchW for the two lines from p on.
//
//go:noescape
func PrefetchW2(p unsafe.Pointer)

// PrefetchW3 is PrefetchW for the three lines from p on.
//
//go:noescape
func PrefetchW3(p unsafe.Pointer)

// PrefetchW1st3rd is PrefetchW for the first and the third line from p on.
//
//go:noescape
func PrefetchW1st3rd(p unsafe.Pointer)
