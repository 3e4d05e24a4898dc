// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package processors says how many processors this process computes on, and adds one of Go's for
// what must go on beside.
//
//	processors.Spare()
//	defer processors.Return()
//	workers := processors.Count()
//
// Go's runtime lets GOMAXPROCS goroutines run at a time. When all of them compute, a goroutine that
// another process has woken waits until the runtime takes a processor away from one, ten
// milliseconds or more. With one processor of Go's to spare, its thread is woken at once, and the
// kernel shares the processor of the machine between the two, which it does in fractions of a
// millisecond. What computes must not count the spare one. The price is that what wakes a goroutine
// beside one that runs takes the processor of the machine away from that one for a while, which
// ranks that talk a lot do not want.
package processors

import (
	"runtime"
	"sync"

	"weft/internal/env"
)

var (
	mu   sync.Mutex
	with int // guarded by mu: what GOMAXPROCS is with the spare one; 0: there is none
)

// Count returns the number of goroutines that are to compute at a time: GOMAXPROCS, without the
// spare one. Any goroutine may call it.
func Count() int {
	mu.Lock()
	defer mu.Unlock()
	n := runtime.GOMAXPROCS(0)
	if n == with {
		return n - 1
	}
	return n // somebody has set it since
}

// Spare adds a processor, unless there is a spare one or the environment says how many there are.
// It stops all goroutines for a moment, the first time. Any goroutine may call it.
func Spare() {
	mu.Lock()
	defer mu.Unlock()
	if with != 0 || env.Get("GOMAXPROCS") != "" {
		return
	}
	with = runtime.GOMAXPROCS(0) + 1
	runtime.GOMAXPROCS(with)
}

// Return takes the spare one away again, unless the program has set GOMAXPROCS since.
func Return() {
	mu.Lock()
	defer mu.Unlock()
	if with != 0 && runtime.GOMAXPROCS(0) == with {
		runtime.GOMAXPROCS(with - 1)
	}
	with = 0
}
