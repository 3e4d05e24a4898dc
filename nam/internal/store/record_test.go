// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testRecord() *Record {
	id := ID{1, 2, 3}
	return &Record{
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

func TestRecordRoundTrip(t *testing.T) {
	r := testRecord()
	got, err := Decode(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, got)
	r.Volatile, r.SyncEpoch = false, true
	got, err = Decode(r.Encode())
	require.NoError(t, err)
	require.Equal(t, r, got)
}

func TestDecodeRefusesEveryDamage(t *testing.T) {
	good := testRecord().Encode()
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

func FuzzDecode(f *testing.F) {
	f.Add(testRecord().Encode())
	f.Add([]byte("WNAM"))
	f.Fuzz(func(t *testing.T, b []byte) {
		Decode(b)
		if len(b) < 10 {
			return
		}
		// With the checksum made right, the fuzzer gets past it to the fields.
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
			t.Fatalf("a decoded record does not survive: %v", err)
		}
	})
}
