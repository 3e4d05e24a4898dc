// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// Each file begins with a header of one page; the data follows at offset headerSize. Layout 2:
//
//	  0  magic "WEFTNAM2"
//	  8  layout    u32
//	 12  flags     u32, atomic: volatile, doomed, broken; the upper half is the complement of the lower
//	 16  epochs    u64, atomic: fences of the creating group that are complete; a count, see below
//	 24  id        16 bytes
//	 40  data      u64, bytes of data
//	 48  vouched   u64, a count: the epochs that were on the disk when the file was last clean
//	 56  boot      16 bytes: of the machine's run in which it may have changed since; zero: clean
//	 72  first     16 bytes, ID of the allocation, which is that of its first file
//	 88  index     u32, of this file in the allocation
//	 92  length    u32, of the record; 0 in all files but the first
//	 96  place     u64, of the record in the file
//	104  checksum  u32, CRC-32C of the constant fields and the record
//
// flags, epochs, vouched and boot count in the first file only. They are in one sector, so that
// what the disk has of them is of one moment. flags and epochs are shared words of all processes;
// volatile and doomed change under the exclusive store lock only, broken is only ever set, epochs
// only grows. vouched and boot are written by whoever is alone with the file (the exclusive store
// lock and nobody uses it), boot also by a user that begins to write, before it does. All else is
// constant while a record has the file.
//
// A count is a number in the lower 48 bits and, in the upper 16, a checksum of it and the file's
// ID.
//
// The record is what meta.db has of the allocation, in state ready. It follows in the page, at
// offset recordAt; one that is too long for the page is behind the data.
//
// Layout 1 has magic "WEFTNAM1", flags and epochs without complement and checksum, and ends with
// data.
const (
	headerSize   = 4096
	headerMagic  = "WEFTNAM2"
	headerMagic1 = "WEFTNAM1"
	headerMaking = "WEFTMAKE" // there is something behind the data already, and no header yet

	offLayout, offFlags, offEpochs, offID, offData        = 8, 12, 16, 24, 40
	offVouched, offBoot, offFirst, offIndex               = 48, 56, 72, 88
	offLength, offPlace, offChecksum, recordAt, countBits = 92, 96, 104, 512, 48
	maxCount                                              = 1<<countBits - 1
	maxRecord                                             = 128 + maxName + maxCreator + (24+25)*(maxRanks+1)

	headVolatile uint32 = 1 << 0 // the last user's release must reclaim it
	headDoomed   uint32 = 1 << 1 // removed; likewise
	headBroken   uint32 = 1 << 2 // an epoch could not be made durable; the epoch count has stopped
	headFlags           = headVolatile | headDoomed | headBroken
)

// errIncomplete is of a file whose header was never written: its creator died.
var errIncomplete = errors.New("it has no header yet")

// header is what a file says of itself.
type header struct {
	layout  int // 1, 2
	flags   uint32
	epochs  uint64
	vouched uint64
	boot    ID
	id      ID
	data    uint64
	first   ID
	index   uint32
	rec     *Record // of the first file; nil in layout 1

	badFlags, badEpochs bool // flags, or epochs or vouched, are damaged and read as 0
}

// fileSize is the size of a file with so many bytes of data, without what may be behind them.
func fileSize(data uint64) uint64 { return headerSize + (data+headerSize-1)/headerSize*headerSize }

// behind is how many bytes of a record do not fit into the header, in whole pages.
func behind(record int) uint64 {
	if record <= headerSize-recordAt {
		return 0
	}
	return (uint64(record) + headerSize - 1) / headerSize * headerSize
}

func packFlags(f uint32) uint32 { return f | ^f<<16 }

// unpackFlags returns none of damaged ones.
func unpackFlags(w uint32) (f uint32, ok bool) {
	f = w & 0xffff
	if packFlags(f) != w || f&^headFlags != 0 {
		return 0, false
	}
	return f, true
}

