// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"runtime"
	"sync/atomic"
)

// Place says whose events a source has.
type Location struct {
	Kind LocationKind
	// Group tells apart runtimes, or runs of ranks, of one process: 1, 2, … The run that the
	// processes of a job make together has 0 in each.
	Group int
	// Index is the slot or the rank.
	Index int
}

// PlaceKind is the kind of a place.
type LocationKind uint8

// The kinds of places.
const (
	SlotLocation LocationKind = 1 + iota // a slot of a runtime
	// what goroutines without a slot do with a runtime's tasks
	OtherLocation
	RankLocation // messages and windows of a rank
)

// String returns the name of the kind.
func (k LocationKind) String() string {
	names := [...]string{SlotLocation: "slot", OtherLocation: "other goroutines", RankLocation: "rank"}
	if k == 0 || int(k) >= len(names) {
		return "unknown place"
	}
	return names[k]
}

// Source is where events come from: a ring, as those who consume see it. Its events come in the
// order in which they were put.
type Source struct {
	ID       int // number in the recording: 0, 1, …
	Location Location
}

// source is what the rings have in common.
type source struct {
	Source
	Wants Set // what is to be recorded
	rec   *Recorder
	over  atomic.Bool // its owner will put nothing more
	told  uint64      // losses that the sinks know of; guarded by Recorder.drain
}

// Recorder returns the recording that the ring belongs to.
func (s *source) Recorder() *Recorder { return s.rec }

// Retire says that nothing more will be put. The ring's memory is free when the sinks have what is
// in it.
func (s *source) Retire() { s.over.Store(true) }

func (s *source) wake() {
	select {
	case s.rec.work <- struct{}{}:
	default:
	}
}

// awaits lets others run where a ring is full and the recording waits for room, and reports whether
// that is so. Who reads needs nothing of who writes.
func (s *source) awaits() bool {
	if !s.rec.opt.Patient && !s.rec.eager.Load() || s.rec.deaf.Load() {
		return false
	}
	s.wake()
	runtime.Gosched()
	return true
}

func (s *source) self() *source { return s }

// ring is either kind of ring, for the reader.
type ring interface {
	self() *source
	take(func([]Record))
	losses() uint64
}
