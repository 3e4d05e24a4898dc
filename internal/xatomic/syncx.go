//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"sync"
	"time"
)

// Driven reports whether an explorer chooses whose step is next.
func Driven() bool { return Start != nil }

// Mutex is sync.Mutex.
type Mutex struct {
	mu   sync.Mutex
	held bool // for the explorer, under which one goroutine runs at a time
}

// Lock locks m.
func (m *Mutex) Lock() {
	if Before == nil {
		if Step == nil {
			m.mu.Lock()
			return
		}
		for Step(); !m.mu.TryLock(); { // the holder may be stopped at another lock
			Step()
		}
		return
	}
	Before(Lock, m, func() bool { return !m.held })
	m.mu.Lock()
	m.held = true
	after(0, true)
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	if Before == nil {
		m.mu.Unlock()
		if Step != nil {
			Step()
		}
		return
	}
	Before(Unlock, m, nil)
	m.held = false
	m.mu.Unlock()
	after(0, true)
}

// TryLock locks m if it is unlocked, and reports whether it did.
func (m *Mutex) TryLock() bool {
	before(TryLock, m, nil)
	ok := m.mu.TryLock()
	if ok && Before != nil {
		m.held = true
	}
	after(number(ok), ok)
	return ok
}

// Chan is a channel with room for at least one element, which is not closed.
type Chan[T any] chan T

// Send sends v.
func (c Chan[T]) Send(v T) {
	if Before != nil {
		Before(Send, c, func() bool { return len(c) < cap(c) })
	}
	c <- v
	after(int64(len(c)), true)
}

// Recv receives.
func (c Chan[T]) Recv() T {
	if Before != nil {
		Before(Recv, c, func() bool { return len(c) > 0 })
	}
	v := <-c
	after(int64(len(c)), true)
	return v
}

// Len returns the number of elements in c, which senders and receivers use as a Chan.
func Len[T any](c <-chan T) int {
	if c == nil {
		return 0
	}
	before(Load, both(c), nil)
	n := len(c)
	after(int64(n), false)
	return n
}

// Go runs f on a new goroutine.
func Go(f func()) {
	if Start != nil {
		Start(f)
		return
	}
	go f()
}

// Pause is called in a loop that waits for a step of another goroutine.
func Pause() { before(Yield, nil, nil) }

// VisibleMutex is a Mutex that the race detector sees in lint mode, too.
type VisibleMutex = Mutex

// Timer calls a function once for each Start, at any later time.
type Timer struct{ f func() }

// NewTimer returns a timer that calls f.
func NewTimer(f func()) Timer { return Timer{f} }

// Start starts the timer.
func (t Timer) Start(time.Duration) { Go(t.f) }

// Stop does nothing.
func (t Timer) Stop() {}
