// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testEntry() *Entry {
	id := ID{1, 2, 3}
	return &Entry{
		ID: id, Name: "näme:1", State: Ready, Structure: 2, Volatile: true, Mode: 0o640, UID: 7, GID: 8,
		Created: time.Unix(12, 34), Creator: "a[1]@b", Generation: 9,
		Files:   []File{{ID: id, Bytes: 100}, {ID: ID{4}, Bytes: 0}},
		Regions: []Region{{Size: 60, Unit: 4, Manifestation: 1}, {Size: 40, Unit: 8, Offset: 60, Manifestation: 2}, {Unit: 1, File: 1}},
	}
}

func reseal(b []byte) []byte {
	n := len(b) - 4
	return binary.LittleEndian.AppendUint32(b[:n:n], crc32.Checksum(b[:n], castagnoli))
}

func TestEntryRoundTrip(t *testing.T) {
	r := testEntry()
	got, err := Decode(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, got)
	r.Volatile, r.SyncEpoch = false, true
	got, err = Decode(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func TestDecodeRefusesEveryDamage(t *testing.T) {
	good := testEntry().Encode()
	for i := range good {
		_, err := Decode(good[:i])
		require.Error(t, err, "cut at %d", i)
		bad := append([]byte{}, good...)
		bad[i] ^= 0x40
		_, err = Decode(bad)
		require.Error(t, err, "changed at %d", i)
	}
	_, err := Decode(reseal(append(append([]byte{}, good...), 0)))
	require.ErrorIs(t, err, ErrCorrupt)
	newer := append([]byte{}, good...)
	newer[4] = 2
	_, err = Decode(reseal(newer))
	require.ErrorIs(t, err, ErrVersion)
	huge := append([]byte{}, good...)
	at := strings.Index(string(good), "a[1]@b") + 6
	binary.LittleEndian.PutUint32(huge[at:], 1<<31)
	_, err = Decode(reseal(huge))
	require.ErrorIs(t, err, ErrCorrupt)
}

// Decode and check refuse each field beyond its bound, accept it at its bound, and say what is
// wrong.
func TestEntryBounds(t *testing.T) {
	file := func(i int, bytes uint64) func(*Entry) { return func(r *Entry) { r.Files[i].Bytes = bytes } }
	region := func(i int, g Region) func(*Entry) { return func(r *Entry) { r.Regions[i] = g } }
	for _, row := range []struct {
		change func(r *Entry)
		wants  string // in the error; empty: none
	}{
		{func(r *Entry) {}, ""},
		{func(r *Entry) { r.State = Creating - 1 }, "state 0"},
		{func(r *Entry) { r.State = Creating }, ""},
		{func(r *Entry) { r.State = Deleting }, ""},
		{func(r *Entry) { r.State = Deleting + 1 }, "state 4"},
		{func(r *Entry) { r.Name = "" }, "window name"},
		{func(r *Entry) { r.Name = "n" }, ""},
		{func(r *Entry) { r.Name = strings.Repeat("n", maxName) }, ""},
		{func(r *Entry) { r.Name = strings.Repeat("n", maxName+1) }, "window name"},
		{func(r *Entry) { r.Name = "\xff" }, "UTF-8"},
		{func(r *Entry) { r.Name = "a b" }, "blanks"},
		{func(r *Entry) { r.Name = "a\u2003b" }, "blanks"},
		{func(r *Entry) { r.Name = "a\x00" }, "control characters"},
		{func(r *Entry) { r.Creator = strings.Repeat("c", maxCreator) }, ""},
		{func(r *Entry) { r.Creator = strings.Repeat("c", maxCreator+1) }, "creator of 1025 bytes"},
		{func(r *Entry) { r.Files = nil }, "0 files"},
		{func(r *Entry) { r.Files[0].ID = ID{9} }, "2 files, of which the first"},
		{func(r *Entry) { r.Files[1].ID = r.ID }, ""},
		{file(1, maxFileBytes), ""},
		{file(1, maxFileBytes+1), "file 1 of 72057594037927937 bytes"},
		{func(r *Entry) { r.Regions = nil }, "0 regions"},
		{func(r *Entry) { r.Regions = r.Regions[:1] }, ""},
		{region(2, Region{Unit: 0, File: 1}), "region 2: unit 0"},
		{region(2, Region{Unit: math.MaxInt32, File: 1}), ""},
		{region(2, Region{Unit: math.MaxInt32 + 1, File: 1}), "unit 2147483648"},
		{region(2, Region{Unit: 1, File: 2}), "file 2 of 2"},
		{region(2, Region{Unit: 1, File: math.MaxUint32}), "file 4294967295 of 2"},
		{region(1, Region{Unit: 1, Size: 100}), ""},
		{region(1, Region{Unit: 1, Size: 101}), "bytes 0+101 of a file of 100"},
		{region(1, Region{Unit: 1, Offset: 99, Size: 1}), ""},
		{region(1, Region{Unit: 1, Offset: 99, Size: 2}), "bytes 99+2 of a file of 100"},
		{region(1, Region{Unit: 1, Offset: 100}), ""},
		{region(1, Region{Unit: 1, Offset: 101}), "bytes 101+0 of a file of 100"},
		{region(1, Region{Unit: 1, Offset: 101, Size: math.MaxUint64}), "bytes 101+18446744073709551615"},
	} {
		r := testEntry()
		row.change(r)
		err := r.check()
		require.Len(t, r.Encode(), r.encodedLen())
		_, derr := Decode(r.Encode())
		if row.wants == "" {
			require.NoError(t, err)
			require.NoError(t, derr)
			continue
		}
		require.ErrorContains(t, err, row.wants)
		require.ErrorIs(t, derr, ErrCorrupt, row.wants)
	}

	// An entry with too many files or regions is not even encoded here.
	r := testEntry()
	r.Files = make([]File, maxRanks+2)
	r.Files[0].ID = r.ID
	r.Regions = make([]Region, maxRanks+1)
	for i := range r.Regions {
		r.Regions[i].Unit = 1
	}
	require.ErrorContains(t, r.check(), "1048578 files")
	r.Files = r.Files[:maxRanks+1]
	require.ErrorContains(t, r.check(), "1048577 regions")
	r.Regions = r.Regions[:maxRanks]
	require.NoError(t, r.check())
}

// Decode says why it refuses an entry.
func TestDecodeSaysWhatIsWrong(t *testing.T) {
	good := testEntry().Encode()
	changed := func(at int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[at:], b)
		return reseal(c)
	}
	for _, row := range []struct {
		b     []byte
		is    error
		wants string
	}{
		{good[:9], ErrCorrupt, "9 bytes are too few"},
		{append([]byte("WNAM\x01\x00"), 0xff, 0xff, 0xff, 0xff), ErrCorrupt, "checksum"},
		{reseal([]byte("WNAM\x01\x00....")), ErrCorrupt, "it ends in the middle of a field"},
		{changed(0, 'w'), ErrCorrupt, `magic "wNAM", want "WNAM"`},
		{changed(4, 0), ErrVersion, "has version 0, this program knows 1"},
		{changed(4, 2), ErrVersion, "has version 2"},
		{changed(4, 1, 1), ErrVersion, "has version 257"},
		{changed(6, knownFlags+1), ErrCorrupt, "unknown flags 0x4"},
		{changed(10, 0xff, 0x03), ErrCorrupt, "mode 01777"},
		{reseal(append(slices.Clone(good), 0)), ErrCorrupt, "1 bytes too many"},
		{reseal(append(slices.Clone(good), 0, 0)), ErrCorrupt, "2 bytes too many"},
		{reseal(slices.Clone(good[:len(good)-1])), ErrCorrupt, "it ends in the middle of a field"},
	} {
		_, err := Decode(row.b)
		require.ErrorIs(t, err, row.is, row.wants)
		require.ErrorContains(t, err, row.wants)
	}
	r, err := Decode(changed(10, 0xff, 0x01))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o777), r.Mode)
}

