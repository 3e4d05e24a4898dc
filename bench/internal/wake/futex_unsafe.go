// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package wake

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Operations of the system call, from linux/futex.h, on a word that no other process shares.
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// futexNap is how long the sleeper stays in the system call at most: a garbage collection has to
// wait for a thread in a raw call.
var futexNap = unix.Timespec{Nsec: 100_000_000}

// futex wakes a thread that sleeps in a raw system call. Go's scheduler does not know of the call,
// so its work is not in the figure.
func futex(ctx context.Context, p *ping) error { return futexBy(ctx, p, unix.RawSyscall6) }

// syscall is the same with an ordinary system call. Go's scheduler does its bookkeeping before and
// after the call.
func syscall(ctx context.Context, p *ping) error { return futexBy(ctx, p, unix.Syscall6) }

func futexBy(ctx context.Context, p *ping, call func(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2 uintptr, err unix.Errno)) error {
	var word atomic.Uint32 // how often to wake; the top bit ends it
	const over = 1 << 31
	addr := uintptr(unsafe.Pointer(&word))
	var sleeper sync.WaitGroup
	var failed unix.Errno
	sleeper.Go(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for seen := uint32(0); ; {
			_, _, errno := call(unix.SYS_FUTEX, addr, futexWait, uintptr(seen), uintptr(unsafe.Pointer(&futexNap)), 0, 0)
			switch now := word.Load(); {
			case now&over != 0:
				return
			case now != seen:
				seen = now
				p.answer()
			case errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR && errno != unix.ETIMEDOUT:
				failed = errno
				return
			}
		}
	})
	wake := func(add uint32) {
		word.Add(add)
		_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, addr, futexWake, 1, 0, 0, 0)
	}
	err := p.run(ctx, func() { wake(1) })
	wake(over)
	sleeper.Wait()
	runtime.KeepAlive(&word)
	if failed != 0 {
		err = errors.Join(err, failed)
	}
	return err
}
