// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"errors"
	"io"
	"os"
	"time"

	"weft/internal/fabric"
)

const (
	// readBuffer is the number of bytes that are read at once. A larger frame has memory of its
	// own.
	readBuffer = 64 << 10
	// shortBuffer is the number of bytes that are read at once after the head that follows a large
	// piece: another large piece probably follows, and should be read directly into the user's
	// memory.
	shortBuffer = 1 << 10
)

func newIntake(p *peer) *intake { return &intake{p: p, buf: make([]byte, readBuffer), need: headSize} }

// room returns the memory for the next bytes, at least one.
func (in *intake) room() []byte {
	switch {
	case in.bye:
		return in.buf
	case in.kind == kindFrame:
		return in.big[in.here:in.size]
	case in.kind == kindPiece && in.dst != nil:
		return in.dst[in.here:]
	case in.kind == kindPiece:
		return in.buf[:min(len(in.buf), in.size-in.here)]
	}
	if in.r == in.w {
		in.r, in.w = 0, 0
	} else if in.r+in.need > len(in.buf) {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	room := in.buf[in.w:]
	if in.short {
		room = room[:min(len(room), in.need-(in.w-in.r)+shortBuffer)]
	}
	return room
}

// took reports that n bytes were read into room, and delivers what is complete. After an error,
// nothing more may be read.
func (in *intake) took(n int) error {
	switch {
	case in.bye:
		return nil
	case in.kind == 0:
		in.w += n
	default:
		if in.here += n; in.here < in.size {
			return nil
		}
		if in.kind == kindPiece {
			in.release(nil)
		} else {
			in.f.Data = in.big[:in.size]
			in.p.e.handler.Deliver(&in.f)
		}
		in.kind = 0
	}
	for in.kind == 0 && !in.bye {
		in.need = headSize
		if in.w-in.r < headSize {
			return nil
		}
		kind, size, err := parseHead(in.buf[in.r:], len(in.p.e.peers.All()), &in.f)
		if err != nil {
			return err
		}
		whole := headSize + size
		switch {
		case kind == kindClose:
			in.p.mu.Lock()
			in.p.bye = true
			in.p.mu.Unlock()
			in.bye = true
		case kind == kindPiece:
			in.r += headSize
			if err := in.piece(size); err != nil {
				return err
			}
		case whole > len(in.buf):
			if in.big == nil {
				in.big = make([]byte, MaxFrame)
			}
			in.kind, in.size = kind, size
			in.here = copy(in.big, in.buf[in.r+headSize:in.w])
			in.r, in.w, in.short = 0, 0, false
		case in.w-in.r < whole:
			in.need, in.short = whole, false
			return nil
		default:
			in.short = false
			in.f.Data = in.buf[in.r+headSize : in.r+whole]
			in.r += whole
			in.p.e.handler.Deliver(&in.f)
		}
	}
	return nil
}

// piece begins to read a piece into the memory that expects it, or drops the piece if none does.
func (in *intake) piece(size int) error {
	p, key := in.p, in.f.Head[0]
	m := min(size, in.w-in.r)
	if m < size {
		// Before Begin: a goroutine that forgets the transfer after Begin sees that it is filling.
		p.mu.Lock()
		p.filling, p.fillKey = true, key
		p.mu.Unlock()
	}
	dst, err := p.e.expected.Begin(p.rank, key, in.f.Head[1], size)
	if err != nil {
		return err
	}
	if dst != nil {
		copy(dst, in.buf[in.r:in.r+m])
	}
	in.r += m
	if m == size {
		if dst != nil {
			p.e.expected.End(p.rank, key, size, nil)
		}
		return nil
	}
	in.kind, in.size, in.here, in.dst = kindPiece, size, m, dst
	in.r, in.w, in.short = 0, 0, size > len(in.buf)
	return nil
}

// release ends the writing to the user's memory: the piece is complete or, with an error, never
// will be.
func (in *intake) release(err error) {
	p := in.p
	p.mu.Lock()
	if p.interrupted && p.conn != nil {
		_ = p.conn.SetReadDeadline(time.Time{})
	}
	p.filling, p.interrupted = false, false
	p.mu.Unlock()
	if in.dst != nil {
		in.dst = nil
		p.e.expected.End(p.rank, in.f.Head[0], in.size, err)
	}
}

// handleInterrupt releases the memory of a transfer that was forgotten in the middle of a piece,
// and reports whether there was one. The rest of the piece is dropped.
func (in *intake) handleInterrupt() bool {
	in.p.mu.Lock()
	interrupted := in.p.interrupted
	in.p.mu.Unlock()
	if interrupted {
		in.release(fabric.ErrClosed)
	}
	return interrupted
}

// fail ends a transfer of which a piece is half read: no more bytes will arrive.
func (in *intake) fail(err error) {
	if in.dst != nil {
		in.release(err)
	}
}

// interrupt has the memory of a forgotten transfer released if a piece of it is half read: the peer
// may take long to send the rest. A reader is woken by a deadline. The reader removes the deadline
// under the same lock when it is done with the piece, so the deadline ends no other read.
func (p *peer) interrupt(key uint64) {
	p.mu.Lock()
	found := p.filling && p.fillKey == key
	if found {
		p.interrupted = true
		if p.conn != nil {
			_ = p.conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	polled := found && p.sock != nil
	p.mu.Unlock()
	if polled {
		p.e.progress.Call()
	}
}

var errNoGoodbye = errors.New("the connection has ended without a closing frame")

// read is the reader of a connection that is not polled: it delivers frames until the connection
// ends.
func (p *peer) read() {
	err := p.readAll()
	close(p.ended)
	p.lose(p.wrap(err))
	_ = p.conn.Close()
}

func (p *peer) readAll() error {
	in := newIntake(p)
	for {
		n, err := p.conn.Read(in.room())
		if n > 0 {
			err = cmp.Or(in.took(n), err)
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) && in.handleInterrupt() {
			continue
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errNoGoodbye
		}
		in.fail(p.wrap(err))
		return err
	}
}
