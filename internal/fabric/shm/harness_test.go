//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// testRank is a rank without goroutines: it does only what the test calls. It is its own handler
// and engine, and logs the calls of the handler.
type testRank struct {
	*Endpoint
	log  []string
	last [2]int // the first and the last frame of the last entry of log
	each func(src int, f fabric.Frame)
	met  bool // what Deliver returns
	rung int  // how often Ring was called
}

func (a *testRank) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	n := int(f.Head[0])
	if k := len(a.log) - 1; k >= 0 && n == a.last[1]+1 && a.log[k] == sends(src, a.last[0], a.last[1])[0] {
		a.log, a.last[1] = a.log[:k], n
	} else {
		a.last = [2]int{n, n}
	}
	a.log = append(a.log, sends(src, a.last[0], a.last[1])...)
	if a.each != nil {
		a.each(src, *f)
	}
	return a.met
}

func (a *testRank) Lost(src int, err error) {
	a.log = append(a.log, fmt.Sprintf("%d is lost: %v", src, err))
}

func (a *testRank) Ring(fabric.Source) { a.rung++ }
func (a *testRank) Call()              {}

func (a *testRank) Retire(fabric.Source, time.Duration) bool { return true }

// bindTo binds an endpoint without starting its doorbell goroutine.
func (a *testRank) bindTo(e *Endpoint) {
	e.handler, e.progress = a, a
	e.bound.Store(true)
}

// newTestRanks returns n ranks without doorbell goroutines.
func newTestRanks(t *testing.T, n int, change func(*Config)) []*testRank {
	setCloseTimeout(t, 50*time.Millisecond) // no rank reads the frames that are left
	ranks := make([]*testRank, n)
	for i, e := range openAll(t, n, change) {
		ranks[i] = &testRank{Endpoint: e}
		ranks[i].bindTo(e)
	}
	return ranks
}

// setCloseTimeout sets how long endpoints wait for their peers when they close.
func setCloseTimeout(t *testing.T, d time.Duration) {
	before := closeTimeout
	closeTimeout = d
	t.Cleanup(func() { closeTimeout = before })
}

// connectAll connects all ranks, as if each had sent to the others and had polled.
func connectAll(t *testing.T, ranks []*testRank) {
	for _, a := range ranks {
		for _, p := range a.peers.All() {
			if p.rank != a.Rank() {
				p.connectBack()
			}
		}
	}
	for _, a := range ranks {
		require.True(t, a.drain(t))
		require.False(t, a.drain(t))
		require.Len(t, a.active, len(ranks)-1)
	}
}

// drain has the rank poll until nothing is left, and reports whether there was anything. It makes
// no copies: they wait for Work.
func (a *testRank) drain(t *testing.T) bool {
	t.Helper()
	did := false
	for a.Poll(false) {
		did = true
	}
	a.leave()
	return did
}

// leave ends polling as the engine does.
func (a *testRank) leave() {
	for a.Arm(true, fabric.LeavingFound) == fabric.SomethingHere {
		a.Poll(false)
	}
}

// takeLog returns the log and clears it.
func (a *testRank) takeLog() []string {
	log := a.log
	a.log = nil
	return log
}

// pendingRings returns the number of bytes in the pipe of the rank's doorbell.
func (a *testRank) pendingRings(t *testing.T) int {
	t.Helper()
	raw, err := a.doorbell.in.SyscallConn()
	require.NoError(t, err)
	n := 0
	require.NoError(t, raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
	require.NoError(t, err)
	return n
}

// fillRing sends frames to a rank, numbered from 1, until one has no room, and returns how many it
// has sent.
func (a *testRank) fillRing(t *testing.T, dst int) int {
	t.Helper()
	for n := 1; ; n++ {
		require.NoError(t, a.Send(dst, word(uint64(n))))
		if a.peers.At(dst).queued.Load() {
			return n
		}
	}
}

func word(w ...uint64) (f fabric.Frame) {
	copy(f.Head[:], w)
	return f
}

// sends returns the log of a rank that has received the frames from first to last of rank src.
func sends(src, first, last int) []string {
	switch {
	case last < first:
		return nil
	case last == first:
		return []string{fmt.Sprintf("%d sends %d", src, first)}
	}
	return []string{fmt.Sprintf("%d sends %d to %d", src, first, last)}
}

// ends records the ends of transfers.
type ends struct {
	mu sync.Mutex // for transfers that end when the test is over
	of map[uint64][]error
}

func (e *ends) done(key uint64) func(error) {
	return func(err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.of == nil {
			e.of = map[uint64][]error{}
		}
		e.of[key] = append(e.of[key], err)
	}
}

// is requires that exactly these transfers have ended, each once, with an error that contains the
// text, or without error if the text is empty.
func (e *ends) is(t *testing.T, want map[uint64]string) {
	t.Helper()
	require.Equal(t, len(want), len(e.of), "%v", e.of)
	for key, text := range want {
		require.Len(t, e.of[key], 1, "transfer %d", key)
		if text == "" {
			require.NoError(t, e.of[key][0], "transfer %d", key)
		} else {
			require.ErrorContains(t, e.of[key][0], text, "transfer %d", key)
		}
	}
}
