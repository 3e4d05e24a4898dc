//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import (
	"sync/atomic"
	"unsafe"
)

// Explored says that operations on atomics are steps of package explore.
const Explored = true

type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// word is the type of the words of xatomic_unsafe.go in this build, with their sizes. That file
// documents the methods.
type word[T int32 | uint32 | int64 | uint64] struct {
	_ noCopy
	v T
}

type (
	Uint32 = word[uint32]
	Int32  = word[int32]
	Uint64 = word[uint64]
	Int64  = word[int64]
)

func (x *word[T]) load() T {
	if unsafe.Sizeof(x.v) == 4 {
		return T(atomic.LoadUint32((*uint32)(unsafe.Pointer(&x.v))))
	}
	return T(atomic.LoadUint64((*uint64)(unsafe.Pointer(&x.v))))
}

func (x *word[T]) cas(old, new T) bool {
	if unsafe.Sizeof(x.v) == 4 {
		return atomic.CompareAndSwapUint32((*uint32)(unsafe.Pointer(&x.v)), uint32(old), uint32(new))
	}
	return atomic.CompareAndSwapUint64((*uint64)(unsafe.Pointer(&x.v)), uint64(old), uint64(new))
}

// change replaces the word's value v by f(v), and returns both.
func (x *word[T]) change(f func(T) T) (old, new T) {
	for {
		old = x.load()
		if new = f(old); x.cas(old, new) {
			return old, new
		}
	}
}

func (x *word[T]) Init(v T) { x.v = v }

func (x *word[T]) Load() T {
	before(Load, x, nil)
	v := x.load()
	after(int64(v), false)
	return v
}

// peeked is the word of the Peek that has not been completed. Under Before one goroutine runs at a
// time, and no other continues between a Peek and the call that completes it.
var peeked any

// A Peek and its Add are one step: the Add uses the current value. A Peek and its Settle are two
// steps, between which an explorer lets others continue.
func (x *word[T]) Peek() T {
	if Before == nil {
		return x.Load()
	}
	before(Add, x, nil)
	peeked = x
	return x.load()
}

func (x *word[T]) Settle(old, v T) {
	x.Keep(old)
	x.Store(v)
}

func (x *word[T]) Keep(old T) {
	if peeked == any(x) {
		peeked = nil
		after(int64(old), false)
	}
}

func (x *word[T]) Store(v T) {
	before(Store, x, nil)
	x.change(func(T) T { return v })
	after(int64(v), true)
}

func (x *word[T]) Add(d T) T {
	if peeked == any(x) {
		peeked = nil
	} else {
		before(Add, x, nil)
	}
	_, v := x.change(func(v T) T { return v + d })
	after(int64(v), true)
	return v
}

func (x *word[T]) CompareAndSwap(old, new T) bool {
	before(CAS, x, nil)
	ok := x.cas(old, new)
	after(int64(new), ok)
	return ok
}

func (x *word[T]) Swap(v T) T {
	before(Swap, x, nil)
	old, _ := x.change(func(T) T { return v })
	after(int64(old), true)
	return old
}

func (x *word[T]) And(mask T) T {
	before(And, x, nil)
	old, v := x.change(func(v T) T { return v & mask })
	after(int64(v), true)
	return old
}

func (x *word[T]) Or(bits T) T {
	before(Or, x, nil)
	old, v := x.change(func(v T) T { return v | bits })
	after(int64(v), true)
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
func (x *Pointer[T]) Init(p *T) { x.v.Store(p) }

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

// both returns the channel of which c is one direction: a channel is a pointer in any of its types.
func both[T any](c <-chan T) Chan[T] { return *(*Chan[T])(unsafe.Pointer(&c)) }
