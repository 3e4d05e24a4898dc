// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import "fmt"

// Mode is how an access uses its object.
type Mode uint8

// The modes of OmpSs-2's discrete dependencies that weft has.
const (
	ModeIn          Mode = iota // read
	ModeOut                     // overwrite; orders as ModeInOut
	ModeInOut                   // read and write
	ModeConcurrent              // update together with the neighbours of the same mode
	ModeReduce                  // contribute to a private copy, which is combined later
	ModeCommutative             // read and write, in any order with the neighbours of the same mode, one at a time
)

// String returns the name of the constructor of the mode.
func (m Mode) String() string {
	switch m {
	case ModeIn:
		return "In"
	case ModeOut:
		return "Out"
	case ModeInOut:
		return "InOut"
	case ModeConcurrent:
		return "Concurrent"
	case ModeReduce:
		return "Reduce"
	case ModeCommutative:
		return "Commutative"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// combine returns the mode of one task that accesses one object as a and as b:
// the same mode stays, two different ones make a writer (reference §1.1).
// Out and InOut order alike, so their union is InOut.
func combine(a, b Mode) Mode {
	if a == b {
		return a
	}
	return ModeInOut
}

// union returns the state of an access that one task declares twice, as in state s and as x.
func union(s uint32, x Access) uint32 {
	if s&isReduce != 0 {
		return s | x.bits()
	}
	if combine(modeOf(s), x.Mode().order()) != modeOf(s) {
		s &^= isReader | isGroup | isCommut
	}
	if !x.weak {
		s &^= isWeak
	}
	return s
}

// bits returns the constant part of the state word of an access.
func (a Access) bits() uint32 {
	var s uint32
	switch a.Mode() {
	case ModeIn:
		s = isReader
	case ModeConcurrent:
		s = isGroup
	case ModeReduce:
		return a.reduceBits()
	case ModeCommutative:
		s = isGroup | isCommut
	}
	if a.weak {
		s |= isWeak
	}
	if a.mode&heldMode != 0 {
		s = underHolder(s)
	}
	return s
}

// order returns the mode that orders as m does: Out is InOut by another name.
func (m Mode) order() Mode {
	if m == ModeOut {
		return ModeInOut
	}
	return m
}

// modeOf returns the mode in a state word, with Out as InOut.
func modeOf(s uint32) Mode {
	switch {
	case s&isReader != 0:
		return ModeIn
	case s&isCommut != 0:
		return ModeCommutative
	case s&isGroup != 0:
		return ModeConcurrent
	case s&isReduce != 0:
		return ModeReduce
	}
	return ModeInOut
}
