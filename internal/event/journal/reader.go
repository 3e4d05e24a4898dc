// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"weft/internal/event"
)

// A Reader reads a file, block by block.
type Reader struct {
	Head    Head
	Sources map[int]event.Source // those read so far, by number
	Specs   map[uint32]Spec      // likewise
	Lost    uint64               // the count of the last end mark

	in      *bufio.Reader
	at      int64 // offset of the next block
	payload []byte
	recs    []event.Record
	whole   bool
}

// Block is what Next returns: records of a source, or a moment.
type Block struct {
	Source  event.Source
	Records []event.Record // valid until the next call; nil for a moment
	Moment  event.Moment
}

// NewReader reads the head of a file.
func NewReader(in io.Reader) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, writeSize), Sources: map[int]event.Source{}, Specs: map[uint32]Spec{}}
	var b [preface]byte
	if _, err := io.ReadFull(r.in, b[:]); err != nil || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one", ErrFormat)
	}
	if v := le.Uint32(b[len(magic):]); v != Version {
		return nil, fmt.Errorf("%w: %d; this program reads %d", ErrVersion, v, Version)
	}
	r.at = int64(preface)
	kind, err := r.block()
	if err != nil {
		return nil, err
	}
	if kind != headBlock {
		return nil, r.damage(fmt.Errorf("%w: the first block is of kind %d, not the head", ErrDamaged, kind))
	}
	return r, r.parse(&r.Head)
}

// damage adds the byte offset to an error.
func (r *Reader) damage(err error) error { return fmt.Errorf("at byte %d of the trace: %w", r.at, err) }

// block reads the next block into payload; io.EOF at the end of a file that is whole.
func (r *Reader) block() (kind uint32, err error) {
	var head [blockHead]byte
	switch n, err := io.ReadFull(r.in, head[:]); {
	case n == 0 && r.whole && errors.Is(err, io.EOF):
		return 0, io.EOF
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return 0, r.damage(ErrCut)
	case err != nil:
		return 0, err
	}
	kind, n := le.Uint32(head[:]), le.Uint32(head[4:])
	if kind < headBlock || kind > endBlock {
		return 0, r.damage(fmt.Errorf("%w: a block of kind %d; legal are %d to %d", ErrDamaged, kind, headBlock, endBlock))
	}
	if n > maxBlock {
		return 0, r.damage(fmt.Errorf("%w: a block of %d bytes; legal are up to %d", ErrDamaged, n, maxBlock))
	}
	b := slices.Grow(append(r.payload[:0], head[:]...), int(n))[:blockHead+int(n)]
	if _, err := io.ReadFull(r.in, b[blockHead:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = r.damage(ErrCut)
		}
		return 0, err
	}
	if got, want := checksum(b), le.Uint32(head[8:]); got != want {
		return 0, r.damage(fmt.Errorf("%w: the checksum of a block is %08x, and should be %08x", ErrDamaged, got, want))
	}
	r.payload = b
	r.at += int64(len(b))
	return kind, nil
}

func (r *Reader) parse(v any) error {
	if err := json.Unmarshal(r.payload[blockHead:], v); err != nil {
		return r.damage(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return nil
}

// Next returns the next records or the next moment. After the last block it returns io.EOF if the
// file is whole, otherwise ErrCut.
func (r *Reader) Next() (Block, error) {
	for {
		kind, err := r.block()
		if err != nil {
			return Block{}, err
		}
		r.whole = kind == endBlock
		data := r.payload[blockHead:]
		switch kind {
		case headBlock:
			return Block{}, r.damage(fmt.Errorf("%w: a second head", ErrDamaged))
		case sourceBlock:
			var s event.Source
			if err := r.parse(&s); err != nil {
				return Block{}, err
			}
			r.Sources[s.ID] = s
		case specBlock:
			var s Spec
			if err := r.parse(&s); err != nil {
				return Block{}, err
			}
			r.Specs[s.ID] = s
		case momentBlock:
			if len(data) != 16 {
				return Block{}, r.damage(fmt.Errorf("%w: a moment of %d bytes", ErrDamaged, len(data)))
			}
			return Block{Moment: event.Moment{Ticks: int64(le.Uint64(data)), Wall: int64(le.Uint64(data[8:]))}}, nil
		case recordsBlock:
			return r.records(data)
		case endBlock:
			if len(data) != 8 {
				return Block{}, r.damage(fmt.Errorf("%w: an end mark of %d bytes", ErrDamaged, len(data)))
			}
			r.Lost = le.Uint64(data)
		}
	}
}

func (r *Reader) records(data []byte) (Block, error) {
	if len(data) < 8 || (len(data)-8)%recordSize != 0 {
		return Block{}, r.damage(fmt.Errorf("%w: %d bytes are not a whole number of records", ErrDamaged, len(data)))
	}
	id := int(le.Uint64(data))
	s, ok := r.Sources[id]
	if !ok {
		return Block{}, r.damage(fmt.Errorf("%w: records of source %d, which is not described before", ErrDamaged, id))
	}
	r.recs = r.recs[:0]
	for data = data[8:]; len(data) > 0; data = data[recordSize:] {
		x := record(data)
		if x.Kind().Info() == nil {
			return Block{}, r.damage(fmt.Errorf("%w: a trace event of %v; this program knows 1 to %d", ErrDamaged, x.Kind(), len(event.Table())))
		}
		r.recs = append(r.recs, x)
	}
	return Block{Source: s, Records: r.recs}, nil
}
