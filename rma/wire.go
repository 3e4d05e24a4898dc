// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"weft/comm"
)

// What travels between ranks of different processes, version 1. Numbers are little endian. A bundle
// is a message:
//
//	bytes 0–3    "wRMA"
//	4–7          version
//	8–15         epoch: how many fences the sender has completed
//	16–23        number of the bundle on this way, from 1
//	24–31        bytes of the whole bundle
//
// and then records of 24 bytes, each followed by its payload, filled up to a multiple of 8:
//
//	byte 0       what it is
//	1            operator; of a fence, 1 if it is that of Free
//	2            element kind
//	3            0
//	4–7          tag of the message that goes with it, or 0
//	8–15         offset in the receiver's region
//	16–23        bytes
const (
	wireVersion = 1
	wireMagic   = "wRMA"
	headBytes   = 32
	recordBytes = 24

	// bundleBytes is small enough to travel without a rendezvous over every fabric of today.
	bundleBytes = 16 << 10
	// inlineBytes is the largest put whose payload is copied into a bundle; a guess: a second
	// message and its rendezvous cost about as much as copying so much twice.
	inlineBytes = 8 << 10
	// maxElement is the largest element that fits, whole, into a bundle.
	maxElement = bundleBytes - headBytes - recordBytes
)

// wireKind says what a record is.
type wireKind uint8

const (
	wirePut        wireKind = 1 + iota // the payload follows
	wireDirect                         // a put whose payload is a message of its own
	wireGet                            // wants a message
	wireAccumulate                     // the payload follows
	wireMark                           // a fence: the last record of an epoch, and of its bundle
)

func (k wireKind) String() string {
	if k < wirePut || k > wireMark {
		return fmt.Sprintf("record of the unknown kind %d", uint8(k))
	}
	return [...]string{"put", "direct put", "get", "accumulate", "fence"}[k-wirePut]
}

// one is String with an article, for errors.
func (k wireKind) one() string {
	if k == wireAccumulate {
		return "an accumulate"
	}
	return "a " + k.String()
}

// The operators as they travel, from 1.
var wireOps = []comm.Op{{}, comm.Sum, comm.Prod, comm.Min, comm.Max, Replace}

func wireOp(op comm.Op) uint8 { return uint8(slices.Index(wireOps[1:], op) + 1) }

type record struct {
	what wireKind
	op   uint8
	kind comm.Kind
	tag  uint32
	off  uint64
	n    uint64
}

// bundle is the memory of one.
type bundle struct {
	words [bundleBytes / 8]uint64 // so that payloads are aligned
	n     int                     // bytes in use
}

var bundles = sync.Pool{New: func() any { return new(bundle) }}

func newBundle() *bundle {
	b := bundles.Get().(*bundle)
	b.n = headBytes
	return b
}

func (b *bundle) memory() []byte { return wordBytes(b.words[:]) }
func (b *bundle) bytes() []byte  { return b.memory()[:b.n] }

// room is how many bytes of payload a record may have that is added now; negative if none fits.
func (b *bundle) room() int { return bundleBytes - b.n - recordBytes }

// add appends a record and returns the memory for its payload of n bytes.
func (b *bundle) add(r record, n int) []byte {
	m := b.memory()[b.n:]
	m[0], m[1], m[2], m[3] = byte(r.what), r.op, byte(r.kind), 0
	binary.LittleEndian.PutUint32(m[4:], r.tag)
	binary.LittleEndian.PutUint64(m[8:], r.off)
	binary.LittleEndian.PutUint64(m[16:], r.n)
	end := recordBytes + (n+7)&^7
	clear(m[recordBytes+n : end])
	b.n += end
	return m[recordBytes : recordBytes+n]
}

// seal writes the head.
func (b *bundle) seal(epoch, seq uint64) {
	m := b.memory()
	copy(m, wireMagic)
	binary.LittleEndian.PutUint32(m[4:], wireVersion)
	binary.LittleEndian.PutUint64(m[8:], epoch)
	binary.LittleEndian.PutUint64(m[16:], seq)
	binary.LittleEndian.PutUint64(m[24:], uint64(b.n))
}

