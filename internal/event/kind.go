// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

// Kind says what happened. The numbers are those of recorded traces: they are never used again for something
// else, and new ones are added at the end.
type Kind uint8

// The kinds of events. table.go says what each has and means.
const (
	Lost Kind = 1 + iota

	// Tasks.
	Spawned
	Access
	Again
	Ready
	Prepared
	Started
	Skipped
	Ended
	Released
	Completed
	Blocked
	Unblocked
	Resumed
	HoldUp
	HoldDown
	RunFailed

	// Slots.
	SlotTaken
	SlotGiven
	Stolen
	Parked
	Unparked

	// Messages and collectives.
	SendPosted
	RecvPosted
	Matched
	RequestDone
	CollectiveBegun
	Bound

	// Windows and network-attached memory.
	EpochClosing
	EpochClosed
	Put
	Get
	Accumulate
	Durable

	// What ties the parts together.
	RunOfRank

	// More of tasks.
	Refused

	// More of windows.
	WindowMade
	WindowNamed
	WindowFreed
	WindowRemoved
	OperationDone

	kinds // how many there are, plus one
)

// Set is a set of kinds.
type Set uint64

// All has every kind.
const All = Set(1)<<kinds - 2

// Of returns the set of these kinds.
func Of(kinds ...Kind) Set {
	var s Set
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is in s.
func (s Set) Has(k Kind) bool { return s>>k&1 != 0 }

// Fails to compile when there are more kinds than a Set has bits.
const _ = uint(64 - kinds)
