// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"weft/internal/fabric"
)

// A frame on the wire, all numbers little-endian: the length of the data (4 bytes), the kind (4), the words of the head (8 each), the data.
const headSize = 8 + 8*fabric.HeadWords

const (
	kindFrame = 1
	kindClose = 2 // the last one: this side will send no more
	kindPiece = 3 // of a transfer: the first two words of the head are its key and the offset
)

func appendHead(b []byte, kind uint32, f *fabric.Frame) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.Data)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	for _, w := range f.Head {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

// parseHead returns the kind of a frame and the length of its data.
func parseHead(b []byte, f *fabric.Frame) (kind uint32, n int, err error) {
	size := binary.LittleEndian.Uint32(b)
	kind = binary.LittleEndian.Uint32(b[4:])
	switch {
	case (kind == kindFrame || kind == kindPiece) && size <= MaxFrame:
	case kind == kindClose && size == 0:
	default:
		return 0, 0, fmt.Errorf("a frame of kind %d with %d bytes", kind, size)
	}
	for i := range f.Head {
		f.Head[i] = binary.LittleEndian.Uint64(b[8+8*i:])
	}
	return kind, int(size), nil
}

// readBuffer is how much is read at once. A larger frame is gathered in memory of its own.
const readBuffer = 64 << 10

// shyBuffer is how much is read at once behind the head of what follows a large piece.
const shyBuffer = 1 << 10

var errNoGoodbye = errors.New("the connection has ended without a closing frame")

// read is the reader: it delivers what comes until the connection ends.
func (p *peer) read() {
	err := p.readAll()
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errNoGoodbye
	}
	close(p.ended)
	p.lose(p.broken(err))
	_ = p.conn.Close()
}

func (p *peer) readAll() error {
	var (
		buf  = make([]byte, readBuffer)
		big  []byte
		r, w int // what is read and not delivered is buf[r:w]
		f    fabric.Frame
		shy  bool // a large piece is likely to follow: leave it where it can be read to its place
	)
	// fill reads until at least n bytes are there, which fit.
	fill := func(n int) error {
		if w-r >= n {
			return nil
		}
		if r+n > len(buf) {
			w = copy(buf, buf[r:w])
			r = 0
		}
		room := buf[w:]
		if shy {
			room = room[:min(len(room), n-(w-r)+shyBuffer)]
		}
		m, err := io.ReadAtLeast(p.conn, room, n-(w-r))
		w += m
		return err
	}
	for {
		if r == w {
			r, w = 0, 0
		}
		if err := fill(headSize); err != nil {
			return err
		}
		kind, n, err := parseHead(buf[r:], &f)
		if err != nil {
			return err
		}
		r += headSize
		if kind == kindClose {
			p.mu.Lock()
			p.bye = true
			p.mu.Unlock()
			_, err := io.Copy(io.Discard, p.conn)
			if err == nil {
				err = io.EOF
			}
			return err
		}
		if kind == kindPiece {
			if r, w, err = p.readPiece(&f, n, buf, r, w, &big); err != nil {
				return err
			}
			shy = n > len(buf)
			continue
		}
		shy = false
		if n <= len(buf)-headSize {
			if err := fill(n); err != nil {
				return err
			}
			f.Data = buf[r : r+n]
			r += n
		} else {
			if big == nil {
				big = make([]byte, MaxFrame)
			}
			m := copy(big, buf[r:w])
			r, w = 0, 0
			if _, err := io.ReadFull(p.conn, big[m:n]); err != nil {
				return err
			}
			f.Data = big[:n]
		}
		p.e.handler.Deliver(p.rank, f)
	}
}

// readPiece takes a piece of n bytes, of which buf[r:w] may be the beginning, to the memory that is expected to be filled by it, or to
// nowhere. It returns what is left in buf.
func (p *peer) readPiece(f *fabric.Frame, n int, buf []byte, r, w int, scratch *[]byte) (int, int, error) {
	key := f.Head[0]
	m := min(n, w-r)
	if m < n {
		// Before Begin: whoever forgets the transfer after that finds the reader at it.
		p.mu.Lock()
		p.placing, p.place = true, key
		p.mu.Unlock()
	}
	place, err := p.e.expected.Begin(p.rank, key, f.Head[1], n)
	if place != nil {
		copy(place, buf[r:r+m])
	}
	r += m
	if m < n {
		if place != nil {
			var k int
			k, err = io.ReadFull(p.conn, place[m:])
			m += k
		}
		p.mu.Lock()
		stirred := p.stirred
		p.placing, p.stirred = false, false
		if stirred {
			_ = p.conn.SetReadDeadline(time.Time{})
		}
		p.mu.Unlock()
		if stirred && m < n && place != nil {
			p.e.expected.End(p.rank, key, n, fabric.ErrClosed)
			place, err = nil, nil // the rest is to be dropped
		}
	}
	if place != nil {
		if err != nil {
			p.e.expected.End(p.rank, key, n, p.broken(err))
		} else {
			p.e.expected.End(p.rank, key, n, nil)
		}
	}
	if err != nil || m == n {
		return r, w, err
	}
	if *scratch == nil {
		*scratch = make([]byte, MaxFrame)
	}
	_, err = io.ReadFull(p.conn, (*scratch)[:n-m])
	return r, w, err
}

// stir has the reader let go of the memory of a transfer that nobody wants any more, though the peer may take its time to send the rest of a
// piece. The deadline is taken back under the same lock by the reader when it is through, so it meets no other read.
func (p *peer) stir(key uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.placing && p.place == key {
		p.stirred = true
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	}
}
