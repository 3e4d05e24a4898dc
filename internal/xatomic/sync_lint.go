//go:build weftlint && race && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"runtime"
	"sync"
)

// In a build for package task's lint mode the race detector does not see the order that these locks
// and channels make: it is shown another one.

func hide() { runtime.RaceDisable() }
func show() { runtime.RaceEnable() }

// Mutex is sync.Mutex.
type Mutex struct{ mu sync.Mutex }

// Lock locks m.
func (m *Mutex) Lock() {
	hide()
	m.mu.Lock()
	show()
}

// TryLock locks m if nobody has it, and reports whether it did.
func (m *Mutex) TryLock() bool {
	hide()
	defer show()
	return m.mu.TryLock()
}

// Unlock unlocks m.
func (m *Mutex) Unlock() {
	hide()
	m.mu.Unlock()
	show()
}

// Send sends v.
func (c Chan[T]) Send(v T) {
	hide()
	c <- v
	show()
}

// Recv receives.
func (c Chan[T]) Recv() T {
	hide()
	defer show()
	return <-c
}
