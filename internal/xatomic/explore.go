//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "sync/atomic"

// Explored says that operations on atomics are steps of package explore.
const Explored = true

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
func (x *Uint32) Load() uint32 {
	before(Load, x, nil)
	v := atomic.LoadUint32(&x.v)
	after(int64(v), false)
	return v
}

// looked is the word of the Look that is not over. Under Before one goroutine runs at a time, and none
// goes on between a Look and what follows it.
var looked *Uint32

// Look is Load for who decides by the value whether an atomic operation is needed. What follows at once is Add, or, if nobody else
// changes the word any more, Settle or Keep.
//
// A Look and its Add are one step: the Add goes by what it finds. A Look and its Settle are two, between which an explorer lets others go on.
func (x *Uint32) Look() uint32 {
	if Before == nil {
		return x.Load()
	}
	before(Add, x, nil)
	looked = x
	return atomic.LoadUint32(&x.v)
}

// Settle is a plain store to a word that held old when Look was called. Precondition: nobody else changes it; who
// reads it later comes after this by other means.
func (x *Uint32) Settle(old, v uint32) {
	x.Keep(old)
	before(Store, x, nil)
	atomic.StoreUint32(&x.v, v)
	after(int64(v), true)
}

// Keep says that the word stays old, as Look has found it. Precondition: as for Settle.
func (x *Uint32) Keep(old uint32) {
	if looked == x {
		looked = nil
		after(int64(old), false)
	}
}

// Store sets the word.
func (x *Uint32) Store(v uint32) {
	before(Store, x, nil)
	atomic.StoreUint32(&x.v, v)
	after(int64(v), true)
}

// Add adds d and returns the new value.
func (x *Uint32) Add(d uint32) uint32 {
	if looked == x {
		looked = nil
	} else {
		before(Add, x, nil)
	}
	v := atomic.AddUint32(&x.v, d)
	after(int64(v), true)
	return v
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Uint32) CompareAndSwap(old, new uint32) bool {
	before(CAS, x, nil)
	ok := atomic.CompareAndSwapUint32(&x.v, old, new)
	after(int64(new), ok)
	return ok
}

// Swap stores v and returns the value before.
func (x *Uint32) Swap(v uint32) uint32 {
	before(Swap, x, nil)
	old := atomic.SwapUint32(&x.v, v)
	after(int64(old), true)
	return old
}

// And keeps the bits of mask, and returns the value before.
func (x *Uint32) And(mask uint32) uint32 {
	before(And, x, nil)
	old := atomic.AndUint32(&x.v, mask)
	after(int64(old&mask), true)
	return old
}

// Or sets bits and returns the word before.
func (x *Uint32) Or(bits uint32) uint32 {
	before(Or, x, nil)
	old := atomic.OrUint32(&x.v, bits)
	after(int64(old|bits), true)
	return old
}

// Int32 is an atomic signed 32-bit word.
type Int32 struct {
	_ noCopy
	v int32
}

// Init sets the word. Precondition: as for Uint32.Init.
func (x *Int32) Init(v int32) { x.v = v }

// Load returns the word.
func (x *Int32) Load() int32 {
	before(Load, x, nil)
	v := atomic.LoadInt32(&x.v)
	after(int64(v), false)
	return v
}

// Store sets the word.
func (x *Int32) Store(v int32) {
	before(Store, x, nil)
	atomic.StoreInt32(&x.v, v)
	after(int64(v), true)
}

