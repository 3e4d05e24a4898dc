// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"runtime"
	"sync/atomic"
)

// Location says which slot or rank a source belongs to.
type Location struct {
	Kind LocationKind
	// Group distinguishes the runtimes, or the runs of ranks, of one process: 1, 2, … The run that
	// the processes of a job make together has group 0 in each process.
	Group int
	// Index is the slot or the rank.
	Index int
}

// LocationKind is the kind of a location.
type LocationKind uint8

// The kinds of locations.
const (
	SlotLocation  LocationKind = 1 + iota // a slot of a runtime
	OtherLocation                         // goroutines without a slot that act on a runtime's tasks
	RankLocation                          // messages and windows of a rank
)

// String returns the name of the kind.
func (k LocationKind) String() string {
	names := [...]string{SlotLocation: "slot", OtherLocation: "other goroutines", RankLocation: "rank"}
	if k == 0 || int(k) >= len(names) {
		return "unknown location"
	}
	return names[k]
}

// Source is a ring as sinks see it. Its records arrive in the order in which they were put.
type Source struct {
	ID       int      // number in the recording: 0, 1, …
	Location Location `json:"Place"` // the field's name in the trace format
}

// source is the part that both kinds of rings share.
type source struct {
	Source
	Wants    Set // the kinds to record
	rec      *Recorder
	over     atomic.Bool // retired: the owner puts no more records
	reported uint64      // lost records that sinks were told of; guarded by Recorder.drain
}

// Recorder returns the ring's recorder.
func (s *source) Recorder() *Recorder { return s.rec }

// Retire promises that no more records are put. The ring's memory is freed after the sinks have
// received its records.
func (s *source) Retire() { s.over.Store(true) }

func (s *source) wake() {
	select {
	case s.rec.work <- struct{}{}:
	default:
	}
}

// waitForRoom is called by the writer of a full ring. If the recording waits for room (Patient,
// Eager), waitForRoom wakes the reader, yields the processor and returns true. Waiting cannot
// deadlock: the reader needs nothing from a writer.
func (s *source) waitForRoom() bool {
	if !s.rec.opt.Patient && !s.rec.eager.Load() || s.rec.closing.Load() {
		return false
	}
	s.wake()
	runtime.Gosched()
	return true
}

func (s *source) self() *source { return s }

// ring is the reader's interface to both kinds of rings.
type ring interface {
	self() *source
	take(func([]Record))
	losses() uint64
}
