// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package soak_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/soak"
)

// Rounds reports what grows from round to round, and nothing else.
func TestRounds(t *testing.T) {
	stop, over := make(chan struct{}), make(chan struct{})
	started := 0
	defer func() {
		close(stop)
		for range started {
			<-over
		}
	}()
	var kept [][]byte
	work, sum := 1<<15, 0
	// cache keeps size bytes more in each of the first 20 rounds.
	cache := func(size int) func() error {
		filled := 0
		return func() error {
			if filled < 20 {
				kept = append(kept, make([]byte, size))
				filled++
			}
			return nil
		}
	}
	for _, c := range []struct {
		size int
		what string
	}{{48 << 10, ""}, {128 << 10, "live heap"}} {
		grown, longer, err := soak.Rounds(16, cache(c.size))
		require.NoError(t, err)
		if c.what == "" {
			require.Empty(t, grown+longer, "a cache that fills and is small")
		} else {
			require.Contains(t, grown, c.what, "a cache that fills and is large")
		}
	}
	for what, round := range map[string]func() error{
		"": func() error { return nil },
		"live heap": func() error {
			kept = append(kept, make([]byte, 64<<10))
			return nil
		},
		"goroutines": func() error {
			started++
			go func() { <-stop; over <- struct{}{} }()
			return nil
		},
		"processor time": func() error {
			for i := range work {
				sum += i
			}
			work += 1 << 19
			return nil
		},
	} {
		kept, longer, err := soak.Rounds(16, round)
		require.NoError(t, err)
		if what == "" {
			require.Empty(t, kept+longer)
		} else {
			require.Contains(t, kept+longer, what)
		}
	}
	require.NotZero(t, len(kept)+sum)
	_, _, err := soak.Rounds(8, func() error { return errors.ErrUnsupported })
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
