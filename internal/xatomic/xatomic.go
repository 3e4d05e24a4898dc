//go:build !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package xatomic has the atomic words of weft's lock-free parts, and the locks and channels beside them.
//
// They are sync/atomic's operations with one addition: Init, a plain store for
// a word that no other goroutine can reach yet. A typed atomic's Store is a
// full fence on most machines; an object that is initialised for each task
// and published afterwards by another atomic operation needs none.
//
// With the build tag explore, each operation also calls the functions of hook.go, so that tests
// can choose the order in which goroutines take their steps: explore_unsafe.go and syncx.go have
// the same types and methods as xatomic.go and sync.go. Package internal/explore is built on that.
package xatomic

import "sync/atomic"

// Explored says that operations on atomics are steps of package explore.
const Explored = false

type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Uint32 is an atomic 32-bit word.
type Uint32 struct {
	_ noCopy
	v uint32
}

// Init sets the word. Precondition: nobody else can reach it, and it is
// published later by an atomic operation or a lock.
func (x *Uint32) Init(v uint32) { x.v = v }

// Load returns the word.
func (x *Uint32) Load() uint32 { return atomic.LoadUint32(&x.v) }

// Look is Load for who decides by the value whether an atomic operation is needed. What follows at once is Add, or, if nobody else
// changes the word any more, Settle or Keep.
func (x *Uint32) Look() uint32 { return atomic.LoadUint32(&x.v) }

// Settle is a plain store to a word that held old when Look was called. Precondition: nobody else changes it; who
// reads it later comes after this by other means.
func (x *Uint32) Settle(old, v uint32) { x.v = v }

// Keep says that the word stays old, as Look has found it. Precondition: as for Settle.
func (x *Uint32) Keep(old uint32) {}

// Store sets the word.
func (x *Uint32) Store(v uint32) { atomic.StoreUint32(&x.v, v) }

// Add adds d and returns the new value.
func (x *Uint32) Add(d uint32) uint32 { return atomic.AddUint32(&x.v, d) }

// CompareAndSwap replaces old by new if the word holds old.
func (x *Uint32) CompareAndSwap(old, new uint32) bool {
	return atomic.CompareAndSwapUint32(&x.v, old, new)
}

// Swap stores v and returns the value before.
func (x *Uint32) Swap(v uint32) uint32 { return atomic.SwapUint32(&x.v, v) }

// And keeps the bits of mask, and returns the value before.
func (x *Uint32) And(mask uint32) uint32 { return atomic.AndUint32(&x.v, mask) }

// Or sets bits and returns the word before.
func (x *Uint32) Or(bits uint32) uint32 { return atomic.OrUint32(&x.v, bits) }

// Int32 is an atomic signed 32-bit word.
type Int32 struct {
	_ noCopy
	v int32
}

// Init sets the word. Precondition: as for Uint32.Init.
func (x *Int32) Init(v int32) { x.v = v }

// Load returns the word.
func (x *Int32) Load() int32 { return atomic.LoadInt32(&x.v) }

// Store sets the word.
func (x *Int32) Store(v int32) { atomic.StoreInt32(&x.v, v) }

// Add adds d and returns the new value.
func (x *Int32) Add(d int32) int32 { return atomic.AddInt32(&x.v, d) }

// CompareAndSwap replaces old by new if the word holds old.
func (x *Int32) CompareAndSwap(old, new int32) bool {
	return atomic.CompareAndSwapInt32(&x.v, old, new)
}

// Int64 is an atomic signed 64-bit word.
type Int64 struct {
	_ noCopy
	_ [0]atomic.Int64 // keeps it 8-byte aligned on 32-bit machines
	v int64
}

// Init sets the word. Precondition: as for Uint32.Init.
func (x *Int64) Init(v int64) { x.v = v }

// Load returns the word.
func (x *Int64) Load() int64 { return atomic.LoadInt64(&x.v) }

// Store sets the word.
func (x *Int64) Store(v int64) { atomic.StoreInt64(&x.v, v) }

// Add adds d and returns the new value.
func (x *Int64) Add(d int64) int64 { return atomic.AddInt64(&x.v, d) }

// CompareAndSwap replaces old by new if the word holds old.
func (x *Int64) CompareAndSwap(old, new int64) bool {
	return atomic.CompareAndSwapInt64(&x.v, old, new)
}

// Uint64 is an atomic 64-bit word.
type Uint64 struct {
	_ noCopy
	_ [0]atomic.Uint64 // keeps it 8-byte aligned on 32-bit machines
	v uint64
}

// Init sets the word. Precondition: as for Uint32.Init.
func (x *Uint64) Init(v uint64) { x.v = v }

// Load returns the word.
func (x *Uint64) Load() uint64 { return atomic.LoadUint64(&x.v) }

// Store sets the word.
func (x *Uint64) Store(v uint64) { atomic.StoreUint64(&x.v, v) }

// Add adds d and returns the new value.
func (x *Uint64) Add(d uint64) uint64 { return atomic.AddUint64(&x.v, d) }

// CompareAndSwap replaces old by new if the word holds old.
func (x *Uint64) CompareAndSwap(old, new uint64) bool {
	return atomic.CompareAndSwapUint64(&x.v, old, new)
}

// And keeps the bits of mask, and returns the word before.
func (x *Uint64) And(mask uint64) uint64 { return atomic.AndUint64(&x.v, mask) }

// Or sets bits and returns the word before.
func (x *Uint64) Or(bits uint64) uint64 { return atomic.OrUint64(&x.v, bits) }

// Bool is an atomic truth value.
type Bool = atomic.Bool

// Pointer is an atomic pointer.
type Pointer[T any] struct {
	_ noCopy
	v atomic.Pointer[T]
}

// Init sets the pointer. Precondition: as for Uint32.Init.
func (x *Pointer[T]) Init(p *T) { initPointer(&x.v, p) }

// Load returns the pointer.
func (x *Pointer[T]) Load() *T { return x.v.Load() }

// Store sets the pointer.
func (x *Pointer[T]) Store(p *T) { x.v.Store(p) }

// Swap stores p and returns the pointer before.
func (x *Pointer[T]) Swap(p *T) *T { return x.v.Swap(p) }

// CompareAndSwap replaces old by new if the pointer is old.
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool { return x.v.CompareAndSwap(old, new) }
