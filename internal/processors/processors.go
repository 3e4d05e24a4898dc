// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package processors tells how many goroutines of this process should compute at a time, and adds a
// spare processor of Go's scheduler for background work.
//
//	processors.Spare()
//	defer processors.Return()
//	workers := processors.Count()
//
// Go's runtime runs GOMAXPROCS goroutines at a time. When all of them compute, a goroutine that
// another process has woken waits until the runtime preempts one of them, which takes ten
// milliseconds or more. With a spare processor of Go's, the kernel wakes a thread for that
// goroutine at once, and shares the machine's processor between the two threads in fractions of a
// millisecond. Code that sizes its computation must not count the spare processor.
//
// The price: waking a goroutine on the spare processor takes the machine's processor away from a
// computing goroutine for a while. Ranks that communicate a lot do not want that.
package processors

import (
	"runtime"
	"sync"

	"weft/internal/env"
)

var (
	mu   sync.Mutex
	with int // guarded by mu: GOMAXPROCS including the spare processor; 0: there is no spare one
)

// Count returns the number of goroutines that should compute at a time: GOMAXPROCS without the
// spare processor. Any goroutine may call it.
func Count() int {
	mu.Lock()
	defer mu.Unlock()
	n := runtime.GOMAXPROCS(0)
	if n == with {
		return n - 1
	}
	return n // the program has set GOMAXPROCS since
}

// Spare adds a spare processor, unless there is one already or the environment sets GOMAXPROCS.
// Adding one stops all goroutines for a moment. Any goroutine may call it.
func Spare() {
	mu.Lock()
	defer mu.Unlock()
	if with != 0 || env.Get("GOMAXPROCS") != "" {
		return
	}
	with = runtime.GOMAXPROCS(0) + 1
	runtime.GOMAXPROCS(with)
}

// Return removes the spare processor, unless the program has set GOMAXPROCS since Spare. Any
// goroutine may call it.
func Return() {
	mu.Lock()
	defer mu.Unlock()
	if with != 0 && runtime.GOMAXPROCS(0) == with {
		runtime.GOMAXPROCS(with - 1)
	}
	with = 0
}
