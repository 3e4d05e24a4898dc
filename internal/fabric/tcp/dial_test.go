// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// A rank's attempt to connect fails after its peer has connected: the peer is not lost.
func TestFailedDialAfterAConnection(t *testing.T) {
	eps := openAll(t, 2, func(c *Config) {
		if c.Rank == 1 {
			c.Lookup = func(context.Context, int) (string, error) { return "", errors.New("there is no such rank") }
		}
	})
	cs := bindAll(eps)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { return cs[1].n.Load() == 1 })
	eps[1].dial(eps[1].peers.At(0))
	require.NoError(t, eps[1].Send(0, fabric.Frame{}))
	eventually(t, func() bool { return cs[0].n.Load() == 1 })
	require.Empty(t, cs[0].lost)
	require.Empty(t, cs[1].lost)
}
