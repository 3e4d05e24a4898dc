// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wake

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"weft/bench/internal/harness"
)

// patience is how long a ping may take before it counts as lost. It is far longer than any ping on
// a busy machine.
const patience = 30 * time.Second

// A ping is the state that the waker and the sleeper share. The waker owns sent, pause and began;
// the sleeper writes woken, and then answered.
type ping struct {
	clock time.Time     // all times count from here; reading the time is one call of nanotime
	pause time.Duration // before each wake-up
	least time.Duration
	waits []time.Duration

	sent int64
	_    [64]byte

	woken    time.Duration
	answered atomic.Int64
}

func newPing(pause, least time.Duration) *ping {
	return &ping{clock: time.Now(), pause: pause, least: least}
}

// answer records the sleeper's answer. The sleeper calls it as soon as it is awake.
func (p *ping) answer() {
	p.woken = time.Since(p.clock)
	p.answered.Add(1)
}

// run calls wake until the time is over, at least three times, and waits for the answer after each
// call.
func (p *ping) run(ctx context.Context, wake func()) error {
	for p.sent < 3 || time.Since(p.clock) < p.least {
		if err := ctx.Err(); err != nil {
			return err
		}
		for until := time.Since(p.clock) + p.pause; time.Since(p.clock) < until; {
		}
		if n := p.answered.Load(); n != p.sent {
			return harness.Wrong("%d wake-ups were answered by %d", p.sent, n)
		}
		began := time.Since(p.clock)
		p.sent++
		wake()
		for p.answered.Load() < p.sent {
			if time.Since(p.clock)-began > patience {
				return harness.Wrong("wake-up %d was not answered in %v", p.sent, patience)
			}
		}
		if n := p.answered.Load(); n > p.sent {
			return harness.Wrong("%d wake-ups were answered by %d", p.sent, n)
		}
		if p.woken < began {
			return harness.Wrong("wake-up %d was answered %v before it was sent", p.sent, began-p.woken)
		}
		p.waits = append(p.waits, p.woken-began)
	}
	return nil
}

// median returns the sample, in nanoseconds.
func (p *ping) median() float64 {
	slices.Sort(p.waits)
	n := len(p.waits)
	if n == 0 {
		return 0
	}
	return float64(p.waits[(n-1)/2]+p.waits[n/2]) / 2
}
