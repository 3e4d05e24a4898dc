// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric/inproc"
)

// Ranks of several processes find a deadlock by themselves if no launcher knows them all.
func TestDeadlockAgreed(t *testing.T) {
	checkOften(t)
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
