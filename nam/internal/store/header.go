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
//	 56  boot      16 bytes: ID of the machine's boot in which it may have changed since; zero: clean
//	 72  first     16 bytes, ID of the allocation, which is that of its first file
//	 88  index     u32, of this file in the allocation
//	 92  length    u32, of the entry; 0 in all files but the first
//	 96  entryAt   u64, offset of the entry in the file
//	104  checksum  u32, CRC-32C of the constant fields and the entry
//
// Only the first file uses flags, epochs, vouched and boot. The four are in one sector, so the disk
// has all of them as of one moment. Their writers:
//
//	flags     all processes: volatile and doomed under the exclusive store lock; broken is only ever set
//	epochs    all processes; it only grows
//	vouched   a process that holds the exclusive store lock while no process uses the file
//	boot      the same; and a user that is about to write, before it writes
//
// All other fields are constant while an entry names the file.
//
// A count has a number in the lower 48 bits. The upper 16 bits are a checksum of the number and the
// file's ID.
//
// The entry is a copy of the one in meta.db, in state ready. It is at offset inlineAt of the page.
// An entry that is too long for the page is stored after the data.
//
// Layout 1 has magic "WEFTNAM1". Its flags and epochs have no complement and no checksum, and its
// last field is data.
const (
	headerSize   = 4096
	headerMagic  = "WEFTNAM2"
	headerMagic1 = "WEFTNAM1"
	// a long entry is stored after the data already; the header is not written yet
	headerMaking = "WEFTMAKE"

	offLayout, offFlags, offEpochs, offID, offData          = 8, 12, 16, 24, 40
	offVouched, offBoot, offFirst, offIndex                 = 48, 56, 72, 88
	offLength, offEntryAt, offChecksum, inlineAt, countBits = 92, 96, 104, 512, 48
	maxCount                                                = 1<<countBits - 1
	maxEntry                                                = 128 + maxName + maxCreator + (24+25)*(maxRanks+1)

	headVolatile uint32 = 1 << 0 // the last user's release must reclaim it
	headDoomed   uint32 = 1 << 1 // removed; the last user's release must reclaim it
	headBroken   uint32 = 1 << 2 // an epoch could not be made durable; the epoch count has stopped
	headFlags           = headVolatile | headDoomed | headBroken
)

// errIncomplete: the file's header was never written, because its creator died.
var errIncomplete = errors.New("it has no header yet")

// header is a decoded header.
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
	entry   *Entry // only in the first file; nil in layout 1

	badFlags, badEpochs bool // flags, or epochs or vouched, are damaged; they read as 0
}

// fileSize is the size of a file with data bytes of data, without an entry that is stored after the
// data.
func fileSize(data uint64) uint64 { return headerSize + (data+headerSize-1)/headerSize*headerSize }

// overflow is how many bytes of the file an encoded entry takes after the data, in whole pages; 0
// if the entry fits in the header page.
func overflow(encoded int) uint64 {
	if encoded <= headerSize-inlineAt {
		return 0
	}
	return (uint64(encoded) + headerSize - 1) / headerSize * headerSize
}

func packFlags(f uint32) uint32 { return f | ^f<<16 }

// unpackFlags returns the flags of a word; 0 and false if the word is damaged.
func unpackFlags(w uint32) (f uint32, ok bool) {
	f = w & 0xffff
	if packFlags(f) != w || f&^headFlags != 0 {
		return 0, false
	}
	return f, true
}

// packCount runs at each fence, so its checksum is made of two multiplications.
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

// encode returns the header page of a file. An entry that is stored at inlineAt is part of the
// page.
func (h *header) encode(encoded []byte, entryAt uint64) []byte {
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
	ne.PutUint32(b[offLength:], uint32(len(encoded)))
	ne.PutUint64(b[offEntryAt:], entryAt)
	ne.PutUint32(b[offChecksum:], headerSum(b, encoded))
	if entryAt == inlineAt {
		copy(b[inlineAt:], encoded)
	}
	return b
}

func headerSum(b, encoded []byte) uint32 {
	sum := crc32.Checksum(b[:offFlags], castagnoli)
	sum = crc32.Update(sum, castagnoli, b[offID:offVouched])
	sum = crc32.Update(sum, castagnoli, b[offFirst:offChecksum])
	return crc32.Update(sum, castagnoli, encoded)
}

// decodeHeader decodes the first page of a file of size bytes, and its entry, which it reads with
// readAt. It checks all that later code relies on. Errors: errIncomplete, ErrCorrupt, ErrVersion.
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
	length, entryAt := ne.Uint32(b[offLength:]), ne.Uint64(b[offEntryAt:])
	var encoded []byte
	switch {
	case length == 0:
	case entryAt == inlineAt && length <= headerSize-inlineAt:
		encoded = b[inlineAt:][:length]
	case length > maxEntry || entryAt < headerSize || entryAt > size || uint64(length) > size-entryAt:
		return bad("has its entry at bytes %d+%d of %d", entryAt, length, size)
	default:
		encoded = make([]byte, length)
		if _, err := readAt(encoded, int64(entryAt)); err != nil {
			return bad("has an entry that cannot be read: %v", err)
		}
	}
	if want := ne.Uint32(b[offChecksum:]); headerSum(b, encoded) != want {
		return bad("has checksum %08x, want %08x", headerSum(b, encoded), want)
	}
	if h.data > maxFileBytes {
		return bad("has a size of %d bytes", h.data)
	}
	if (h.index == 0) != (h.first == h.id) || (h.index == 0) != (length > 0) {
		return bad("is of file %d of allocation %v, with an entry of %d bytes", h.index, h.first, length)
	}
	if h.index > 0 {
		return h, nil
	}
	var err error
	if h.entry, err = Decode(encoded); err != nil {
		return nil, err
	}
	if h.entry.ID != h.id || h.entry.Files[0].Bytes != h.data {
		return bad("has the entry of another file")
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

// readHeader reads the header of a file. Words that change during the read may be torn, so it reads
// up to three times.
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

// writeHeader makes h the header of f and forces it to the disk. If f is a first file, the header
// has ent. A process that is killed meanwhile leaves the old header or the new one.
//
// Preconditions: the exclusive store lock is held and no process uses the file; or the file is new.
func (s *Store) writeHeader(f *os.File, h *header, ent *Entry) error {
	var encoded []byte
	entryAt := uint64(0)
	if h.index == 0 {
		sealed := *ent
		sealed.State = Ready
		encoded = sealed.Encode()
		entryAt = inlineAt
	}
	if more := overflow(len(encoded)); more > 0 {
		// At the end of the file: the present header may have its entry after the data too.
		st, err := f.Stat()
		if err != nil {
			return err
		}
		entryAt = max(fileSize(h.data), (uint64(st.Size())+headerSize-1)/headerSize*headerSize)
		if err := s.reserve(f, entryAt+more); err != nil {
			return err
		}
		if err := s.writeAt(f, encoded, int64(entryAt)); err != nil {
			return spaceError(err, "write a header")
		}
		if err := s.reached("header:entry", spaceError(s.syncFile(f), "sync a file")); err != nil {
			return err
		}
	}
	if err := s.reached("header:written", spaceError(s.writeAt(f, h.encode(encoded, entryAt), 0), "write a header")); err != nil {
		return err
	}
	return s.reached("header:synced", spaceError(s.syncFile(f), "sync a file"))
}

func flagsBytes(w uint32) []byte { return ne.AppendUint32(nil, w) }
