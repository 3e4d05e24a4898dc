//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import "time"

const (
	// watchFor is how long Watch waits without anything coming. To sleep and be woken costs two processes fifty microseconds, and what keeps a rank that is waited
	// for from running, such as another program, mostly lasts longer than that; so a rank waits twenty times as long before it sleeps. That bounds
	// what it uses for nothing to a millisecond of the processor, each time.
	watchFor = time.Millisecond
	// goroutinesEvery is how long other goroutines of this process wait for their turn, if Go has no processor for them.
	goroutinesEvery = 50 * time.Microsecond
	// glances are the looks before one says that one looks, which costs as much as some of them.
	glancesCrowded, glancesAlone = 8, 100
)

// Watch delivers what comes until ready returns true, or for a short time only. Where another goroutine looks, it only waits. Where there are
// more ranks than processors, every second look is behind the others' turns.
func (e *Endpoint) Watch(ready func() bool) {
	glances := glancesAlone
	if e.turn == lookCrowded {
		glances = glancesCrowded
	}
	for range glances {
		if ready() {
			return
		}
	}
	entered := e.claim(nil)
	var all, here patience
	for n := 1; !ready(); n++ {
		if entered && (e.poll() || n%asideEvery == 0 && e.aside != nil && e.aside()) {
			n, all = 0, patience{}
			if e.bulk.waits.Load() > 0 {
				e.leave()
				e.work()
				entered = e.enter()
			}
			continue
		}
		if n%e.turn != 0 {
			continue
		}
		if all.over(watchFor) {
			break
		}
		turn := here.over(goroutinesEvery)
		if turn {
			here = patience{}
		}
		rest(turn)
	}
	if entered {
		e.leave()
		e.work()
	}
}