// After the first missing field, all fields are zero.
func TestDecoder(t *testing.T) {
	b := []byte{3, 0, 'a', 'b', 'c', 2, 0, 0, 0, 1, 2, 3, 4}
	d := decoder{b: b}
	require.Equal(t, "abc", d.str(3))
	require.Equal(t, 2, d.count(2))
	require.EqualValues(t, 0x04030201, d.u32())
	require.Empty(t, d.b)
	require.False(t, d.failed)
	require.Zero(t, d.u8())
	require.True(t, d.failed)

	d = decoder{b: b}
	require.Empty(t, d.str(2))
	require.True(t, d.failed)
	require.Zero(t, d.u8(), "there are bytes")
	require.Zero(t, d.count(1))

	d = decoder{b: b[5:]}
	require.Zero(t, d.count(3), "there are four bytes")
	require.True(t, d.failed)
	d = decoder{b: b[5:]}
	require.Equal(t, 2, d.count(1))
	d = decoder{b: b[5:9]}
	require.Zero(t, d.count(1))
	require.True(t, d.failed)
	d = decoder{b: []byte{0, 0, 0, 0}}
	require.Zero(t, d.count(1))
	require.False(t, d.failed)
}

func FuzzDecode(f *testing.F) {
	f.Add(testEntry().Encode())
	f.Add([]byte("WNAM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		Decode(b)
		if len(b) < 10 {
			return
		}
		// With a correct checksum, the fuzzer reaches the fields.
		r, err := Decode(reseal(b))
		if err != nil {
			return
		}
		for _, g := range r.Regions {
			if n := r.Files[g.File].Bytes; g.Offset+g.Size > n || g.Unit == 0 {
				t.Fatalf("region %+v of a file of %d bytes", g, n)
			}
		}
		again, err := Decode(r.Encode())
		if err != nil || again.Name != r.Name || len(again.Regions) != len(r.Regions) {
			t.Fatalf("a decoded entry does not survive: %v", err)
		}
	})
}
