// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Headers of either layout with each field at its bound and one beyond it: the error says what is
// wrong.
func TestHeaderBounds(t *testing.T) {
	ne := binary.NativeEndian
	made := func(change func(h *header, ent *Entry)) []byte {
		h, ent := testHeader()
		change(h, ent)
		return h.encode(ent.Encode(), inlineAt)
	}
	patched := func(change func(b []byte)) []byte {
		b := made(func(*header, *Entry) {})
		encoded := testEntry().Encode()
		change(b)
		if n := ne.Uint32(b[offLength:]); int(n) < len(encoded) {
			encoded = encoded[:n]
		}
		ne.PutUint32(b[offChecksum:], headerSum(b, encoded))
		return b
	}
	magic := func(m string, layout uint32) []byte {
		return patched(func(b []byte) { copy(b, m); ne.PutUint32(b[offLayout:], layout) })
	}
	first := func(layout uint32, data uint64) []byte {
		b := magic(headerMagic1, layout)
		ne.PutUint64(b[offData:], data)
		return b
	}
	entryAt := func(at uint64, length uint32) []byte {
		return patched(func(b []byte) { ne.PutUint64(b[offEntryAt:], at); ne.PutUint32(b[offLength:], length) })
	}
	const size = 1 << 27
	n := uint32(len(testEntry().Encode()))
	whole := made(func(*header, *Entry) {})
	for name, row := range map[string]struct {
		b     []byte
		is    error
		wants string
	}{
		"right":                 {whole, nil, ""},
		"less than a page":      {whole[:headerSize-1], ErrCorrupt, "is cut: there are 4095 bytes"},
		"more than a page":      {append(whole[:headerSize:headerSize], 1), nil, ""},
		"none":                  {make([]byte, headerSize), errIncomplete, ""},
		"being made":            {append([]byte(headerMaking), make([]byte, headerSize)...), errIncomplete, ""},
		"layout 0":              {magic("WEFTNAM2", 0), ErrCorrupt, "of layout 2 has version 0"},
		"layout 2 as 1":         {magic("WEFTNAM2", 1), ErrCorrupt, "of layout 2 has version 1"},
		"layout 2 as 3":         {magic("WEFTNAM2", 3), ErrCorrupt, "of layout 2 has version 3"},
		"layout 3":              {magic("WEFTNAM3", 3), ErrVersion, "has layout 3, this program knows 1 and 2"},
		"layout 4":              {magic("WEFTNAM4", 4), ErrVersion, "has layout 4"},
		"layout 3 as 4":         {magic("WEFTNAM3", 4), ErrCorrupt, `begins with "WEFTNAM3"`},
		"layout 0 of old":       {magic("WEFTNAM0", 0), ErrCorrupt, `begins with "WEFTNAM0"`},
		"another's layout 3":    {magic("OURSNAM3", 3), ErrCorrupt, `begins with "OURSNAM3"`},
		"layout 1":              {first(1, 100), nil, ""},
		"layout 1 as 0":         {first(0, 100), ErrCorrupt, "of layout 1 has version 0"},
		"layout 1 as 2":         {first(2, 100), ErrCorrupt, "of layout 1 has version 2"},
		"layout 1, most bytes":  {first(1, maxFileBytes), nil, ""},
		"layout 1, too many":    {first(1, maxFileBytes+1), ErrCorrupt, "and 72057594037927937 bytes"},
		"most bytes":            {made(func(h *header, ent *Entry) { h.data, ent.Files[0].Bytes = maxFileBytes, maxFileBytes }), nil, ""},
		"too many bytes":        {made(func(h *header, _ *Entry) { h.data = maxFileBytes + 1 }), ErrCorrupt, "has a size of 72057594037927937 bytes"},
		"other bytes":           {made(func(h *header, _ *Entry) { h.data++ }), ErrCorrupt, "has the entry of another file"},
		"another's entry":       {made(func(_ *header, ent *Entry) { ent.ID, ent.Files[0].ID = ID{7}, ID{7} }), ErrCorrupt, "has the entry of another file"},
		"a broken entry":        {made(func(_ *header, ent *Entry) { ent.Name = "" }), ErrCorrupt, "window name"},
		"first and second":      {made(func(h *header, _ *Entry) { h.index = 1 }), ErrCorrupt, "is of file 1 of allocation"},
		"second with an entry":  {made(func(h *header, _ *Entry) { h.index, h.first = 1, ID{9} }), ErrCorrupt, "is of file 1 of allocation"},
		"first without entry":   {entryAt(0, 0), ErrCorrupt, "with an entry of 0 bytes"},
		"of another allocation": {made(func(h *header, _ *Entry) { h.first = ID{9} }), ErrCorrupt, "is of file 0 of allocation"},
		"an entry of 1 byte":    {entryAt(inlineAt, 1), ErrCorrupt, "metadata entry: 1 bytes are too few"},
		"an entry cut":          {entryAt(inlineAt, n-1), ErrCorrupt, "metadata entry"},
		"too long for the page": {entryAt(inlineAt, headerSize-inlineAt+1), ErrCorrupt, "has its entry at bytes 512+3585"},
		"before its offset":     {entryAt(inlineAt-1, n), ErrCorrupt, "has its entry at bytes 511+"},
		"after its offset":      {entryAt(inlineAt+1, n), ErrCorrupt, "has its entry at bytes 513+"},
		"in the header":         {entryAt(headerSize-1, n), ErrCorrupt, "has its entry at bytes 4095+"},
		"after the header":      {entryAt(headerSize, n), ErrCorrupt, "an entry that cannot be read: it is at 4096"},
		"as long as can be":     {entryAt(headerSize, maxEntry), ErrCorrupt, "an entry that cannot be read: it is at 4096"},
		"too long":              {entryAt(headerSize, maxEntry+1), ErrCorrupt, fmt.Sprintf("has its entry at bytes 4096+%d", maxEntry+1)},
		"at the end":            {entryAt(size-uint64(n), n), ErrCorrupt, "an entry that cannot be read: it is at 1342"},
		"beyond the end":        {entryAt(size-uint64(n)+1, n), ErrCorrupt, "has its entry at bytes"},
		"far beyond the end":    {entryAt(math.MaxUint64, n), ErrCorrupt, "has its entry at bytes"},
		"damaged":               {append(append(whole[:inlineAt:inlineAt], 'w'), whole[inlineAt+1:]...), ErrCorrupt, "has checksum"},
	} {
		_, err := decodeHeader(row.b, size, func(_ []byte, off int64) (int, error) { return 0, fmt.Errorf("it is at %d", off) })
		if row.is == nil {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, row.is, name)
		require.ErrorContains(t, err, row.wants, name)
	}
	for n, pages := range map[uint64]uint64{0: 1, 1: 2, headerSize - 1: 2, headerSize: 2, headerSize + 1: 3} {
		require.Equal(t, pages*headerSize, fileSize(n), "%d", n)
	}
	for n, pages := range map[int]uint64{0: 0, 3583: 0, 3584: 0, 3585: 1, headerSize - 1: 1, headerSize: 1, headerSize + 1: 2, 2*headerSize + 1: 3} {
		require.Equal(t, pages*headerSize, overflow(n), "%d", n)
	}
	// The longest entry: a name, a creator and a file for each rank.
	most := &Entry{Name: strings.Repeat("n", maxName), Creator: strings.Repeat("c", maxCreator), Files: make([]File, maxRanks+1), Regions: make([]Region, maxRanks)}
	require.LessOrEqual(t, most.encodedLen(), maxEntry)
}

