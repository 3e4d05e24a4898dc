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

// actor is a rank on a stage: it does only what the test has it do. It is its own handler, and
// notes what it is told.
type actor struct {
	*Endpoint
	said []string
	last [2]int // the first and the last frame of which the last one of said speaks
	each func(src int, f fabric.Frame)
	met  bool // what Deliver returns
	rung int  // how often Ring was called
}

func (a *actor) Deliver(f *fabric.Frame) (met bool) {
	src := int(f.Origin)
	n := int(f.Head[0])
	if k := len(a.said) - 1; k >= 0 && n == a.last[1]+1 && a.said[k] == sends(src, a.last[0], a.last[1])[0] {
		a.said, a.last[1] = a.said[:k], n
	} else {
		a.last = [2]int{n, n}
	}
	a.said = append(a.said, sends(src, a.last[0], a.last[1])...)
	if a.each != nil {
		a.each(src, *f)
	}
	return a.met
}

func (a *actor) Lost(src int, err error) {
	a.said = append(a.said, fmt.Sprintf("%d is lost: %v", src, err))
}

// An actor polls its endpoint itself.

func (a *actor) Ring(fabric.Source) { a.rung++ }
func (a *actor) Call()              {}

func (a *actor) Retire(fabric.Source, time.Duration) bool { return true }

// bindTo binds an endpoint that has no sleeper.
func (a *actor) bindTo(e *Endpoint) {
	e.handler, e.progress = a, a
	e.bound.Store(true)
}

// onStage returns n ranks that have no sleepers.
func onStage(t *testing.T, n int, change func(*Config)) []*actor {
	waitsFor(t, 50*time.Millisecond) // nobody takes what is left
	actors := make([]*actor, n)
	for i, e := range openAll(t, n, change) {
		actors[i] = &actor{Endpoint: e}
		actors[i].bindTo(e)
	}
	return actors
}

// waitsFor has endpoints wait so long for their peers when they close.
func waitsFor(t *testing.T, d time.Duration) {
	before := linger
	linger = d
	t.Cleanup(func() { linger = before })
}

// meet connects all ranks, as if each had sent to the others, and has them know it.
func meet(t *testing.T, actors []*actor) {
	for _, a := range actors {
		for _, p := range a.peers.All() {
			if p.rank != a.Rank() {
				p.meet()
			}
		}
	}
	for _, a := range actors {
		require.True(t, a.looks(t))
		require.False(t, a.looks(t))
		require.Len(t, a.active, len(actors)-1)
	}
}

// looks has the rank take what is there, and reports whether it was anything. Copies wait for Work.
func (a *actor) looks(t *testing.T) bool {
	t.Helper()
	did := false
	for a.Poll(false) {
		did = true
	}
	a.leave()
	return did
}

// leave is the end of polling.
func (a *actor) leave() {
	for a.Arm(true, fabric.LeavingFound) == fabric.SomethingHere {
		a.Poll(false)
	}
}

// hears returns what the rank was told since it was asked last.
func (a *actor) hears() []string {
	said := a.said
	a.said = nil
	return said
}

// rings is how many bytes wait for the rank's sleeper.
func (a *actor) rings(t *testing.T) int {
	t.Helper()
	raw, err := a.bell.in.SyscallConn()
	require.NoError(t, err)
	n := 0
	require.NoError(t, raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
	require.NoError(t, err)
	return n
}

// fills sends frames to a rank, numbered from 1, until one has no room, and returns how many those
// are.
func (a *actor) fills(t *testing.T, dst int) int {
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

// sends is what a rank hears of frames from first to last of a rank.
func sends(src, first, last int) []string {
	switch {
	case last < first:
		return nil
	case last == first:
		return []string{fmt.Sprintf("%d sends %d", src, first)}
	}
	return []string{fmt.Sprintf("%d sends %d to %d", src, first, last)}
}

// ends keeps the ends of transfers.
type ends struct {
	mu sync.Mutex // for what ends when the test is over
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

// is requires that these transfers have ended so far, each once, with errors of which the text is a
// part; "" is none.
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
