// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"

	"weft/internal/names"
)

// Mode is how an access uses its object.
type Mode uint8

// The modes of OmpSs-2's discrete dependencies that weft has.
const (
	ModeIn         Mode = iota // read
	ModeOut                    // overwrite; orders as ModeInOut
	ModeInOut                  // read and write
	ModeConcurrent             // update together with neighbours of the same mode
	ModeReduce                 // contribute to a private copy, which is combined later
	// read and write, one at a time, in any order with neighbours of the same mode
	ModeCommutative
	numModes
)

// This line fails to compile if package names does not name each mode.
const _ = -uint(len(names.Modes) ^ int(numModes))

// String returns the name of the mode's constructor.
func (m Mode) String() string {
	if m < numModes {
		return names.Modes[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// combine returns the mode of a task that accesses one object as a and as b: equal modes stay, two
// different ones make a writer (reference §1.1). Out and InOut order alike, so their union is
// InOut.
func combine(a, b Mode) Mode {
	if a == b {
		return a
	}
	return ModeInOut
}

// order returns the mode that stands for m in ordering: InOut for Out, else m.
func (m Mode) order() Mode {
	if m == ModeOut {
		return ModeInOut
	}
	return m
}

// Both returns the mode of a task that accesses one object in mode m and in mode x: InOut if they
// differ. Out counts as InOut.
func (m Mode) Both(x Mode) Mode { return combine(m.order(), x.order()) }

// The declarations of a task, as bits of the state word.

// union returns the state of an access that one task declares twice, as in state s and as x.
func union(s uint32, x Access) uint32 {
	if s&isReduce != 0 {
		return s | x.bits()
	}
	if combine(modeOf(s), x.Mode().order()) != modeOf(s) {
		s &^= isReader | inRun | isCommut
	}
	if !x.weak {
		s &^= isWeak
	}
	return s
}

// bits returns the constant bits of the access's state word.
func (a Access) bits() uint32 {
	var s uint32
	switch a.Mode() {
	case ModeIn:
		s = isReader
	case ModeConcurrent:
		s = inRun
	case ModeReduce:
		if a.weak {
			return isReduce | isWeak
		}
		return isReduce | isWeak | isPart
	case ModeCommutative:
		s = inRun | isCommut
	}
	if a.weak {
		s |= isWeak
	}
	if a.mode&heldMode != 0 {
		s = underHolder(s)
	}
	return s
}

// modeOf returns the mode in a state word, with Out as InOut.
func modeOf(s uint32) Mode {
	switch {
	case s&isReader != 0:
		return ModeIn
	case s&isCommut != 0:
		return ModeCommutative
	case s&inRun != 0:
		return ModeConcurrent
	case s&isReduce != 0:
		return ModeReduce
	}
	return ModeInOut
}
