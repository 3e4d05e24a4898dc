// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package oracle makes the checker of recordings the oracle of a test.
//
//	rec := oracle.New(t)
//	rt := task.New(task.Config{Trace: rec})
//	… comm.Run(ctx, comm.Config{Ranks: 2, Trace: rec}, …) …
//
// At the end of the test, everything that its runtimes and ranks have recorded must be legal: each
// task, slot, request and window follows its states, and none is left unfinished. A runtime that
// records must be closed by then.
package oracle

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/event"
	"weft/internal/event/check"
)

// ring is how many records of a source are buffered for the checker. A writer that finds its ring
// full waits: no record is lost.
const ring = 1 << 12

// New begins a recording that is checked at the end of t.
func New(t testing.TB) *event.Recorder {
	t.Helper()
	rec, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := End(rec); err != nil {
			t.Errorf("the recording is not legal: %v", err)
		}
	})
	return rec
}

// Start begins a recording outside of a test, such as for all tests of a package.
func Start() (rec *event.Recorder, err error) {
	name := func(_ int, spec uint32) string {
		o := rec.Names().Origin(spec)
		return o.Label + " " + o.Where()
	}
	rec, err = event.New(event.Options{Ring: ring, Patient: true, Sinks: []event.Sink{check.Sink(check.Options{Name: name})}})
	return rec, err
}

// End closes the recording. Its error lists what was not legal.
func End(rec *event.Recorder) error {
	err := rec.Close()
	if n := rec.Lost(); n > 0 {
		err = errors.Join(err, fmt.Errorf("%d trace events were recorded after the recording had ended", n))
	}
	return err
}
