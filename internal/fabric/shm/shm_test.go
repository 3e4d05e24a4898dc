//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
)

// openAll returns n connected endpoints; change, if not nil, changes their configurations.
func openAll(t testing.TB, n int, change func(*Config)) []*Endpoint {
	eps := make([]*Endpoint, n)
	for r := range eps {
		cfg := Config{Rank: r, Size: n, Lookup: func(peer int) (string, error) { return eps[peer].Addr(), nil }}
		if change != nil {
			change(&cfg)
		}
		e, err := New(cfg)
		require.NoError(t, err)
		eps[r] = e
	}
	t.Cleanup(func() {
		var wg sync.WaitGroup
		for _, e := range eps {
			wg.Go(func() { _ = e.Close() })
		}
		wg.Wait()
	})
	return eps
}

func asFabric(eps []*Endpoint) []fabric.Endpoint {
	out := make([]fabric.Endpoint, len(eps))
	for i, e := range eps {
		out[i] = e
	}
	return out
}

func TestConformance(t *testing.T) {
	for name, from := range map[string]int{"one copy": 1, "pieces": -1} {
		t.Run(name, func(t *testing.T) {
			fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint {
				return asFabric(openAll(t, n, func(c *Config) { c.SingleCopy = from }))
			})
		})
	}
	if single {
		return
	}
	single = true
	t.Cleanup(func() { single = false })
	t.Run("one processor", func(t *testing.T) {
		fabrictest.Run(t, func(t *testing.T, n int) []fabric.Endpoint { return asFabric(openAll(t, n, nil)) })
	})
}

// Polling alone delivers: what is polled needs no sleeper.
func TestConformancePolled(t *testing.T) {
	for name, from := range map[string]int{"one copy": 1, "pieces": -1} {
		t.Run(name, func(t *testing.T) {
			fabrictest.RunPolled(t, func(t *testing.T, n int, hold <-chan struct{}) []fabric.Endpoint {
				return asFabric(openAll(t, n, func(c *Config) { c.SingleCopy, c.Hold = from, hold }))
			})
		})
	}
}
