//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A sleeper that is up long after it was called says so.
func TestLate(t *testing.T) {
	late := make(chan struct{}, 1)
	e := openAll(t, 1, func(c *Config) { c.Late = func() { late <- struct{}{} } })[0]
	e.Bind(nil)
	var rung [ringBytes]byte
	binary.NativeEndian.PutUint64(rung[:], now()-uint64(lateAfter))
	_, err := e.bell.out.Write(rung[:])
	require.NoError(t, err)
	<-late

	e.bell.ring() // which says no time
	ago, err := func() (time.Duration, error) {
		b, err := newBell()
		require.NoError(t, err)
		defer func() { require.NoError(t, b.close()) }()
		b.ring()
		return b.wait()
	}()
	require.NoError(t, err)
	require.Zero(t, ago)
}
