// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/check"
)

// recordAll makes nearly all tests of the package ones of the recording, too: go test ./task -recorded.
var recordAll = flag.Bool("recorded", false, "record the runtimes of the tests and check the events")

// recorded returns cfg with a recording whose events are replayed through the legal states of tasks and slots. The test fails
// if one is not legal.
func recorded(t testing.TB, cfg Config) Config {
	t.Helper()
	rec, err := event.New(event.Options{Ring: 1 << 17, Sinks: []event.Sink{check.Sink(check.Options{Name: where(&cfg)})}})
	require.NoError(t, err)
	cfg.Trace = rec
	t.Cleanup(func() {
		err := rec.Close()
		if !*recordAll {
			require.Zero(t, rec.Lost(), "the ring of the test is too small")
		}
		require.NoError(t, err)
	})
	return cfg
}

func where(cfg *Config) func(int, uint32) string {
	return func(_ int, spec uint32) string {
		o := cfg.Trace.Names().Origin(spec)
		return o.Label + " " + o.Where()
	}
}