// Add adds d and returns the new value.
func (x *Int32) Add(d int32) int32 {
	before(Add, x, nil)
	v := atomic.AddInt32(&x.v, d)
	after(int64(v), true)
	return v
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Int32) CompareAndSwap(old, new int32) bool {
	before(CAS, x, nil)
	ok := atomic.CompareAndSwapInt32(&x.v, old, new)
	after(int64(new), ok)
	return ok
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
func (x *Int64) Load() int64 {
	before(Load, x, nil)
	v := atomic.LoadInt64(&x.v)
	after(int64(v), false)
	return v
}

// Store sets the word.
func (x *Int64) Store(v int64) {
	before(Store, x, nil)
	atomic.StoreInt64(&x.v, v)
	after(int64(v), true)
}

// Add adds d and returns the new value.
func (x *Int64) Add(d int64) int64 {
	before(Add, x, nil)
	v := atomic.AddInt64(&x.v, d)
	after(int64(v), true)
	return v
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Int64) CompareAndSwap(old, new int64) bool {
	before(CAS, x, nil)
	ok := atomic.CompareAndSwapInt64(&x.v, old, new)
	after(int64(new), ok)
	return ok
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
func (x *Uint64) Load() uint64 {
	before(Load, x, nil)
	v := atomic.LoadUint64(&x.v)
	after(int64(v), false)
	return v
}

// Store sets the word.
func (x *Uint64) Store(v uint64) {
	before(Store, x, nil)
	atomic.StoreUint64(&x.v, v)
	after(int64(v), true)
}

// Add adds d and returns the new value.
func (x *Uint64) Add(d uint64) uint64 {
	before(Add, x, nil)
	v := atomic.AddUint64(&x.v, d)
	after(int64(v), true)
	return v
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Uint64) CompareAndSwap(old, new uint64) bool {
	before(CAS, x, nil)
	ok := atomic.CompareAndSwapUint64(&x.v, old, new)
	after(int64(new), ok)
	return ok
}

// And keeps the bits of mask, and returns the word before.
func (x *Uint64) And(mask uint64) uint64 {
	before(And, x, nil)
	old := atomic.AndUint64(&x.v, mask)
	after(int64(old&mask), true)
	return old
}

// Or sets bits and returns the word before.
func (x *Uint64) Or(bits uint64) uint64 {
	before(Or, x, nil)
	old := atomic.OrUint64(&x.v, bits)
	after(int64(old|bits), true)
	return old
}

// Bool is an atomic truth value.
type Bool struct {
	_ noCopy
	v atomic.Bool
}

// Load returns the value.
func (x *Bool) Load() bool {
	before(Load, x, nil)
	v := x.v.Load()
	after(number(v), false)
	return v
}

// Store sets the value.
func (x *Bool) Store(v bool) {
	before(Store, x, nil)
	x.v.Store(v)
	after(number(v), true)
}

// CompareAndSwap replaces old by new if the value is old.
func (x *Bool) CompareAndSwap(old, new bool) bool {
	before(CAS, x, nil)
	ok := x.v.CompareAndSwap(old, new)
	after(number(new), ok)
	return ok
}

// Swap stores v and returns the value before.
func (x *Bool) Swap(v bool) bool {
	before(Swap, x, nil)
	old := x.v.Swap(v)
	after(number(old), true)
	return old
}

// Pointer is an atomic pointer.
type Pointer[T any] struct {
	_ noCopy
	v atomic.Pointer[T]
}

// Init sets the pointer. Precondition: as for Uint32.Init.
func (x *Pointer[T]) Init(p *T) { initPointer(&x.v, p) }

// Load returns the pointer.
func (x *Pointer[T]) Load() *T {
	before(Load, x, nil)
	p := x.v.Load()
	after(0, false)
	return p
}

// Store sets the pointer.
func (x *Pointer[T]) Store(p *T) {
	before(Store, x, nil)
	x.v.Store(p)
	after(0, true)
}

// Swap stores p and returns the pointer before.
func (x *Pointer[T]) Swap(p *T) *T {
	before(Swap, x, nil)
	old := x.v.Swap(p)
	after(0, true)
	return old
}

// CompareAndSwap replaces old by new if the pointer is old.
func (x *Pointer[T]) CompareAndSwap(old, new *T) bool {
	before(CAS, x, nil)
	ok := x.v.CompareAndSwap(old, new)
	after(0, ok)
	return ok
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
