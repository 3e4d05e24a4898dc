// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// run runs a body on n ranks, by direct calls and by frames, and requires success and that no goroutine is left.
func run(t testing.TB, n int, body func(c *Comm) error) {
	t.Helper()
	for _, frames := range []bool{false, true} {
		cfg := Config{Ranks: n}
		cfg.private.frames = frames
		require.NoError(t, Run(context.Background(), cfg, body), "frames: %v", frames)
		requireNoRankGoroutines(t)
	}
}

// requireNoRankGoroutines fails if a goroutine of a run is alive. Goroutines of other tests do not disturb it. One that has
// said that it is done may need a moment to be gone.
func requireNoRankGoroutines(t testing.TB) {
	t.Helper()
	left := ""
	for range 1000 {
		if left = rankGoroutine(); left == "" {
			return
		}
		runtime.Gosched()
	}
	require.Fail(t, "goroutine left behind", left)
}

func rankGoroutine() string {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, "weft/comm.runRank") || strings.Contains(g, "weft/comm.Run.func") {
			return g
		}
	}
	return ""
}

// expect returns an error if got is not want: for bodies, where require must not be used.
func expect[T comparable](what string, want, got T) error {
	if want != got {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func expectSlice[T comparable](what string, want, got []T) error {
	if len(want) != len(got) {
		return fmt.Errorf("%s has %d elements, want %d", what, len(got), len(want))
	}
	for i := range want {
		if want[i] != got[i] {
			return fmt.Errorf("%s[%d] is %v, want %v", what, i, got[i], want[i])
		}
	}
	return nil
}
