// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// In a run that has failed, Close does not wait for a peer that does not poll, and frames that were
// sent before arrive.
func TestFailedRunDoesNotLinger(t *testing.T) {
	hold := make(chan struct{})
	failed := new(atomic.Bool)
	eps := openAll(t, 2, func(c *Config) { c.Failed = failed })
	c := newCollect()
	bind(eps[0], newCollect())
	g := bindHeld(eps[1], c, hold) // its process computes, and does not poll
	t.Cleanup(func() { close(hold) })
	require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{0: 0}}))
	for g.Try(); c.n.Load() == 0; g.Try() {
		time.Sleep(time.Millisecond) // until the two are connected
	}
	require.NoError(t, eps[0].Send(1, fabric.Frame{Head: [fabric.HeadWords]uint64{0: 1}}))
	failed.Store(true)
	start := time.Now()
	require.NoError(t, eps[0].Close())
	require.Less(t, time.Since(start), eps[0].cfg.Linger/2)
	g.Try()
	eventually(t, func() bool { g.Try(); return c.n.Load() == 2 })
}

// In a run that has not failed, Close waits for such a peer.
func TestRunThatGoesOnLingers(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	eps := openAll(t, 2, func(c *Config) { c.Failed = new(atomic.Bool) })
	c := newCollect()
	bind(eps[0], newCollect())
	g := bindHeld(eps[1], c, hold)
	require.NoError(t, eps[0].Send(1, fabric.Frame{}))
	eventually(t, func() bool { g.Try(); return c.n.Load() == 1 })
	ended := make(chan struct{})
	go func() { _ = eps[0].Close(); close(ended) }()
	select {
	case <-ended:
		t.Error("the peer has not closed")
	case <-time.After(3 * failedLinger):
	}
	close(hold)
	require.NoError(t, eps[1].Close())
	<-ended
}
