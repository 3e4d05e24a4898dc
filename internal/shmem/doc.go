// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package shmem has memory that several processes map.
//
//	f, _ := shmem.Create("inbox", 1<<20)                  // without a name in any file system
//	mem, _ := shmem.Map(f, 0, 1<<20, false)
//	word := shmem.View[atomic.Uint64](mem, 64)
//
//	f, _ := shmem.Open(shmem.Path(pid, fd), 1<<20)        // another process of the same user
//
// Who owns what: the file is the caller's, and must stay open as long as others may come; a mapping
// lasts until Unmap, whatever becomes of the file. Memory of [Create] is gone when the last process
// that has it open or mapped ends, however that happens.
//
// The race detector does not see mapped memory. Code that is to be checked by it runs on memory of
// [Heap], which several goroutines use as if each had mapped it.
//
// Mapping needs Linux; elsewhere its functions fail with [ErrUnsupported]. All functions may be
// called by any goroutine; what is in the memory is the callers' to order.
package shmem

import "errors"

// ErrUnsupported: there is no mapped memory here.
var ErrUnsupported = errors.New("shmem: mapped memory is not supported on this system")