// An entry that fills the header's page to the last byte is stored in the page. An entry that is
// one byte longer is stored after the data, and counts in the footprint.
func TestEntryThatFillsThePage(t *testing.T) {
	s := newTestStore(t, Config{})
	for more, pages := range map[int]uint64{-1: 2, 0: 2, 1: 3} {
		req := Request{Name: "n", Structure: 2, Files: []uint64{8}}
		probe, err := newEntry(req.with(Region{Size: 8, Unit: 8}))
		require.NoError(t, err)
		left := headerSize - inlineAt + more - probe.encodedLen()
		for req = req.with(Region{Size: 8, Unit: 8}); left >= 25; left -= 25 {
			req = req.with(Region{Unit: 1})
		}
		req.Name += strings.Repeat("n", left)
		h, err := makeWindow(s, req)
		require.NoError(t, err)
		require.Equal(t, headerSize-inlineAt+more, h.Entry().encodedLen())
		require.EqualValues(t, pages*headerSize, h.Entry().Footprint())
		require.NoError(t, h.Release())
		e, err := s.Stat(req.Name)
		require.NoError(t, err)
		head, err := s.headerOf(e.ID)
		require.NoError(t, err)
		require.Equal(t, Ready, head.entry.State)
		require.Equal(t, e.Entry.Regions, head.entry.Regions)
		requireSound(t, s)
		require.NoError(t, s.Remove(req.Name))
	}
}

func (r Request) with(g Region) Request {
	r.Regions = append(r.Regions[:len(r.Regions):len(r.Regions)], g)
	return r
}

