//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"time"

	"weft/internal/xatomic"
)

// The bounds are small, so that what happens behind them is reached.
const (
	leaveAfter = 1
	knockSpin  = 1
	wantFor    = 2
)

type (
	bit    = xatomic.Bool
	count  = xatomic.Int32
	word32 = xatomic.Uint32
	word64 = xatomic.Uint64
	mutex  = xatomic.Mutex
)

func woke(ch <-chan struct{}) bool { return xatomic.Len(ch) > 0 }

// patience ends when it is asked a second time.
type patience struct{ asked int }

func (p *patience) over(time.Duration) bool {
	p.asked++
	return p.asked > 1
}

// group counts goroutines.
type group struct{ n xatomic.Int32 }

func (g *group) Go(f func()) {
	g.n.Add(1)
	xatomic.Go(func() {
		f()
		g.n.Add(-1)
	})
}

func (g *group) Wait() {
	for g.n.Load() != 0 {
		xatomic.Pause()
	}
}

// deadline does not end: what takes for ever is to be found.
type deadline struct{}

func newDeadline(time.Duration) deadline { return deadline{} }
func (deadline) await(<-chan struct{})   { panic("there are no transfers") }

func (deadline) pause() bool {
	xatomic.Pause()
	return true
}

type signal struct{ v xatomic.Bool }

func newSignal() signal { return signal{} }

func (s *signal) set() {
	if s.v.Swap(true) {
		panic("it happens twice")
	}
}

func (s *signal) wait(deadline) {
	for !s.v.Load() {
		xatomic.Pause()
	}
}

func rest(bool) { xatomic.Pause() }

func pause() { xatomic.Pause() }
