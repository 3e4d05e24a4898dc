// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Limits on the values of a rank. They bound the launcher's memory for the rank.
const (
	MaxKey       = 255      // bytes of a key
	MaxValue     = 64 << 10 // bytes of a value
	MaxKeys      = 4096     // keys of a rank
	MaxRankBytes = 16 << 20 // bytes of all values of a rank
	maxWaiting   = 1024     // gets of a rank that wait
	maxFrame     = frameHead + MaxKey + MaxValue
	maxBacklog   = 8192 // queued frames for a rank that does not read, without those of exchanges
)

// kind is the kind of a frame. The first word of its name is the sender: a rank, the job (its
// Server), or a host (a launcher on another machine).
type kind uint8

const (
	rankPuts      kind = 1 + iota // key, value
	rankGets                      // id, rank, key
	rankExchanges                 // id: how many exchanges this one makes; value
	rankAborts                    // code, value: the reason; id: 1 if all ranks wait for each other
	rankLeaves                    //

	// rank: number of ranks; code: part; id: 1 if there are ranks on other machines; key: the job's
	// name
	jobWelcomes
	jobRefuses // value: why
	jobAnswers // id, value
	jobDenies  // id, rank: the rank that has ended without a value
	jobShares  // id, rank, value: that rank's value of the exchange
	jobShared  // id: the exchange is complete
	jobFails   // id, rank: the rank that has ended
	// The notice of a rank's end. rank, code, id: 1 if clean; value: how. If the rank has given a
	// cause, key: the rank of that failure, with a mark if it is a loss; value: also a zero byte
	// and the reason
	jobNotifies
	jobAborts // rank, code, value: the reason

	// Between launchers.

	hostEnded // rank, code, value: how
	// rank: the first rank that the host gets; code: number of ranks; key: the job's name
	jobAdmits
	jobSignals // code: the number of a signal for the ranks
	jobKills   //
	jobOver    // code: exit status of the job

	// Of failures.

	// rank: the rank whose failure is the cause, -1: not known; code: bit 0 if that is certain, bit
	// 1 if that failure is a loss; value: the reason
	rankBlames

	lastKind = rankBlames
)

// frame is the unit on the connection between a rank and its launcher. Fields that a kind does not
// use are zero.
//
//	length of the rest (4 bytes, big endian) | version | kind | length of key (2) |
//	rank (4) | code (4) | id (8) | key | value
type frame struct {
	kind  kind
	rank  int32
	code  int32
	id    uint64
	key   string
	value []byte
}

const frameHead = 1 + 1 + 2 + 4 + 4 + 8

func (f *frame) encode() []byte {
	b := make([]byte, 0, 4+frameHead+len(f.key)+len(f.value))
	b = binary.BigEndian.AppendUint32(b, uint32(frameHead+len(f.key)+len(f.value)))
	b = append(b, Version, byte(f.kind))
	b = binary.BigEndian.AppendUint16(b, uint16(len(f.key)))
	b = binary.BigEndian.AppendUint32(b, uint32(f.rank))
	b = binary.BigEndian.AppendUint32(b, uint32(f.code))
	b = binary.BigEndian.AppendUint64(b, f.id)
	b = append(b, f.key...)
	return append(b, f.value...)
}

// decode parses a frame without its length. The value aliases b.
func decode(b []byte) (f frame, err error) {
	switch {
	case len(b) < frameHead || len(b) > maxFrame:
		return f, fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, len(b))
	case b[0] != Version:
		return f, fmt.Errorf("%w: a frame of version %d", ErrProtocol, b[0])
	case b[1] == 0 || kind(b[1]) > lastKind:
		return f, fmt.Errorf("%w: a frame of kind %d", ErrProtocol, b[1])
	}
	f.kind = kind(b[1])
	n := int(binary.BigEndian.Uint16(b[2:]))
	f.rank = int32(binary.BigEndian.Uint32(b[4:]))
	f.code = int32(binary.BigEndian.Uint32(b[8:]))
	f.id = binary.BigEndian.Uint64(b[12:])
	rest := b[frameHead:]
	if n > MaxKey || n > len(rest) || len(rest)-n > MaxValue {
		return f, fmt.Errorf("%w: a frame with a key of %d bytes and %d bytes in all", ErrProtocol, n, len(rest))
	}
	f.key, f.value = string(rest[:n]), rest[n:]
	return f, nil
}

// readFrame reads one frame. Its value is fresh memory.
func readFrame(r io.Reader) (frame, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n < frameHead || n > maxFrame {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", ErrProtocol, n)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return frame{}, fmt.Errorf("%w: cut off: %w", ErrProtocol, err)
	}
	return decode(b)
}

// cut shortens a text for people to 4096 bytes, which fit in a frame.
func cut(s string) []byte {
	const limit = 4096
	if len(s) > limit {
		s = s[:limit-3] + "..."
	}
	return []byte(s)
}

// accept passes the connections of a listener to take, until take returns false or the listener is
// closed.
func accept[C net.Conn](next func() (C, error), take func(C) bool) {
	for {
		c, err := next()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			time.Sleep(10 * time.Millisecond) // out of descriptors; other connections may end
		case !take(c):
			return
		}
	}
}

// conn is the launcher's connection to a rank. Frames are queued, so that a rank that does not read
// does not delay other ranks.
type conn struct {
	// Constant.
	c    net.Conn
	done chan struct{} // closed by the reader, when it has ended

	mu      sync.Mutex
	changed *sync.Cond  // of mu
	frames  net.Buffers // guarded by mu: encoded frames to be written
	writing bool        // guarded by mu: the writer is writing frames
	stopped bool        // guarded by mu
}

func newConn(c net.Conn) *conn {
	k := &conn{c: c, done: make(chan struct{})}
	k.changed = sync.NewCond(&k.mu)
	return k
}

func (k *conn) send(f *frame) { k.queue(f.encode(), 0) }

// queue queues an encoded frame. If too many frames are queued, the rank has stopped reading but
// goes on sending requests, and queue ends its connection. The frames of an exchange, one per rank,
// do not count, since all ranks' queues share their values.
func (k *conn) queue(b []byte, ranks int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.stopped:
	case len(k.frames) > maxBacklog+2*ranks:
		k.stopLocked()
	default:
		k.frames = append(k.frames, b)
		k.changed.Broadcast()
	}
}

// stop ends the connection, and so its reader and its writer.
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

// flushed waits until the queued frames are written, or for a time.
func (k *conn) flushed(limit time.Duration) {
	_ = k.c.SetWriteDeadline(time.Now().Add(limit))
	k.mu.Lock()
	defer k.mu.Unlock()
	for (len(k.frames) > 0 || k.writing) && !k.stopped {
		k.changed.Wait()
	}
}

// write is the writer goroutine.
func (k *conn) write() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		for len(k.frames) == 0 && !k.stopped {
			k.changed.Wait()
		}
		if k.stopped {
			return
		}
		frames := k.frames
		k.frames, k.writing = nil, true
		k.mu.Unlock()
		_, err := frames.WriteTo(k.c)
		k.mu.Lock()
		// After an error the rank has closed its end, but the reader must still read the frames
		// that the rank sent before. So the reader closes the connection.
		k.stopped = k.stopped || err != nil
		k.writing = false
		k.changed.Broadcast()
	}
}
