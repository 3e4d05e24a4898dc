// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"

	"weft/internal/event"
)

// A Writer is a sink that writes a file.
type Writer struct {
	rec   *event.Recorder
	head  Head
	f     *os.File
	name  string
	known map[int]bool // sources whose block is in the file
	specs int          // number of origins in the file
	whole bool         // the last block is an end mark
	buf   []byte       // blocks that are not written to the file yet
	err   error
}

const writeSize = 1 << 18 // bytes per write to the file (guess)

// Create creates a file. The caller sets Rank, Ranks and Job of head; Create sets the rest.
func Create(name string, head Head) (*Writer, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	head.Process = os.Getpid()
	head.Program = os.Args[0]
	head.Host, _ = os.Hostname() // empty if it fails: only people read it
	head.Boot = bootID()
	head.Clock = event.ClockName()
	return &Writer{head: head, f: f, name: name, known: map[int]bool{}}, nil
}

// Name returns the name of the file.
func (w *Writer) Name() string { return w.name }

// Begin writes the preface and the head.
func (w *Writer) Begin(r *event.Recorder) {
	w.rec = r
	w.head.Start = r.Start()
	w.buf = append(w.buf, magic...)
	w.buf = le.AppendUint32(w.buf, Version)
	w.object(headBlock, w.head)
}

// Events writes records.
func (w *Writer) Events(s *event.Source, recs []event.Record) {
	if w.err != nil {
		return
	}
	if !w.known[s.ID] {
		w.known[s.ID] = true
		w.object(sourceBlock, s)
	}
	for names := w.rec.Names(); w.specs < names.Specs(); {
		w.specs++
		o := names.Origin(uint32(w.specs))
		w.object(specBlock, Spec{uint32(w.specs), o.Label, o.Where()})
	}
	for len(recs) > 0 {
		n := min(len(recs), writeSize/recordSize)
		at := w.open(recordsBlock)
		w.buf = le.AppendUint64(w.buf, uint64(s.ID))
		w.buf = appendRecords(w.buf, recs[:n])
		w.shut(at)
		recs = recs[n:]
	}
}

func (w *Writer) object(kind uint32, v any) {
	at := w.open(kind)
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("journal: bug: %v", err))
	}
	w.buf = append(w.buf, b...)
	w.shut(at)
}

// open begins a block and returns its offset in buf.
func (w *Writer) open(kind uint32) int {
	at := len(w.buf)
	w.buf = le.AppendUint32(w.buf, kind)
	w.buf = append(w.buf, make([]byte, blockHead-4)...)
	return at
}

// shut ends the block that begins at offset at.
func (w *Writer) shut(at int) {
	b := w.buf[at:]
	le.PutUint32(b[4:], uint32(len(b)-blockHead))
	le.PutUint32(b[8:], checksum(b))
	w.whole = false
	if len(w.buf) >= writeSize {
		w.write()
	}
}

// checksum covers a whole block except the checksum field.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[blockHead:])
}

func (w *Writer) write() {
	if w.err == nil {
		_, w.err = w.f.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Flush writes all buffered blocks and the moment.
func (w *Writer) Flush(m event.Moment) error {
	if w.whole {
		return w.err // nothing was recorded since the end mark
	}
	at := w.open(momentBlock)
	w.buf = le.AppendUint64(w.buf, uint64(m.Ticks))
	w.buf = le.AppendUint64(w.buf, uint64(m.Wall))
	w.shut(at)
	w.write()
	return w.err
}

// Idle writes an end mark, unless the last block is one.
func (w *Writer) Idle() error {
	if !w.whole {
		at := w.open(endBlock)
		w.buf = le.AppendUint64(w.buf, w.rec.Lost())
		w.shut(at)
		w.write()
		w.whole = w.err == nil
	}
	return w.err
}

// Close writes an end mark and closes the file.
func (w *Writer) Close() error {
	return cmp.Or(w.Idle(), w.f.Close())
}
