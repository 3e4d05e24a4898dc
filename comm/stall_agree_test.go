// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/inproc"
)

// Ranks of several processes find a deadlock by themselves where no launcher knows of them all.
func TestDeadlockAgreed(t *testing.T) {
	lookOften(t)
	err := Run(inproc.Divide(t.Context()), Config{Ranks: 3}, func(c *Comm) error {
		switch c.Rank() {
		case 0:
			_, err := c.Recv(Of(make([]int, 1)), 1, 5)
			return err
		case 1:
			return c.Send(Of(make([]int, 1<<16)), 0, 6)
		}
		return nil
	})
	require.ErrorIs(t, err, ErrDeadlock)
	for _, want := range []string{"rank 0 waits in Recv at ", "rank 1 waits in Send at ", "for: Send of 524288 bytes to rank 0", "rank 2 waits in the end of its function"} {
		require.ErrorContains(t, err, want)
	}
}

// What rank 0 gathers is a deadlock only if all have said so twice, with the same numbers, and nothing is under way.
func TestQuorum(t *testing.T) {
	waits := func(sent, here int64) *said { return &said{sent: sent, here: here, waits: "x"} }
	type step struct {
		rank     int
		question uint64
		said     *said
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
		"an answer to an earlier question": {
			{0, 0, waits(0, 0), false, 0}, {1, 0, waits(0, 0), true, 0},
			{1, 0, waits(0, 0), true, 0}, // asked again
			{0, 1, waits(0, 0), false, 0}, {1, 1, waits(0, 0), false, 0},
			{0, 2, waits(0, 0), false, 0}, {1, 2, waits(0, 0), false, 2},
		},
	} {
		g := &quorum{all: make([]*said, 2)}
		for i, s := range steps {
			ask, over := g.take(s.rank, s.question, s.said)
			require.Equal(t, s.ask, ask, "%s, step %d", name, i)
			require.Len(t, over, s.over, "%s, step %d", name, i)
		}
	}
}
