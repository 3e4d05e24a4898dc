// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
)

// A report does not stop the tasks: new origins get numbers while the counts of known origins are
// scaled.
func TestScaledWithNewOrigins(t *testing.T) {
	c := New(0)
	rec, err := event.New(event.Options{Sample: 10, Sinks: []event.Sink{c}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for w := range uintptr(2) {
		wg.Go(func() {
			for i := range uintptr(20_000) {
				rec.Names().Spec(event.Origin{Site: w + 1, Body: i + 1})
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	for running := true; running; {
		select {
		case <-all:
			running = false
		default:
		}
		groups, _, _ := c.Groups()
		require.Empty(t, groups, "no task has been counted")
		samples, _, _ := c.Samples()
		require.Empty(t, samples)
	}
	require.NoError(t, rec.Close())
}
