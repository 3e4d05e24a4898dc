// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

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
		m, err := io.ReadAtLeast(p.conn, buf[w:], n-(w-r))
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
		if kind == kindFrame {
			p.e.handler.Deliver(p.rank, f)
			continue
		}
		place, err := p.e.expected.Begin(p.rank, f.Head[0], f.Head[1], n)
		if err != nil {
			return err
		}
		if place != nil {
			copy(place, f.Data)
			p.e.expected.End(p.rank, f.Head[0], n, nil)
		}
	}
}