// openBundle checks the head of a bundle that has arrived, and returns its records.
func openBundle(b []byte) (epoch, seq uint64, records []byte, err error) {
	switch {
	case len(b) < headBytes:
		err = fmt.Errorf("a message of %d bytes; a bundle has %d or more", len(b), headBytes)
	case string(b[:4]) != wireMagic:
		err = fmt.Errorf("a message that begins with %q; a bundle begins with %q", b[:4], wireMagic)
	case binary.LittleEndian.Uint32(b[4:]) != wireVersion:
		err = fmt.Errorf("version %d of the protocol; this program has version %d", binary.LittleEndian.Uint32(b[4:]), wireVersion)
	case binary.LittleEndian.Uint64(b[24:]) != uint64(len(b)):
		err = fmt.Errorf("a bundle of %d bytes that says it has %d", len(b), binary.LittleEndian.Uint64(b[24:]))
	default:
		return binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), b[headBytes:], nil
	}
	return 0, 0, nil, err
}

// nextRecord takes the first record off b. region is the size of the region that it is for. The
// payload of what it returns lies in b, and everything else has been checked.
func nextRecord(b []byte, region int) (r record, data, rest []byte, err error) {
	if len(b) < recordBytes {
		return r, nil, nil, fmt.Errorf("a record of %d bytes; one has %d or more", len(b), recordBytes)
	}
	r = record{what: wireKind(b[0]), op: b[1], kind: comm.Kind(b[2]), tag: binary.LittleEndian.Uint32(b[4:]),
		off: binary.LittleEndian.Uint64(b[8:]), n: binary.LittleEndian.Uint64(b[16:])}
	unused := b[3]
	b = b[recordBytes:]
	follows := 0
	switch r.what {
	case wirePut:
		follows, unused = 1, unused|r.op|byte(r.kind)|byte(min(r.tag, 1))
	case wireAccumulate:
		follows, unused = 1, unused|byte(min(r.tag, 1))
		if err := r.checkOp(); err != nil {
			return r, nil, nil, err
		}
	case wireDirect, wireGet:
		unused |= r.op | byte(r.kind)
		if r.tag == 0 || r.tag > comm.TagUB || (r.what == wireGet) != (r.tag%2 == 1) {
			return r, nil, nil, fmt.Errorf("%s with the tag %d", r.what.one(), r.tag)
		}
	case wireMark:
		if int(r.op) >= len(fences) {
			return r, nil, nil, fmt.Errorf("a fence of the unknown kind %d", r.op)
		}
		unused |= byte(r.kind) | byte(min(r.tag, 1)) | byte(min(r.off, 1)) | byte(min(r.n, 1))
		if len(b) != 0 {
			return r, nil, nil, fmt.Errorf("%d bytes behind a fence; it is the last record of its bundle", len(b))
		}
	default:
		return r, nil, nil, fmt.Errorf("%s", r.what.one())
	}
	switch {
	case unused != 0:
		return r, nil, nil, fmt.Errorf("%s with a field that is not zero", r.what.one())
	case r.off > uint64(region) || r.n > uint64(region)-r.off:
		return r, nil, nil, fmt.Errorf("%s of %d bytes at byte %d of a region of %d", r.what.one(), r.n, r.off, region)
	case r.n == 0 && r.what != wireMark:
		return r, nil, nil, fmt.Errorf("%s of nothing", r.what.one())
	}
	if follows == 0 {
		return r, nil, b, nil
	}
	if r.n > uint64(len(b)) || (r.n+7)&^7 > uint64(len(b)) {
		return r, nil, nil, fmt.Errorf("%s of %d bytes, of which %d follow", r.what.one(), r.n, len(b))
	}
	return r, b[:r.n:r.n], b[(r.n+7)&^7:], nil
}

func (r *record) checkOp() error {
	if r.op == 0 || int(r.op) >= len(wireOps) || r.kind == comm.None || r.kind >= comm.Opaque {
		return fmt.Errorf("an accumulate with operator %d on elements of %v", r.op, r.kind)
	}
	return checkOp(wireOps[r.op], r.kind)
}