// packCount is in the path of each fence, and so makes its checksum of two multiplications.
func packCount(n uint64, id ID) uint64 {
	x := n ^ ne.Uint64(id[:])
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x ^= ne.Uint64(id[8:])
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return n&maxCount | (x^x>>31)>>countBits<<countBits
}

func unpackCount(w uint64, id ID) (n uint64, ok bool) {
	n = w & maxCount
	return n, packCount(n, id) == w
}

// encode returns the header's page for a file whose record, if it has one, is at place.
func (h *header) encode(record []byte, place uint64) []byte {
	b := make([]byte, headerSize)
	copy(b, headerMagic)
	ne.PutUint32(b[offLayout:], 2)
	ne.PutUint32(b[offFlags:], packFlags(h.flags))
	ne.PutUint64(b[offEpochs:], packCount(h.epochs, h.id))
	copy(b[offID:], h.id[:])
	ne.PutUint64(b[offData:], h.data)
	ne.PutUint64(b[offVouched:], packCount(h.vouched, h.id))
	copy(b[offBoot:], h.boot[:])
	copy(b[offFirst:], h.first[:])
	ne.PutUint32(b[offIndex:], h.index)
	ne.PutUint32(b[offLength:], uint32(len(record)))
	ne.PutUint64(b[offPlace:], place)
	ne.PutUint32(b[offChecksum:], headerSum(b, record))
	if place == recordAt {
		copy(b[recordAt:], record)
	}
	return b
}

func headerSum(b, record []byte) uint32 {
	sum := crc32.Checksum(b[:offFlags], castagnoli)
	sum = crc32.Update(sum, castagnoli, b[offID:offVouched])
	sum = crc32.Update(sum, castagnoli, b[offFirst:offChecksum])
	return crc32.Update(sum, castagnoli, record)
}

