// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lobby

import (
	"net"
	"slices"
	"sync"
	"time"
)

// safe is the age in which no connection is evicted. A guess, well above what an honest proof
// takes.
const safe = 100 * time.Millisecond

// Lobby has the unproved connections of one listener. Enter is for one goroutine, Leave for any.
type Lobby struct {
	most int
	room chan struct{} // capacity 1: a connection has left

	mu       sync.Mutex
	unproved []pending // guarded by mu: the oldest first
}

type pending struct {
	c     net.Conn
	since time.Time
}

// New returns a lobby for at most so many connections.
func New(most int) *Lobby { return &Lobby{most: most, room: make(chan struct{}, 1)} }

// Enter adds a connection when there is room, or when the oldest connection may be evicted. If
// closing is closed first, Enter closes the connection and returns false.
func (l *Lobby) Enter(c net.Conn, closing <-chan struct{}) bool {
	for {
		wait := l.enter(c)
		if wait <= 0 {
			return true
		}
		select {
		case <-l.room:
		case <-time.After(wait):
		case <-closing:
			_ = c.Close()
			return false
		}
	}
}

// enter adds c and returns 0, or returns how long to wait before the next attempt.
func (l *Lobby) enter(c net.Conn) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.unproved) >= l.most {
		if young := safe - time.Since(l.unproved[0].since); young > 0 {
			return young
		}
		_ = l.unproved[0].c.Close() // its goroutine then calls Leave, which finds nothing
		l.unproved = slices.Delete(l.unproved, 0, 1)
	}
	l.unproved = append(l.unproved, pending{c, time.Now()})
	return 0
}

// Leave removes a connection that has proved itself or has ended. It returns false if the
// connection has left before or was evicted, so that no connection is both accepted and closed.
func (l *Lobby) Leave(c net.Conn) bool {
	l.mu.Lock()
	i := slices.IndexFunc(l.unproved, func(p pending) bool { return p.c == c })
	if i >= 0 {
		l.unproved = slices.Delete(l.unproved, i, i+1)
	}
	l.mu.Unlock()
	select {
	case l.room <- struct{}{}:
	default:
	}
	return i >= 0
}
