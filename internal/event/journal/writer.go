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
	known map[int]bool // sources that are in the file
	specs int          // origins that are in the file
	whole bool         // the last block is an end mark
	buf   []byte       // what is to be written
	err   error
}

const writeSize = 1 << 18 // bytes that go to the file together (guess)

// Create makes a file. Of head, the caller sets Rank and Ranks; the rest is known.
func Create(name string, head Head) (*Writer, error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	head.Process = os.Getpid()
	head.Program = os.Args[0]
	head.Host, _ = os.Hostname() // only to tell people
	head.Boot = bootID()
	head.Clock = event.ClockName()
	return &Writer{head: head, f: f, name: name, known: map[int]bool{}}, nil
}

// Name returns the name of the file.
func (w *Writer) Name() string { return w.name }

// Begin writes what the file is.
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

// open begins a block and returns where.
func (w *Writer) open(kind uint32) int {
	at := len(w.buf)
	w.buf = le.AppendUint32(w.buf, kind)
	w.buf = append(w.buf, make([]byte, blockHead-4)...)
	return at
}

// shut ends the block that begins at a place.
func (w *Writer) shut(at int) {
	b := w.buf[at:]
	le.PutUint32(b[4:], uint32(len(b)-blockHead))
	le.PutUint32(b[8:], checksum(b))
	w.whole = false
	if len(w.buf) >= writeSize {
		w.write()
	}
}

// checksum is over a whole block but for itself.
func checksum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:8], castagnoli), castagnoli, b[blockHead:])
}

func (w *Writer) write() {
	if w.err == nil {
		_, w.err = w.f.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// Flush writes what there is, and the moment.
func (w *Writer) Flush(m event.Moment) error {
	if w.whole {
		return w.err // there is nothing new
	}
	at := w.open(momentBlock)
	w.buf = le.AppendUint64(w.buf, uint64(m.Ticks))
	w.buf = le.AppendUint64(w.buf, uint64(m.Wall))
	w.shut(at)
	w.write()
	return w.err
}

// Idle makes the file whole.
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

// Close makes the file whole and closes it.
func (w *Writer) Close() error {
	return cmp.Or(w.Idle(), w.f.Close())
}
