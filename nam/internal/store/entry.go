// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"time"
	"unicode"
	"unicode/utf8"
)

// Byte orders: ne of headers and the database, le of entries.
var ne, le = binary.NativeEndian, binary.LittleEndian

// ID names an allocation and each of its files: 128 random bits.
type ID [16]byte

func (id ID) String() string { return hex.EncodeToString(id[:]) }

// State of an allocation; see the package comment.
type State uint8

const (
	Creating State = 1 + iota
	Ready
	Deleting
)

func (s State) String() string {
	if s < Creating || s > Deleting {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return [...]string{Creating: "creating", Ready: "ready", Deleting: "deleting"}[s]
}

// Region is the memory of one rank of the creating group.
type Region struct {
	Size          uint64 // bytes
	Unit          uint32 // bytes per displacement
	Manifestation uint8  // a constant of nam; the store only keeps it
	File          uint32 // index into Entry.Files
	Offset        uint64 // from the start of that file's data
}

// File is one memory-mapped file. The first file of an entry has the entry's ID and the epoch
// count. Its flock says whether the allocation is in use.
type File struct {
	ID    ID
	Bytes uint64 // data bytes, without the header page
}

// Entry is the metadata of one allocation.
type Entry struct {
	ID         ID
	Name       string
	State      State
	Structure  uint8 // constants of nam; the store only keeps them
	Volatile   bool
	SyncEpoch  bool
	Mode       fs.FileMode // permission bits
	UID, GID   uint32
	Created    time.Time
	Creator    string // program, process and host that made it; for users to read
	Generation uint64 // counts changes of the entry
	Files      []File
	Regions    []Region // by rank of the creating group
}

// Footprint is the part of the store's capacity that the allocation takes: data and headers, in
// whole pages.
func (r *Entry) Footprint() uint64 {
	sum := overflow(r.encodedLen())
	for _, f := range r.Files {
		sum += fileSize(f.Bytes)
	}
	return sum
}

// Bytes is the sum of the region sizes.
func (r *Entry) Bytes() uint64 {
	var sum uint64
	for _, g := range r.Regions {
		sum += g.Size
	}
	return sum
}

const (
	entryMagic   = "WNAM"
	entryVersion = 1
	maxName      = 255     // bytes
	maxCreator   = 1024    // bytes
	maxRanks     = 1 << 20 // a sanity limit for what is read from disk
	maxFileBytes = 1 << 56 // so that sums of file sizes stay far from overflow
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry layout, little endian: magic[4] version:u16 flags:u16 state:u8 structure:u8 mode:u16
// id[16] uid:u32 gid:u32 created:i64 generation:u64 name:(u16,bytes) creator:(u16,bytes) files:u32
// { id[16] bytes:u64 } regions:u32 { size:u64 unit:u32 manifestation:u8 file:u32 offset:u64 }
// crc32c:u32 of all before it.
const (
	flagVolatile = 1 << iota
	flagSyncEpoch
	knownFlags = flagVolatile | flagSyncEpoch
)

func (r *Entry) encodedLen() int {
	return 68 + len(r.Name) + len(r.Creator) + 24*len(r.Files) + 25*len(r.Regions)
}

// Encode returns the encoded entry. The version of this encoding is the same in layouts 1 and 2.
func (r *Entry) Encode() []byte {
	b := make([]byte, 0, r.encodedLen())
	b = append(b, entryMagic...)
	b = le.AppendUint16(b, entryVersion)
	var flags uint16
	if r.Volatile {
		flags |= flagVolatile
	}
	if r.SyncEpoch {
		flags |= flagSyncEpoch
	}
	b = le.AppendUint16(b, flags)
	b = append(b, byte(r.State), r.Structure)
	b = le.AppendUint16(b, uint16(r.Mode.Perm()))
	b = append(b, r.ID[:]...)
	b = le.AppendUint32(b, r.UID)
	b = le.AppendUint32(b, r.GID)
	b = le.AppendUint64(b, uint64(r.Created.UnixNano()))
	b = le.AppendUint64(b, r.Generation)
	b = le.AppendUint16(b, uint16(len(r.Name)))
	b = append(b, r.Name...)
	b = le.AppendUint16(b, uint16(len(r.Creator)))
	b = append(b, r.Creator...)
	b = le.AppendUint32(b, uint32(len(r.Files)))
	for _, f := range r.Files {
		b = append(b, f.ID[:]...)
		b = le.AppendUint64(b, f.Bytes)
	}
	b = le.AppendUint32(b, uint32(len(r.Regions)))
	for _, g := range r.Regions {
		b = le.AppendUint64(b, g.Size)
		b = le.AppendUint32(b, g.Unit)
		b = append(b, g.Manifestation)
		b = le.AppendUint32(b, g.File)
		b = le.AppendUint64(b, g.Offset)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Decode decodes an entry and checks everything that later code relies on. A decoded entry can be
// mapped and addressed without further checks of its numbers.
func Decode(b []byte) (*Entry, error) {
	bad := func(format string, args ...any) (*Entry, error) {
		return nil, fmt.Errorf("%w: metadata entry: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
	if len(b) < len(entryMagic)+2+4 {
		return bad("%d bytes are too few", len(b))
	}
	if string(b[:4]) != entryMagic {
		return bad("magic %q, want %q", b[:4], entryMagic)
	}
	if v := le.Uint16(b[4:]); v != entryVersion {
		return nil, fmt.Errorf("%w: metadata entry has version %d, this program knows %d", ErrVersion, v, entryVersion)
	}
	body, sum := b[:len(b)-4], le.Uint32(b[len(b)-4:])
	if got := crc32.Checksum(body, castagnoli); got != sum {
		return bad("checksum %08x, want %08x", got, sum)
	}
	d := decoder{b: body[6:]}
	r := &Entry{}
	flags := d.u16()
	r.Volatile, r.SyncEpoch = flags&flagVolatile != 0, flags&flagSyncEpoch != 0
	r.State, r.Structure = State(d.u8()), d.u8()
	mode := d.u16()
	r.Mode = fs.FileMode(mode)
	r.ID, r.UID, r.GID = d.id(), d.u32(), d.u32()
	r.Created = time.Unix(0, int64(d.u64()))
	r.Generation = d.u64()
	r.Name = d.str(maxName)
	r.Creator = d.str(maxCreator)
	r.Files = make([]File, d.count(24))
	for i := range r.Files {
		r.Files[i] = File{ID: d.id(), Bytes: d.u64()}
	}
	r.Regions = make([]Region, d.count(25))
	for i := range r.Regions {
		r.Regions[i] = Region{Size: d.u64(), Unit: d.u32(), Manifestation: d.u8(), File: d.u32(), Offset: d.u64()}
	}
	switch {
	case d.failed:
		return bad("it ends in the middle of a field")
	case len(d.b) != 0:
		return bad("%d bytes too many", len(d.b))
	case flags&^knownFlags != 0:
		return bad("unknown flags %#x", flags)
	case mode&^0o777 != 0:
		return bad("mode %#o", mode)
	}
	if err := r.check(); err != nil {
		return bad("%v", err)
	}
	return r, nil
}

// check verifies what Encode and all users of an entry rely on.
func (r *Entry) check() error {
	if r.State < Creating || r.State > Deleting {
		return fmt.Errorf("state %d", r.State)
	}
	if err := CheckName(r.Name); err != nil {
		return err
	}
	if len(r.Creator) > maxCreator {
		return fmt.Errorf("creator of %d bytes, at most %d", len(r.Creator), maxCreator)
	}
	if len(r.Files) == 0 || len(r.Files) > maxRanks+1 || r.Files[0].ID != r.ID {
		return fmt.Errorf("%d files, of which the first must have the id of the allocation", len(r.Files))
	}
	for i, f := range r.Files {
		if f.Bytes > maxFileBytes {
			return fmt.Errorf("file %d of %d bytes", i, f.Bytes)
		}
	}
	if len(r.Regions) == 0 || len(r.Regions) > maxRanks {
		return fmt.Errorf("%d regions, legal are 1 to %d", len(r.Regions), maxRanks)
	}
	for i, g := range r.Regions {
		if int64(g.File) >= int64(len(r.Files)) || g.Unit == 0 || g.Unit > math.MaxInt32 {
			return fmt.Errorf("region %d: unit %d, file %d of %d", i, g.Unit, g.File, len(r.Files))
		}
		if n := r.Files[g.File].Bytes; g.Offset > n || g.Size > n-g.Offset {
			return fmt.Errorf("region %d: bytes %d+%d of a file of %d", i, g.Offset, g.Size, n)
		}
	}
	return nil
}

// CheckName says whether a window may have this name: 1 to 255 bytes of valid UTF-8, without blanks
// and control characters. Names are database keys, never paths.
func CheckName(name string) error {
	if name == "" || len(name) > maxName || !utf8.ValidString(name) {
		return fmt.Errorf("window name %.40q: legal are 1 to %d bytes of UTF-8", name, maxName)
	}
	for _, c := range name {
		if unicode.IsSpace(c) || !unicode.IsPrint(c) {
			return fmt.Errorf("window name %q: blanks and control characters are not legal", name)
		}
	}
	return nil
}

// decoder takes fields off the front of b. After the first field that is missing, failed is set and
// all further fields are zero.
type decoder struct {
	b      []byte
	failed bool
}

func (d *decoder) take(n int) []byte {
	if d.failed || n > len(d.b) {
		d.failed = true
		return make([]byte, min(n, 16))
	}
	f := d.b[:n]
	d.b = d.b[n:]
	return f
}

func (d *decoder) u8() uint8   { return d.take(1)[0] }
func (d *decoder) u16() uint16 { return le.Uint16(d.take(2)) }
func (d *decoder) u32() uint32 { return le.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { return le.Uint64(d.take(8)) }
func (d *decoder) id() ID      { return ID(d.take(len(ID{}))) }

func (d *decoder) str(limit int) string {
	n := int(d.u16())
	if n > limit {
		d.failed = true
		return ""
	}
	return string(d.take(n))
}

// count decodes a number of items of the given size. It refuses a number that does not fit in the
// rest of b, so that a damaged count never becomes a huge allocation.
func (d *decoder) count(size int) int {
	n := int64(d.u32()) // 0 after a failure
	if n > int64(len(d.b)/size) {
		d.failed = true
		return 0
	}
	return int(n)
}
