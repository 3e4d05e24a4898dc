//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package xatomic

// Kind is the kind of an operation.
type Kind uint8

const (
	Load Kind = iota
	Store
	Add
	Swap
	CAS
	Lock
	Unlock
	TryLock
	Send
	Recv
	Yield
	And
	Or
)

var kindNames = [...]string{"load", "store", "add", "swap", "cas", "lock", "unlock", "trylock", "send", "recv", "yield", "and", "or"}

func (k Kind) String() string { return kindNames[k] }

// Before, if not nil, is called before each operation other than Init. x is the word, the lock or
// the channel. can, if not nil, reports whether the operation would complete at once: Before
// returns only when it would. After, if Before is set, is called after each operation, with the
// value that the operation has read or written, and whether it has changed anything.
//
// They may be set while no operation runs.
var (
	Before func(k Kind, x any, can func() bool)
	After  func(v int64, wrote bool)
)

// Step, if not nil, is called before and after each operation other than Init.
var Step func()

// Start, if not nil, starts the goroutines of Go.
var Start func(f func())

func before(k Kind, x any, can func() bool) {
	if Step != nil {
		Step()
	}
	if Before != nil {
		Before(k, x, can)
	}
}

func after(v int64, wrote bool) {
	if Step != nil {
		Step()
	}
	if After != nil {
		After(v, wrote)
	}
}
