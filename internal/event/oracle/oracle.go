// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle makes the checker of recordings the oracle of a test.
//
//	rec := oracle.New(t)
//	rt := task.New(task.Config{Trace: rec})
//	… comm.Run(ctx, comm.Config{Ranks: 2, Trace: rec}, …) …
//
// When the test has ended, all that its runtimes and ranks have done must have been legal, from the
// first event to the last: each task, slot, request and window in its states, and nothing left half
// done. A runtime that records must be closed by then.
package oracle

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/event"
	"weft/internal/event/check"
)

// ring is how many events of a source wait for the checker, at most. Those that make more wait for
// it: nothing is lost.
const ring = 1 << 12

// New begins a recording that is checked when t is over.
func New(t testing.TB) *event.Recorder {
	t.Helper()
	rec, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := End(rec); err != nil {
			t.Errorf("what was recorded is not legal: %v", err)
		}
	})
	return rec
}

// Start begins a recording for what is no test, as for all the tests of a package.
func Start() (rec *event.Recorder, err error) {
	name := func(_ int, spec uint32) string {
		o := rec.Names().Origin(spec)
		return o.Label + " " + o.Where()
	}
	rec, err = event.New(event.Options{Ring: ring, Patient: true, Sinks: []event.Sink{check.Sink(check.Options{Name: name})}})
	return rec, err
}

// End ends it. The error is what was not legal.
func End(rec *event.Recorder) error {
	err := rec.Close()
	if n := rec.Lost(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d events came when the recording had ended", n))
	}
	return err
}
