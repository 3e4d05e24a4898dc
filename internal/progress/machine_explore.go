//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"time"

	"weft/internal/xatomic"
)

// The bounds are small, so that what happens behind them is reached.
const (
	leaveAfter = 1
	wantFor    = 2

	glances, glancesCrowded = 0, 0 // which only take time
)

func woke(ch <-chan struct{}) bool { return xatomic.Len(ch) > 0 }

func clock() time.Duration { return 0 }

func rest(bool) { xatomic.Pause() }

func pause() { xatomic.Pause() }

// budget ends when it is asked a second time.
type budget struct{ asked int }

func newBudget(bool) budget { return budget{} }

func (b *budget) first() bool { return b.asked == 0 }

func (b *budget) over(long time.Duration) bool {
	b.asked++
	return b.asked > 1 || long == watchFor
}

func (b *budget) vain() time.Duration { return midwayFor + 1 }

// deadline does not end: what takes for ever is to be found.
type deadline struct{}

func newDeadline(time.Duration) deadline { return deadline{} }

func (deadline) pause() bool {
	xatomic.Pause()
	return true
}

// timer does not come: the turn has explorations with a guard.
type timer struct{}

func newTimer(func()) timer       { return timer{} }
func (timer) start(time.Duration) {}
func (timer) stop()               {}
