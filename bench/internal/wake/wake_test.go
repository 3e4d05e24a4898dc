// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/bench/internal/harness"
)

func TestPeersWake(t *testing.T) {
	before := runtime.GOMAXPROCS(2) // as the benchmark does; the futex thread keeps a processor
	defer runtime.GOMAXPROCS(before)
	for _, load := range Workloads() {
		for _, peer := range load.Peers {
			t.Run(load.Name+"/"+peer.Name, func(t *testing.T) {
				probe, err := peer.Open(t.Context(), harness.Params{Workers: 2, Ranks: 1, Size: 20})
				require.NoError(t, err)
				for range 5 {
					v, err := probe.Sample(t.Context())
					if errors.Is(err, harness.ErrSkipped) {
						t.Skip(err)
					}
					require.NoError(t, err)
					require.Positive(t, v)
				}
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				_, err = probe.Sample(ctx)
				require.ErrorIs(t, err, context.Canceled)
				if probe.Close != nil {
					require.NoError(t, probe.Close())
				}
				_, err = peer.Open(t.Context(), harness.Params{Workers: 1, Ranks: 1, Size: 20})
				require.ErrorIs(t, err, harness.ErrSkipped)
			})
		}
	}
}

func TestPingsAreChecked(t *testing.T) {
	p := newPing(0, 0)
	require.NoError(t, p.run(t.Context(), p.answer))
	require.Len(t, p.waits, 3)

	p = newPing(0, 0)
	first := true
	err := p.run(t.Context(), func() {
		p.answer()
		if first {
			defer p.answer() // once too often, before the waker checks
		}
		first = false
	})
	require.ErrorIs(t, err, harness.ErrWrongAnswer)

	p = newPing(0, 0)
	err = p.run(t.Context(), func() {
		p.answered.Add(1)
		p.woken = -time.Second
	})
	require.ErrorIs(t, err, harness.ErrWrongAnswer)
	require.ErrorContains(t, err, "before it was sent")
}

func TestMedian(t *testing.T) {
	p := newPing(0, 0)
	require.Zero(t, p.median())
	p.waits = []time.Duration{9, 1, 4}
	require.Equal(t, 4.0, p.median())
	p.waits = []time.Duration{9, 1, 4, 2}
	require.Equal(t, 3.0, p.median())
}
