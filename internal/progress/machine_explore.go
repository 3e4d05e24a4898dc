//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"time"

	"weft/internal/xatomic"
)

// The bounds are small, so that explorations reach the steps after them.
const (
	leaveAfter   = 1
	requestTries = 2

	watchChecks, watchChecksCrowded = 0, 0 // checks only take time
)

func woke(ch <-chan struct{}) bool { return xatomic.Len(ch) > 0 }

func clock() time.Duration { return 0 }

func yieldProcessor(bool) { xatomic.Pause() }

func pause() { xatomic.Pause() }

// budget is exhausted at the second poll that finds nothing.
type budget struct{ asked int }

func newBudget(bool) budget { return budget{} }

func (b *budget) first() bool { return b.asked == 0 }

func (b *budget) over(long time.Duration) bool {
	b.asked++
	return b.asked > 1 || long == watchFor
}

func (b *budget) idleFor() time.Duration { return midwayFor + 1 }

// deadline never passes: an exploration must find a wait that does not end.
type deadline struct{}

func newDeadline(time.Duration) deadline { return deadline{} }

func (deadline) pause() bool {
	xatomic.Pause()
	return true
}

// timer never expires: the guard is explored with the turn alone.
type timer struct{}

func newTimer(func()) timer       { return timer{} }
func (timer) start(time.Duration) {}
func (timer) stop()               {}
