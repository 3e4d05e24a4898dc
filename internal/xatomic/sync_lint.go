//go:build weftlint && race && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"runtime"
	"sync"
)

// In a build for package task's lint mode the race detector does not see the order that these locks
// and channels make: package task declares another order to it.

func raceOff() { runtime.RaceDisable() }
func raceOn()  { runtime.RaceEnable() }

// Mutex is sync.Mutex.
type Mutex struct{ mu sync.Mutex }

// Lock locks m.
func (m *Mutex) Lock() {
	raceOff()
	m.mu.Lock()
	raceOn()
}

// TryLock locks m if it is unlocked, and reports whether it did.
func (m *Mutex) TryLock() bool {
	raceOff()
	defer raceOn()
	return m.mu.TryLock()
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	raceOff()
	m.mu.Unlock()
	raceOn()
}

// Send sends v.
func (c Chan[T]) Send(v T) {
	raceOff()
	c <- v
	raceOn()
}

// Recv receives.
func (c Chan[T]) Recv() T {
	raceOff()
	defer raceOn()
	return <-c
}
