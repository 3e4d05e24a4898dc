//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package xatomic has the atomic words of weft's lock-free parts, and their locks and channels.
//
// The words have the operations of sync/atomic and Init, a plain store for a word that no other
// goroutine can reach yet: a typed atomic's Store is a full fence on most machines, and an object
// that is initialised for each task and published afterwards by another atomic operation needs
// none. Uint32 also has Peek, Settle and Keep, which replace an atomic operation where one
// goroutine makes the last change of a word.
//
// With the build tag explore, each operation also calls the functions of hook.go, so that tests can
// choose the order in which goroutines take their steps: explore_unsafe.go and syncx.go have the
// same types and methods as xatomic_unsafe.go and sync.go. Package internal/explore uses this.
package xatomic

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Explored says that operations on atomics are steps of package explore.
const Explored = false

// Uint32 is an atomic 32-bit word.
type Uint32 struct{ atomic.Uint32 }

// Int32 is an atomic signed 32-bit word.
type Int32 struct{ atomic.Int32 }

// Int64 is an atomic signed 64-bit word.
type Int64 struct{ atomic.Int64 }

// Uint64 is an atomic 64-bit word.
type Uint64 struct{ atomic.Uint64 }

// Bool is an atomic truth value.
type Bool = atomic.Bool

// Pointer is an atomic pointer. (Its word is not embedded: in a build for lint mode the methods of
// generic types must have no wrappers.)
type Pointer[T any] struct{ v atomic.Pointer[T] }

// Load returns the pointer.
func (x *Pointer[T]) Load() *T { return x.v.Load() }

// Store sets the pointer.
func (x *Pointer[T]) Store(p *T) { x.v.Store(p) }

// Swap stores p and returns the pointer before.
func (x *Pointer[T]) Swap(p *T) *T { return x.v.Swap(p) }

// CompareAndSwap replaces old by new if the pointer is old.
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool { return x.v.CompareAndSwap(old, new) }

// Init sets the word by a plain store. Precondition: no other goroutine can reach the word, and it
// is published later by an atomic operation or a lock.
func (x *Uint32) Init(v uint32) { *(*uint32)(unsafe.Pointer(x)) = v }

// Init is as Uint32.Init.
func (x *Int32) Init(v int32) { *(*int32)(unsafe.Pointer(x)) = v }

// Init is as Uint32.Init.
func (x *Int64) Init(v int64) { *(*int64)(unsafe.Pointer(x)) = v }

// Init is as Uint32.Init.
func (x *Uint64) Init(v uint64) { *(*uint64)(unsafe.Pointer(x)) = v }

// Init is as Uint32.Init. The compiler adds the collector's write barrier.
func (x *Pointer[T]) Init(p *T) { *(**T)(unsafe.Pointer(x)) = p }

// Peek is Load for a goroutine that decides by the value whether it needs an atomic operation. The
// next call on the word is Add, or, if no other goroutine changes the word any more, Settle or
// Keep.
func (x *Uint32) Peek() uint32 { return x.Load() }

// Settle is a plain store to a word that held old when Peek was called. Precondition: no other
// goroutine changes the word; later reads are ordered after Settle by other means.
func (x *Uint32) Settle(old, v uint32) { x.Init(v) }

// Keep says that the word keeps the value old that Peek found. Precondition: as for Settle.
func (x *Uint32) Keep(old uint32) {}

// Fails to compile when an atomic word is more than its word.
const _ = -(unsafe.Sizeof(Uint32{}) - 4 + unsafe.Sizeof(Int32{}) - 4 + unsafe.Sizeof(Int64{}) - 8 + unsafe.Sizeof(Uint64{}) - 8 +
	unsafe.Sizeof(Pointer[int]{}) - unsafe.Sizeof(uintptr(0)))

// Driven reports whether an explorer chooses whose step is next.
func Driven() bool { return false }

// Chan is a channel with room for at least one element, which is not closed.
type Chan[T any] chan T

// Go runs f on a new goroutine.
func Go(f func()) { go f() }

// VisibleMutex is a Mutex that the race detector sees in lint mode, too.
type VisibleMutex = sync.Mutex

// Timer calls a function once for each Start.
type Timer struct{ t *time.Timer }

// NewTimer returns a timer that calls f.
func NewTimer(f func()) Timer {
	t := time.AfterFunc(math.MaxInt64, f)
	t.Stop()
	return Timer{t}
}

// Start starts the timer: the function is called after a wait.
func (t Timer) Start(wait time.Duration) { t.t.Reset(wait) }

// Stop cancels Start, unless it is too late.
func (t Timer) Stop() { t.t.Stop() }
