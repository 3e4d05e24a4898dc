// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func testHeader() (*header, *Entry) {
	ent := testEntry()
	return &header{layout: 2, flags: headBroken, epochs: 9, vouched: 7, boot: ID{8}, id: ent.ID, first: ent.ID, data: ent.Files[0].Bytes, entry: ent}, ent
}

func TestHeaderRoundTrip(t *testing.T) {
	h, ent := testHeader()
	got, err := decodeHeader(h.encode(ent.Encode(), inlineAt), 1<<20, nil)
	require.NoError(t, err)
	require.Equal(t, h, got)

	// After the data.
	b := ent.Encode()
	file := append(h.encode(b, 5000), make([]byte, 5000-headerSize)...)
	file = append(file, b...)
	got, err = decodeHeader(file, uint64(len(file)), bytes.NewReader(file).ReadAt)
	require.NoError(t, err)
	require.Equal(t, h, got)

	// Of another file than the first.
	m := &header{layout: 2, id: ID{4}, first: ent.ID, index: 1}
	got, err = decodeHeader(m.encode(nil, 0), 4096, nil)
	require.NoError(t, err)
	require.Equal(t, m, got)

	newer := h.encode(ent.Encode(), inlineAt)
	newer[7] = '3'
	binary.NativeEndian.PutUint32(newer[offLayout:], 3)
	_, err = decodeHeader(newer, 1<<20, nil)
	require.ErrorIs(t, err, ErrVersion)
}

// A change of any byte that is used is detected: as an error, or as a word that is marked as
// damaged.
func TestHeaderDamageIsFound(t *testing.T) {
	h, ent := testHeader()
	encoded := ent.Encode()
	good := h.encode(encoded, inlineAt)
	for i := range good {
		if i >= 108 && i < inlineAt || i >= inlineAt+len(encoded) {
			continue // nothing
		}
		for bit := range 8 {
			bad := append([]byte{}, good...)
			bad[i] ^= 1 << bit
			got, err := decodeHeader(bad, 1<<20, bytes.NewReader(bad).ReadAt)
			switch {
			case i >= offFlags && i < offEpochs:
				require.True(t, err == nil && got.badFlags && got.flags == 0, "byte %d", i)
			case i >= offEpochs && i < offID || i >= offVouched && i < offBoot:
				require.True(t, err == nil && got.badEpochs && got.epochs == 0, "byte %d", i)
			case i >= offBoot && i < offFirst:
				require.NotEqual(t, h.boot, got.boot, "another run of the machine")
			default:
				require.Error(t, err, "byte %d", i)
			}
		}
		_, err := decodeHeader(good[:i], uint64(i), bytes.NewReader(good[:i]).ReadAt)
		require.Error(t, err, "cut at %d", i)
	}
}

func FuzzDecodeHeader(f *testing.F) {
	h, ent := testHeader()
	f.Add(h.encode(ent.Encode(), inlineAt)[:700])
	f.Add(h.encode(ent.Encode(), 5000)[:700])
	one := &header{id: ID{4}, first: ent.ID, index: 1}
	f.Add(one.encode(nil, 0)[:200])
	f.Add([]byte(headerMagic1 + "\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, in []byte) {
		page := make([]byte, headerSize)
		copy(page, in)
		for _, seal := range []bool{false, true} {
			if seal { // with the checksum made right the fuzzer gets past it
				n, at := binary.NativeEndian.Uint32(page[offLength:]), binary.NativeEndian.Uint64(page[offEntryAt:])
				if n > headerSize-inlineAt || at != inlineAt && n > 0 {
					return
				}
				if n > 4 {
					copy(page[inlineAt:], reseal(page[inlineAt:][:n]))
				}
				binary.NativeEndian.PutUint32(page[offChecksum:], headerSum(page, page[inlineAt:][:n]))
			}
			h, err := decodeHeader(page, uint64(len(in)), bytes.NewReader(in).ReadAt)
			if err != nil {
				if !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) && !errors.Is(err, errIncomplete) {
					t.Fatal(err)
				}
				continue
			}
			if h.data > maxFileBytes || h.flags&^headFlags != 0 || h.epochs > maxCount {
				t.Fatalf("%+v", h)
			}
			if h.layout == 2 && h.index == 0 && (h.entry == nil || h.entry.ID != h.id || h.entry.Files[0].Bytes != h.data) {
				t.Fatalf("%+v", h)
			}
		}
	})
}

// The database's pages come from a disk: checkMeta returns for any bytes.
func FuzzCheckMeta(f *testing.F) {
	page := make([]byte, 4*4096)
	ne := binary.NativeEndian
	seal := func(b []byte) {
		for i := range 2 {
			m := b[i*4096+boltPage:]
			ne.PutUint32(m, boltMagic)
			ne.PutUint32(m[4:], boltVersion)
			ne.PutUint32(m[8:], 4096)
			sum := uint64(14695981039346656037)
			for _, c := range m[:boltMeta-8] {
				sum = (sum ^ uint64(c)) * 1099511628211
			}
			ne.PutUint64(m[boltMeta-8:], sum)
		}
	}
	ne.PutUint64(page[boltPage+16:], 3) // root
	ne.PutUint64(page[boltPage+32:], 2) // free list
	ne.PutUint64(page[boltPage+40:], 4) // pages
	ne.PutUint64(page[2*4096:], 2)
	ne.PutUint16(page[2*4096+8:], boltFree)
	ne.PutUint64(page[3*4096:], 3)
	ne.PutUint16(page[3*4096+8:], boltLeaf)
	seal(page)
	if metas, err := checkMeta(page); metas != 2 || err != nil {
		// the second one has no pages, and the same transaction
		f.Fatal(metas, err)
	}
	f.Add(page)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkMeta(b)
		if len(b) >= 2*4096 {
			seal(b)
			checkMeta(b)
		}
	})
}

// Two callers raise the epoch count at once: the higher one wins.
func TestRaisesAtOnceHammer(t *testing.T) {
	rounds := uint64(500_000)
	if testing.Short() {
		rounds /= 5
	}
	s, err := Open(t.TempDir(), Config{})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 64))
	require.NoError(t, err)
	var begun, done atomic.Uint64
	var low uint64 // the first round whose count was too low, 0: none
	var wg sync.WaitGroup
	for u := range uint64(2) {
		wg.Go(func() {
			for i := uint64(1); i <= rounds; i++ {
				for begun.Add(1); begun.Load() < 2*i; {
					runtime.Gosched()
				}
				mustRaise(h, 2*i+u)
				for done.Add(1); done.Load() < 2*i; {
					runtime.Gosched()
				}
				if u == 0 && low == 0 && epochsOf(h) < 2*i+1 {
					// The other goroutine cannot have begun the next round.
					low = i
				}
			}
		})
	}
	wg.Wait()
	require.Zero(t, low, "rounds in which the lower of two counts was left")
	require.EqualValues(t, 2*rounds+1, epochsOf(h))
	require.NoError(t, errors.Join(h.Release(), s.Close()))
}
