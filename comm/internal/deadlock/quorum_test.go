// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deadlock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What the first process gathers is a deadlock only if all have said so twice, with the same
// numbers, and nothing is under way.
func TestQuorum(t *testing.T) {
	waits := func(sent, here int64) *Found { return &Found{Sent: sent, Here: here} }
	type step struct {
		process  int
		question uint64
		found    *Found
		ask      bool
		over     int
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
		"one moves": {
			{0, 0, waits(2, 1), false, 0}, {0, 0, nil, false, 0}, {1, 0, waits(1, 2), false, 0},
		},
		"one moves when it is asked": {
			{0, 0, waits(2, 1), false, 0}, {1, 0, waits(1, 2), true, 0},
			{0, 1, waits(2, 1), false, 0}, {1, 1, nil, false, 0},
		},
		"what was said was old: the numbers fit by accident": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(2, 2), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has sent since": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(2, 1), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has been sent to since": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(1, 2), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"one has said something new since it was asked": {
			{0, 0, waits(1, 1), false, 0}, {1, 0, waits(1, 1), true, 0},
			{0, 1, waits(1, 1), false, 0}, {0, 0, waits(2, 1), false, 0}, {1, 1, waits(1, 1), false, 0},
		},
		"an answer to an earlier question": {
			{0, 0, waits(0, 0), false, 0}, {1, 0, waits(0, 0), true, 0},
			{1, 0, waits(0, 0), true, 0}, // asked again
			{0, 1, waits(0, 0), false, 0}, {1, 1, waits(0, 0), false, 0},
			{0, 2, waits(0, 0), false, 0}, {1, 2, waits(0, 0), false, 2},
		},
	} {
		g := newQuorum(2)
		for i, s := range steps {
			ask, over := g.take(s.process, s.question, s.found)
			require.Equal(t, s.ask, ask, "%s, step %d", name, i)
			require.Len(t, over, s.over, "%s, step %d", name, i)
		}
	}
}