// decodeHeader reads the first page of a file of size bytes, and its record by readAt. It checks
// all that later code relies on. Errors: errIncomplete, ErrCorrupt, ErrVersion.
func decodeHeader(b []byte, size uint64, readAt func(b []byte, off int64) (int, error)) (*header, error) {
	bad := func(format string, args ...any) (*header, error) {
		return nil, fmt.Errorf("%w: the header %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	if len(b) < headerSize {
		return bad("is cut: there are %d bytes", len(b))
	}
	b = b[:headerSize]
	h := &header{id: ID(b[offID:]), data: ne.Uint64(b[offData:])}
	switch magic := string(b[:offLayout]); magic {
	case string(make([]byte, offLayout)), headerMaking:
		return nil, errIncomplete
	case headerMagic1:
		if v := ne.Uint32(b[offLayout:]); v != 1 || h.data > maxFileBytes {
			return bad("of layout 1 has version %d and %d bytes", v, h.data)
		}
		h.layout, h.flags, h.epochs, h.first = 1, ne.Uint32(b[offFlags:]), ne.Uint64(b[offEpochs:]), h.id
		h.vouched, h.badFlags, h.badEpochs = h.epochs, h.flags&^headFlags != 0, h.epochs > maxCount
		h.clean()
		return h, nil
	case headerMagic:
	default:
		if v := ne.Uint32(b[offLayout:]); string(b[:7]) == headerMagic[:7] && v > 2 && v == uint32(b[7]-'0') {
			return nil, fmt.Errorf("%w: the header has layout %d, this program knows 1 and 2", ErrVersion, v)
		}
		return bad("begins with %q", magic)
	}
	if v := ne.Uint32(b[offLayout:]); v != 2 {
		return bad("of layout 2 has version %d", v)
	}
	h.layout, h.boot, h.first, h.index = 2, ID(b[offBoot:]), ID(b[offFirst:]), ne.Uint32(b[offIndex:])
	flags, flagsOK := unpackFlags(ne.Uint32(b[offFlags:]))
	epochs, epochsOK := unpackCount(ne.Uint64(b[offEpochs:]), h.id)
	vouched, vouchedOK := unpackCount(ne.Uint64(b[offVouched:]), h.id)
	h.flags, h.epochs, h.vouched, h.badFlags, h.badEpochs = flags, epochs, vouched, !flagsOK, !epochsOK || !vouchedOK
	h.clean()
	length, place := ne.Uint32(b[offLength:]), ne.Uint64(b[offPlace:])
	var record []byte
	switch {
	case length == 0:
	case place == recordAt && length <= headerSize-recordAt:
		record = b[recordAt:][:length]
	case length > maxRecord || place < headerSize || place > size || uint64(length) > size-place:
		return bad("has its record at bytes %d+%d of %d", place, length, size)
	default:
		record = make([]byte, length)
		if _, err := readAt(record, int64(place)); err != nil {
			return bad("has a record that cannot be read: %v", err)
		}
	}
	if want := ne.Uint32(b[offChecksum:]); headerSum(b, record) != want {
		return bad("has checksum %08x, want %08x", headerSum(b, record), want)
	}
	if h.data > maxFileBytes {
		return bad("speaks of %d bytes", h.data)
	}
	if (h.index == 0) != (h.first == h.id) || (h.index == 0) != (length > 0) {
		return bad("is of file %d of allocation %v, with a record of %d bytes", h.index, h.first, length)
	}
	if h.index > 0 {
		return h, nil
	}
	var err error
	if h.rec, err = Decode(record); err != nil {
		return nil, err
	}
	if h.rec.ID != h.id || h.rec.Files[0].Bytes != h.data {
		return bad("has the record of another file")
	}
	return h, nil
}

// clean makes damaged words read as 0.
func (h *header) clean() {
	if h.badFlags {
		h.flags = 0
	}
	if h.badEpochs {
		h.epochs, h.vouched = 0, 0
	}
}

// readHeader reads the header of a file. Words that change meanwhile may be torn: they are read
// again.
func (s *Store) readHeader(f *os.File) (*header, error) {
	page := make([]byte, headerSize)
	var h *header
	for range 3 {
		st, err := f.Stat()
		if err != nil {
			return nil, err
		}
		n, err := s.readAt(f, page, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: read the header: %w", ErrCorrupt, err)
		}
		if n == 0 {
			return nil, errIncomplete
		}
		if h, err = decodeHeader(page[:n], uint64(st.Size()), func(b []byte, off int64) (int, error) { return s.readAt(f, b, off) }); err != nil {
			return nil, err
		}
		if !h.badFlags && !h.badEpochs {
			break
		}
	}
	return h, nil
}

// writeHeader makes h, with rec if it is of the first file, the header of f, and forces it to the
// disk. A process that is killed meanwhile leaves the header as it was or as it is to be.
//
// Preconditions: nobody uses the file, or it is new; the exclusive store lock is held, or it is
// new.
func (s *Store) writeHeader(f *os.File, h *header, rec *Record) error {
	var record []byte
	place := uint64(0)
	if h.index == 0 {
		sealed := *rec
		sealed.State = Ready
		record = sealed.Encode()
		place = recordAt
	}
	if more := behind(len(record)); more > 0 {
		// Behind all that is there: the header that counts until now may have its record there too.
		st, err := f.Stat()
		if err != nil {
			return err
		}
		place = max(fileSize(h.data), (uint64(st.Size())+headerSize-1)/headerSize*headerSize)
		if err := s.reserve(f, place+more); err != nil {
			return err
		}
		if err := s.writeAt(f, record, int64(place)); err != nil {
			return spaceError(err, "write a header")
		}
		if err := s.reached("header:record", spaceError(s.syncFile(f), "sync a file")); err != nil {
			return err
		}
	}
	if err := s.reached("header:written", spaceError(s.writeAt(f, h.encode(record, place), 0), "write a header")); err != nil {
		return err
	}
	return s.reached("header:synced", spaceError(s.syncFile(f), "sync a file"))
}

func flagsBytes(w uint32) []byte { return ne.AppendUint32(nil, w) }
