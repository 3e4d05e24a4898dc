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

// Pairs of ranks that are both even or both odd use the process's memory, others TCP.
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
		out[r] = New(r, peers, nil)
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

// A rank that joins is reached by the fabric that more chooses; without more, no rank can join.
func TestGrowing(t *testing.T) {
	fabrictest.RunGrowing(t, func(t *testing.T, size, _ int) ([]fabric.Endpoint, func(int) fabric.Endpoint) {
		a, err := inproc.New(size)
		require.NoError(t, err)
		b, err := inproc.New(size)
		require.NoError(t, err)
		of := func(self int) func(peer int) fabric.Endpoint {
			return func(peer int) fabric.Endpoint {
				if (self+peer)%2 == 0 {
					return inproc.At(a[0], self)
				}
				return inproc.At(b[0], self)
			}
		}
		join := func(self, size int) fabric.Endpoint {
			var peers []fabric.Endpoint
			for peer := range size {
				peers = append(peers, of(self)(peer))
			}
			return New(self, peers, of(self))
		}
		eps := []fabric.Endpoint{join(0, size), join(1, size)}
		require.ErrorIs(t, New(0, []fabric.Endpoint{a[0], b[0]}, nil).Grow(size+1), fabric.ErrUnsupported)
		return eps, func(rank int) fabric.Endpoint { return join(rank, rank+1) }
	})
}

func TestOneFabricIsItself(t *testing.T) {
	eps, err := inproc.New(2)
	require.NoError(t, err)
	require.Same(t, eps[1], New(1, []fabric.Endpoint{eps[1], eps[1]}, nil))
	require.Panics(t, func() { New(0, []fabric.Endpoint{eps[0], eps[1]}, nil) })
}
