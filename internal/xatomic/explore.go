//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

import "sync/atomic"

// Step, if it is set, is called before and after each operation other than Init: an explorer
// switches there from one goroutine to another. It may be set while no operation runs.
var Step func()

func step() {
	if Step != nil {
		Step()
	}
}

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
	step()
	defer step()
	return atomic.LoadUint32(&x.v)
}

// Store sets the word.
func (x *Uint32) Store(v uint32) {
	step()
	defer step()
	atomic.StoreUint32(&x.v, v)
}

// Add adds d and returns the new value.
func (x *Uint32) Add(d uint32) uint32 {
	step()
	defer step()
	return atomic.AddUint32(&x.v, d)
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Uint32) CompareAndSwap(old, new uint32) bool {
	step()
	defer step()
	return atomic.CompareAndSwapUint32(&x.v, old, new)
}

// Swap stores v and returns the value before.
func (x *Uint32) Swap(v uint32) uint32 {
	step()
	defer step()
	return atomic.SwapUint32(&x.v, v)
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
	step()
	defer step()
	return atomic.LoadInt32(&x.v)
}

// Add adds d and returns the new value.
func (x *Int32) Add(d int32) int32 {
	step()
	defer step()
	return atomic.AddInt32(&x.v, d)
}

// CompareAndSwap replaces old by new if the word holds old.
func (x *Int32) CompareAndSwap(old, new int32) bool {
	step()
	defer step()
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
func (x *Int64) Load() int64 {
	step()
	defer step()
	return atomic.LoadInt64(&x.v)
}

// Add adds d and returns the new value.
func (x *Int64) Add(d int64) int64 {
	step()
	defer step()
	return atomic.AddInt64(&x.v, d)
}
