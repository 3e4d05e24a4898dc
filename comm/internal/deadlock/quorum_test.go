// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The reports are a deadlock only if all processes have reported twice, with the same numbers, and
// no frame is under way.
func TestQuorum(t *testing.T) {
	waits := func(sent, here int64) *Inspection { return &Inspection{Sent: sent, Here: here} }
	type step struct {
		process int
		query   uint64
		found   *Inspection
		ask     bool
		over    int
	}
	for name, steps := range map[string][]step{
		"a deadlock": {
			{0, 0, waits(2, 1), false, 0}, {1, 0, waits(1, 2), true, 0},
			{1, 1, waits(1, 2), false, 0}, {0, 1, waits(2, 1), false, 2},
		},
		"a frame is under way": {
			{0, 0, waits(2, 1), false, 0}, {1, 0, waits(1, 1), false, 0},
			{1, 0, waits(1, 2), true, 0},
		},
		"one is active": {
			{0, 0, waits(2, 1), false, 0}, {0, 0, nil, false, 0}, {1, 0, waits(1, 2), false, 0},
		},
		"one is active when the query comes": {
			{0, 0, waits(2, 1), false, 0}, {1, 0, waits(1, 2), true, 0},
			{0, 1, waits(2, 1), false, 0}, {1, 1, nil, false, 0},
		},
		"a report was old: the sums are equal by accident": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(2, 2), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has sent since": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(2, 1), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has taken a frame since": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(1, 2), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has reported something new after the query": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(1, 1), false, 0}, {0, 0, waits(2, 1), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has sent after the query, reported that, and answers": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 0, waits(2, 1), false, 0}, {0, 1, waits(2, 1), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"an answer to an earlier query": {
			{0, 0, waits(0, 0), false, 0}, {1, 0, waits(0, 0), true, 0},
			{1, 0, waits(0, 0), true, 0}, // a second query
			{0, 1, waits(0, 0), false, 0}, {1, 1, waits(0, 0), false, 0},
			{0, 2, waits(0, 0), false, 0}, {1, 2, waits(0, 0), false, 2},
		},
	} {
		g := newQuorum(2)
		for i, s := range steps {
			ask, over := g.add(s.process, s.query, s.found)
			require.Equal(t, s.ask, ask, "%s, step %d", name, i)
			require.Len(t, over, s.over, "%s, step %d", name, i)
		}
	}
}
