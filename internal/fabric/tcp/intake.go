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
	// readBuffer is how much is read at once. A larger frame is gathered in memory of its own.
	readBuffer = 64 << 10
	// shyBuffer is how much is read at once behind the head of what follows a large piece: the rest
	// of that is left where it can be read to its place.
	shyBuffer = 1 << 10
)

func newIntake(p *peer) *intake { return &intake{p: p, buf: make([]byte, readBuffer), need: headSize} }

// room returns where the next bytes are to be put, at least one.
func (in *intake) room() []byte {
	switch {
	case in.bye:
		return in.buf
	case in.kind == kindFrame:
		return in.big[in.here:in.size]
	case in.kind == kindPiece && in.place != nil:
		return in.place[in.here:]
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
	if in.shy {
		room = room[:min(len(room), in.need-(in.w-in.r)+shyBuffer)]
	}
	return room
}

// took says that n bytes were put into room. It delivers what is here. Behind an error nothing more
// is to be read.
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
			in.letGo(nil)
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
			in.r, in.w, in.shy = 0, 0, false
		case in.w-in.r < whole:
			in.need, in.shy = whole, false
			return nil
		default:
			in.shy = false
			in.f.Data = in.buf[in.r+headSize : in.r+whole]
			in.r += whole
			in.p.e.handler.Deliver(&in.f)
		}
	}
	return nil
}

// piece begins to take a piece to the memory that is expected to be filled by it, or to nowhere.
func (in *intake) piece(size int) error {
	p, key := in.p, in.f.Head[0]
	m := min(size, in.w-in.r)
	if m < size {
		// Before Begin: whoever forgets the transfer after that finds this at it.
		p.mu.Lock()
		p.placing, p.place = true, key
		p.mu.Unlock()
	}
	place, err := p.e.expected.Begin(p.rank, key, in.f.Head[1], size)
	if err != nil {
		return err
	}
	if place != nil {
		copy(place, in.buf[in.r:in.r+m])
	}
	in.r += m
	if m == size {
		if place != nil {
			p.e.expected.End(p.rank, key, size, nil)
		}
		return nil
	}
	in.kind, in.size, in.here, in.place = kindPiece, size, m, place
	in.r, in.w, in.shy = 0, 0, size > len(in.buf)
	return nil
}

// letGo says that memory of a transfer is not being written any more: the piece is all here or,
// with an error, will not be.
func (in *intake) letGo(err error) {
	p := in.p
	p.mu.Lock()
	if p.stirred && p.conn != nil {
		_ = p.conn.SetReadDeadline(time.Time{})
	}
	p.placing, p.stirred = false, false
	p.mu.Unlock()
	if in.place != nil {
		in.place = nil
		p.e.expected.End(p.rank, in.f.Head[0], in.size, err)
	}
}

// stirred lets go of the memory of a transfer that nobody wants any more, and reports whether that
// was so; the rest of its piece is dropped.
func (in *intake) stirred() bool {
	in.p.mu.Lock()
	stirred := in.p.stirred
	in.p.mu.Unlock()
	if stirred {
		in.letGo(fabric.ErrClosed)
	}
	return stirred
}

// broken ends what is half here: no more will come.
func (in *intake) broken(err error) {
	if in.place != nil {
		in.letGo(err)
	}
}

// stir has the memory of a transfer let go that nobody wants any more, though the peer may take its
// time to send the rest of a piece. The reader's deadline is taken back under the same lock when it
// is through, so it meets no other read.
func (p *peer) stir(key uint64) {
	p.mu.Lock()
	stir := p.placing && p.place == key
	if stir {
		p.stirred = true
		if p.conn != nil {
			_ = p.conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
	looked := stir && p.sock != nil
	p.mu.Unlock()
	if looked {
		p.e.progress.Call()
	}
}

var errNoGoodbye = errors.New("the connection has ended without a closing frame")

// read is the reader of a connection that nobody looks at: it delivers what comes until the
// connection ends.
func (p *peer) read() {
	err := p.readAll()
	close(p.ended)
	p.lose(p.broken(err))
	_ = p.conn.Close()
}

func (p *peer) readAll() error {
	in := newIntake(p)
	for {
		n, err := p.conn.Read(in.room())
		if n > 0 {
			err = cmp.Or(in.took(n), err)
		}
		if err == nil || errors.Is(err, os.ErrDeadlineExceeded) && in.stirred() {
			continue
		}
		if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errNoGoodbye
		}
		in.broken(p.broken(err))
		return err
	}
}
