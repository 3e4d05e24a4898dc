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

type deaf struct{}

func (deaf) Deliver(int, fabric.Frame) {}
func (deaf) Lost(int, error)           {}

// A rank that has closed sends nothing and takes nothing, by frame or transfer, and others go on.
func TestClosedRank(t *testing.T) {
	eps, err := inproc.New(3)
	require.NoError(t, err)
	for _, ep := range eps {
		ep.Bind(deaf{})
	}
	push := func(from, to int) (err error) {
		ends := 0
		eps[from].Push(to, 1, []byte{1}, func(e error) { err = e; ends++ })
		require.Equal(t, 1, ends)
		return err
	}
	require.NoError(t, eps[1].Close())
	for from := range eps {
		for to := range eps {
			var want error
			if from == 1 || to == 1 {
				want = fabric.ErrClosed
			}
			require.Equal(t, want, eps[from].Send(to, fabric.Frame{}), "%d to %d", from, to)
			require.Equal(t, want, push(from, to), "%d to %d", from, to)
		}
	}
	require.ErrorIs(t, push(0, 3), fabric.ErrRank)
	require.ErrorIs(t, push(0, -1), fabric.ErrRank)
}
