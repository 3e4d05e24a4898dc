// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"runtime/debug"
)

// guard runs fn and turns a fault on one of the mappings into ErrLost: somebody has truncated the
// file, or its file system cannot give or take a page any more. Without it the kernel's SIGBUS ends
// the program. A fault elsewhere, say on a buffer of the caller, stays what it is.
//
// What fn has done before the fault is done. It must not hold a lock that it releases other than by
// defer.
func guard(maps [][]byte, fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = faulted(maps, p)
		}
	}()
	return fn()
}

// faulted is the error of a fault on one of the mappings. It panics again with everything else.
func faulted(maps [][]byte, p any) error {
	fault, ok := p.(interface{ Addr() uintptr })
	if !ok {
		panic(p)
	}
	for i, m := range maps {
		if at := fault.Addr() - addressOf(m); at < uintptr(len(m)) {
			return fmt.Errorf("%w: byte %d of its file %d is not there any more: the file was cut or the disk has failed",
				ErrLost, at, i)
		}
	}
	panic(p)
}

// Guard runs fn, which touches the memory of the handle. ErrLost: the memory is not there any more.
func (h *Handle) Guard(fn func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = faulted(h.maps, p)
		}
	}()
	fn()
	return nil
}
