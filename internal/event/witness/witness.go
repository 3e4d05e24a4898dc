// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package witness makes the checker of recordings the oracle of a test.
//
//	rec := witness.New(t)
//	rt := task.New(task.Config{Trace: rec})
//	… comm.Run(ctx, comm.Config{Ranks: 2, Trace: rec}, …) …
//
// When the test has ended, all that its runtimes and ranks have done must have been legal, from the first event to the last: each task, slot, request and
// window in its states, and nothing left half done. A runtime that records must be closed by then.
package witness

import (
	"testing"

	"weft/internal/event"
	"weft/internal/event/check"
)

// ring is how many events of a source there is room for: more than a test makes while the checker has no turn, on a busy machine.
const ring = 1 << 17

// New begins a recording that is checked when t is over.
func New(t testing.TB) *event.Recorder {
	t.Helper()
	return Sized(t, ring)
}

// Sized is New for tests of many small runs: each source makes no more events than that, a power of two.
func Sized(t testing.TB, ring int) *event.Recorder {
	t.Helper()
	rec, err := Start(ring)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		lost, err := End(rec)
		if err != nil {
			t.Errorf("what was recorded is not legal: %v", err)
		}
		if lost > 0 {
			t.Errorf("%d events were lost: the test makes more than the checker's ring takes; record less of it", lost)
		}
	})
	return rec
}

// Start begins a recording for what is no test, as for all the tests of a package.
func Start(ring int) (*event.Recorder, error) {
	var rec *event.Recorder
	name := func(_ int, spec uint32) string {
		o := rec.Names().Origin(spec)
		return o.Label + " " + o.Where()
	}
	rec, err := event.New(event.Options{Ring: ring, Sinks: []event.Sink{check.Sink(check.Options{Name: name})}})
	return rec, err
}

// End ends it. The error is what was not legal. Where events were lost, none is found.
func End(rec *event.Recorder) (lost uint64, err error) {
	err = rec.Close()
	return rec.Lost(), err
}
