//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
	"weft/internal/fabric/fabrictest"
	"weft/internal/progress"
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

// bind binds an endpoint to a handler and an engine.
func bind(e *Endpoint, h fabric.Handler) *progress.Engine { return bindHeld(e, h, nil) }

// bindHeld is bind, with an engine that polls only in its callers' goroutines until hold is closed.
func bindHeld(e *Endpoint, h fabric.Handler, hold <-chan struct{}) *progress.Engine {
	g := progress.New(e.Sources(), progress.Config{Ranks: 1, Hold: hold})
	e.Bind(h, g)
	return g
}

type mute struct{}

func (mute) Deliver(*fabric.Frame) bool { return false }
func (mute) Lost(int, error)            {}

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
}

// Ranks join and leave, as far as there is room.
func TestGrowing(t *testing.T) {
	fabrictest.RunGrowing(t, func(t *testing.T, size, room int) ([]fabric.Endpoint, func(int) fabric.Endpoint) {
		var addrs sync.Map // by rank
		lookup := func(peer int) (string, error) {
			addr, ok := addrs.Load(peer)
			if !ok {
				return "", errors.New("it has not joined")
			}
			return addr.(string), nil
		}
		join := func(rank, size int) fabric.Endpoint {
			e, err := New(Config{Rank: rank, Size: size, Room: room, Lookup: lookup})
			require.NoError(t, err)
			t.Cleanup(func() { _ = e.Close() })
			addrs.Store(rank, e.Addr())
			return e
		}
		var eps []fabric.Endpoint
		for rank := range size {
			eps = append(eps, join(rank, size))
		}
		require.ErrorIs(t, eps[0].Grow(room+1), fabric.ErrRank)
		return eps, func(rank int) fabric.Endpoint { return join(rank, rank+1) }
	})
}

// The conformance suite, with other goroutines that poll meanwhile.
func TestConformancePolling(t *testing.T) {
	fabrictest.RunPolling(t, func(t *testing.T, n int) []fabric.Endpoint { return asFabric(openAll(t, n, nil)) })
}

// Shared refuses ranks that do not exist, and Send reports malformed addresses.
func TestNoSuchRank(t *testing.T) {
	eps := openAll(t, 2, nil)
	for _, rank := range []int{-1, 2} {
		_, err := eps[0].Shared(rank)
		require.ErrorIs(t, err, fabric.ErrRank)
		require.ErrorContains(t, err, fmt.Sprintf("%d of 2", rank))
	}
	for _, rank := range []int{0, 1} {
		memory, err := eps[0].Shared(rank)
		require.NoError(t, err)
		require.NotEmpty(t, memory)
	}
	good := strings.Fields(eps[1].Addr())
	require.Len(t, good, 5)
	for name, change := range map[string]func(f []string){
		"no process":    func(f []string) { f[0] = "0" },
		"process -1":    func(f []string) { f[0] = "-1" },
		"no number":     func(f []string) { f[1] = "x" },
		"short token":   func(f []string) { f[3] = f[3][2:] },
		"odd token":     func(f []string) { f[3] = f[3][1:] },
		"long token":    func(f []string) { f[3] += "00" },
		"no hex":        func(f []string) { f[3] = "x" + f[3][1:] },
		"too few words": func(f []string) { f[4] = "" },
	} {
		f := slices.Clone(good)
		change(f)
		addr := strings.TrimSpace(strings.Join(f, " "))
		e, err := New(Config{Rank: 0, Size: 2, Lookup: func(int) (string, error) { return addr, nil }})
		require.NoError(t, err)
		require.ErrorContains(t, e.Send(1, fabric.Frame{}), fmt.Sprintf("%q is not an address", addr), name)
		require.NoError(t, e.Close())
	}
}
