// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package inproc_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/fabric/inproc"
)

func TestConformance(t *testing.T) {
	fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint {
		eps, err := inproc.New(n)
		require.NoError(t, err)
		return eps
	})
}

func TestNoRanks(t *testing.T) {
	_, err := inproc.New(0)
	require.ErrorIs(t, err, fabric.ErrRank)
}
