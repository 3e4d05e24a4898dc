// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lobby

import (
	"net"
	"slices"
	"sync"
	"time"
)

// safe is how long nobody gives way. A guess, well above what an honest proof takes.
const safe = 100 * time.Millisecond

// Lobby is the connections of one listener. Enter is for one goroutine, Leave for any.
type Lobby struct {
	most int
	room chan struct{} // capacity 1: somebody has left

	mu     sync.Mutex
	guests []guest // guarded by mu: the oldest first
}

type guest struct {
	c     net.Conn
	since time.Time
}

// New returns a lobby for so many.
func New(most int) *Lobby { return &Lobby{most: most, room: make(chan struct{}, 1)} }

// Enter takes a connection in when there is room, or when the oldest may give way. It closes the
// connection and returns false if closing comes first.
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

// enter takes c in, or returns how long to wait before the next attempt.
func (l *Lobby) enter(c net.Conn) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.guests) >= l.most {
		if young := safe - time.Since(l.guests[0].since); young > 0 {
			return young
		}
		_ = l.guests[0].c.Close() // its goroutine notices, and calls Leave, which finds nothing
		l.guests = slices.Delete(l.guests, 0, 1)
	}
	l.guests = append(l.guests, guest{c, time.Now()})
	return 0
}

// Leave says that a connection has proved itself or has ended. It returns false if the connection
// has left before or has given way, so that one is not both taken for good and closed.
func (l *Lobby) Leave(c net.Conn) bool {
	l.mu.Lock()
	i := slices.IndexFunc(l.guests, func(g guest) bool { return g.c == c })
	if i >= 0 {
		l.guests = slices.Delete(l.guests, i, i+1)
	}
	l.mu.Unlock()
	select {
	case l.room <- struct{}{}:
	default:
	}
	return i >= 0
}
