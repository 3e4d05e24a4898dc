// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"net"
	"sync"
	"time"
)

// conn is the launcher's connection to a rank. Frames are queued, so that a rank that does not read holds up nobody else.
type conn struct {
	// Constant.
	c    net.Conn
	done chan struct{} // closed by the reader, when it has ended

	mu      sync.Mutex
	changed *sync.Cond  // of mu
	frames  net.Buffers // guarded by mu: encoded, to be written
	writing bool        // guarded by mu: some are being written
	stopped bool        // guarded by mu
}

func newConn(c net.Conn) *conn {
	k := &conn{c: c, done: make(chan struct{})}
	k.changed = sync.NewCond(&k.mu)
	return k
}

func (k *conn) send(f *frame) { k.queue(f.encode(), 0) }

// queue queues an encoded frame. A rank for which too many wait loses its connection: it has stopped reading, and goes on
// asking. The frames of an exchange, one per rank, do not count, since their values are shared by all ranks' queues.
func (k *conn) queue(b []byte, ranks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if len(k.frames) > maxBacklog+2*ranks {
		k.stopLocked()
		return
	}
	k.frames = append(k.frames, b)
	k.changed.Broadcast()
}

// stop ends the connection: the reader and the writer come to their end.
func (k *conn) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stopLocked()
}

// +checklocks:k.mu
func (k *conn) stopLocked() {
	k.stopped = true
	_ = k.c.Close()
	k.changed.Broadcast()
}

// flushed waits until what is queued is written, or for a time.
func (k *conn) flushed(limit time.Duration) {
	_ = k.c.SetWriteDeadline(time.Now().Add(limit))
	k.mu.Lock()
	defer k.mu.Unlock()
	for (len(k.frames) > 0 || k.writing) && !k.stopped {
		k.changed.Wait()
	}
}

// write is the writer.
func (k *conn) write() {
	for {
		k.mu.Lock()
		for len(k.frames) == 0 && !k.stopped {
			k.changed.Wait()
		}
		frames := k.frames
		k.frames = nil
		k.writing = true
		stopped := k.stopped
		k.mu.Unlock()
		if stopped {
			return
		}
		if _, err := frames.WriteTo(k.c); err != nil {
			// The rank has closed its end. What it said before that is still to be read: the connection is the reader's to close.
			k.mu.Lock()
			k.stopped = true
			k.changed.Broadcast()
			k.mu.Unlock()
			return
		}
		k.mu.Lock()
		k.writing = false
		k.changed.Broadcast()
		k.mu.Unlock()
	}
}