// Damage never becomes a valid flag, whatever is set or cleared later: the window stays.
func TestDamagedFlagsStayDamage(t *testing.T) {
	for name, change := range map[string]func(s *Store, h *Handle) error{
		"break":      func(_ *Store, h *Handle) error { h.Break(); return nil },
		"persistent": func(s *Store, h *Handle) error { return s.SetVolatile(h.entry.ID, false) },
	} {
		dir := memDir(t)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		h, err := makeWindow(s, oneRegion("w", 64))
		require.NoError(t, err)
		flagsWord(h.maps[0]).Store(packFlags(0) | headDoomed | headVolatile)
		flags, err := h.flags()
		require.NoError(t, err)
		require.Zero(t, flags, "damaged flags are none")
		require.False(t, h.Broken())
		require.NoError(t, change(s, h))
		flags, err = h.flags()
		require.NoError(t, err)
		require.Equal(t, map[string]uint32{"break": headBroken, "persistent": 0}[name], flags, name)
		require.NoError(t, h.Release())
		require.NoError(t, s.Close())
		s, err = Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		_, err = s.Stat("w")
		require.NoError(t, err, "%s has removed the window", name)
		require.NoError(t, s.Close())
	}
	// In layout 1 flags have no complement.
	h := &Handle{layout: 1, maps: [][]byte{make([]byte, headerSize)}}
	flagsWord(h.maps[0]).Store(headBroken | 1<<20)
	flags, err := h.flags()
	require.NoError(t, err)
	require.Equal(t, headBroken, flags)
	require.True(t, h.Broken())
}

// Damaged words read as 0 and are reported as damaged, in either layout; whole ones are not.
func TestHeaderWords(t *testing.T) {
	ne := binary.NativeEndian
	h, ent := testHeader()
	type words struct {
		layout              int
		flags               uint32
		epochs, vouched     uint64
		badFlags, badEpochs bool
	}
	for name, row := range map[string]struct {
		flags           uint32
		epochs, vouched uint64
		wants           words
	}{
		"whole":             {packFlags(headBroken), packCount(9, h.id), packCount(7, h.id), words{layout: 2, flags: headBroken, epochs: 9, vouched: 7}},
		"all":               {packFlags(headFlags), packCount(maxCount, h.id), packCount(maxCount, h.id), words{2, headFlags, maxCount, maxCount, false, false}},
		"flags":             {headFlags, packCount(9, h.id), packCount(7, h.id), words{layout: 2, epochs: 9, vouched: 7, badFlags: true}},
		"an unknown flag":   {packFlags(headFlags + 1), packCount(9, h.id), packCount(7, h.id), words{layout: 2, epochs: 9, vouched: 7, badFlags: true}},
		"epochs":            {packFlags(1), 9, packCount(7, h.id), words{layout: 2, flags: 1, badEpochs: true}},
		"vouched":           {packFlags(1), packCount(9, h.id), 7, words{layout: 2, flags: 1, badEpochs: true}},
		"epochs of another": {packFlags(1), packCount(9, ID{9}), packCount(7, h.id), words{layout: 2, flags: 1, badEpochs: true}},
		"both":              {0, 9, 7, words{layout: 2, badFlags: true, badEpochs: true}},
		"1":                 {headBroken, 3, 0, words{layout: 1, flags: headBroken, epochs: 3, vouched: 3}},
		"1, all":            {headFlags, maxCount, 0, words{layout: 1, flags: headFlags, epochs: maxCount, vouched: maxCount}},
		"1, unknown flag":   {headFlags + 1, 3, 0, words{layout: 1, epochs: 3, vouched: 3, badFlags: true}},
		"1, epochs":         {1, maxCount + 1, 0, words{layout: 1, flags: 1, badEpochs: true}},
	} {
		b := h.encode(ent.Encode(), inlineAt)
		if row.wants.layout == 1 {
			copy(b, headerMagic1)
			ne.PutUint32(b[offLayout:], 1)
		}
		ne.PutUint32(b[offFlags:], row.flags)
		ne.PutUint64(b[offEpochs:], row.epochs)
		ne.PutUint64(b[offVouched:], row.vouched)
		got, err := decodeHeader(b, 1<<20, nil)
		require.NoError(t, err, name)
		require.Equal(t, row.wants, words{got.layout, got.flags, got.epochs, got.vouched, got.badFlags, got.badEpochs}, name)
		require.Equal(t, got.id, got.first, name)
	}
	// The words of files on the disk.
	if ne.Uint16([]byte{1, 0}) == 1 {
		require.Equal(t, uint32(0x97a8aea7), ne.Uint32(h.encode(ent.Encode(), inlineAt)[offChecksum:]))
	}
	require.EqualValues(t, 0xfffa0005, packFlags(headVolatile|headBroken))
	for id, word := range map[ID]uint64{{}: 0x730123456789abc, {1}: 0xcda6123456789abc, {8: 1}: 0x725f123456789abc, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}: 0x4a7c123456789abc} {
		if ne.Uint16([]byte{1, 0}) == 1 {
			require.Equal(t, word, packCount(0x123456789abc, id))
		}
		n, ok := unpackCount(packCount(0x123456789abc, id), id)
		require.True(t, ok)
		require.EqualValues(t, 0x123456789abc, n)
	}
}
