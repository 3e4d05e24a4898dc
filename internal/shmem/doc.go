// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package shmem makes memory that several processes map.
//
//	f, _ := shmem.Create("inbox", 1<<20)                  // without a name in any file system
//	mem, _ := shmem.Map(f, 0, 1<<20, false)
//	word := shmem.View[atomic.Uint64](mem, 64)
//
//	f, _ := shmem.Open(shmem.Path(pid, fd), 1<<20)        // another process of the same user
//
// Ownership: the caller owns the file, which must stay open as long as other processes may open it.
// A mapping lasts until Unmap, even after the file is closed. Memory of [Create] is gone when the
// last process that has it open or mapped ends, however the process ends.
//
// The race detector does not see mapped memory. To have it check code, run the code on memory of
// [Heap], which several goroutines use as if each had mapped it.
//
// Mapping needs Linux; elsewhere its functions return [ErrUnsupported]. Any goroutine may call all
// functions. Callers must order their accesses to the memory.
package shmem

import "errors"

// ErrUnsupported is returned on systems other than Linux.
var ErrUnsupported = errors.New("shmem: mapped memory is not supported on this system")
