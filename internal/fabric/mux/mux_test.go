// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/fabric/inproc"
	"weft/internal/fabric/tcp"
)

// Pairs whose ranks have one parity go in the process, others over TCP.
func open(t *testing.T, n int) []fabric.Endpoint {
	near, err := inproc.New(n)
	require.NoError(t, err)
	far := make([]*tcp.Endpoint, n)
	out := make([]fabric.Endpoint, n)
	for r := range n {
		far[r], err = tcp.New(tcp.Config{Rank: r, Size: n, Secret: make([]byte, 32),
			Lookup: func(_ context.Context, peer int) (string, error) { return far[peer].Addr(), nil }})
		require.NoError(t, err)
		peers := make([]fabric.Endpoint, n)
		for p := range peers {
			peers[p] = fabric.Endpoint(far[r])
			if p%2 == r%2 {
				peers[p] = near[r]
			}
		}
		out[r] = New(r, peers)
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, e := range out {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
	})
	return out
}

func TestConformance(t *testing.T) { fabrictest.Run(t, open) }

func TestKinds(t *testing.T) {
	e := open(t, 4)[1]
	for p, want := range []string{"tcp", "inproc", "tcp", "inproc"} {
		require.Equal(t, want, e.Caps(p).Kind)
	}
}

func TestOneFabricIsItself(t *testing.T) {
	eps, err := inproc.New(2)
	require.NoError(t, err)
	require.Same(t, eps[1], New(1, []fabric.Endpoint{eps[1], eps[1]}))
	require.Panics(t, func() { New(0, []fabric.Endpoint{eps[0], eps[1]}) })
}
