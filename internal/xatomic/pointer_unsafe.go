// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"sync/atomic"
	"unsafe"
)

// initPointer is a plain store to v, which is one word. The compiler adds the collector's write barrier.
func initPointer[T any](v *atomic.Pointer[T], p *T) { *(**T)(unsafe.Pointer(v)) = p }

// Fails to compile when an atomic pointer is more than its word.
const _ = -(unsafe.Sizeof(atomic.Pointer[int]{}) - unsafe.Sizeof(uintptr(0)))
