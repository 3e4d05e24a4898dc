// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"sync"

	"weft/internal/race"
)

// The race detector reports a race only if it still knows where the first of the two accesses was
// made. It forgets that of a goroutine soon after its end: some 64 later ends suffice, whatever
// GORACE says. A body has a goroutine of its own, so that a task and its successor in the next
// sweep over a few hundred blocks would never meet. So the goroutines of the last kept bodies
// stay, asleep.

// kept is how many bodies that are over the race detector still knows. Each costs the memory of
// what it has done: 8 bytes for an access, at most 2.3 MB. The detector has room for some 8,000
// goroutines.
const kept = 256

// stayed are the goroutines that stay, of all runtimes: those of the last bodies to end.
var stayed struct {
	mu   sync.Mutex
	ring [kept]stayedBody // +checklocks:mu
	next int              // the oldest in ring. +checklocks:mu
}

// stayedBody is a goroutine that stays.
type stayedBody struct {
	l   *Lint
	end chan struct{} // closed when it shall end
}

// keep returns when kept other bodies have ended, or l's runtime is closed. The caller is a
// body's goroutine, is hidden, and has nothing else to do.
func (l *Lint) keep() {
	me := stayedBody{l, make(chan struct{})}
	stayed.mu.Lock()
	if l.closed {
		stayed.mu.Unlock()
		return
	}
	oldest := stayed.ring[stayed.next]
	stayed.ring[stayed.next] = me
	stayed.next = (stayed.next + 1) % kept
	stayed.mu.Unlock()
	if oldest.l != nil {
		close(oldest.end)
	}
	l.asleep.Sleep()
	<-me.end
	l.asleep.Wake()
}

// Close ends the goroutines that stay of l's runtime.
func (l *Lint) Close() {
	race.Hide()
	stayed.mu.Lock()
	l.closed = true
	for i, b := range stayed.ring {
		if b.l == l {
			close(b.end)
			stayed.ring[i] = stayedBody{}
		}
	}
	stayed.mu.Unlock()
	race.Show()
}
