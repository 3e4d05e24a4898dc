// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
)

// small returns the file of a recording of three trace events.
func small(t *testing.T) []byte {
	file := filepath.Join(t.TempDir(), "small.weft")
	w, err := Create(file, Head{Rank: 2, Ranks: 4})
	require.NoError(t, err)
	rec, err := event.New(event.Options{Sinks: []event.Sink{w}})
	require.NoError(t, err)
	r := rec.Ring(event.Location{Kind: event.SlotLocation, Group: 1, Index: 3})
	r.Put(10, event.Spawned, 1, 0, event.SpawnedC(rec.Names().Spec(event.Origin{Label: "one"}), 0, event.SpawnedMain))
	r.Put(11, event.Started, 1, 0, 0)
	r.Put(12, event.Ended, 1, 0, event.EndedCompleted)
	require.NoError(t, rec.Close())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return b
}

func readAll(b []byte) (*Reader, []event.Record, error) {
	r, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, nil, err
	}
	var recs []event.Record
	for {
		x, err := r.Next()
		if err == io.EOF {
			return r, recs, nil
		}
		if err != nil {
			return r, recs, err
		}
		recs = append(recs, x.Records...)
	}
}

func TestRoundTrip(t *testing.T) {
	r, recs, err := readAll(small(t))
	require.NoError(t, err)
	require.Equal(t, []event.Record{
		event.Make(10, event.Spawned, 1, 0, event.SpawnedC(1, 0, event.SpawnedMain)),
		event.Make(11, event.Started, 1, 0, 0),
		event.Make(12, event.Ended, 1, 0, event.EndedCompleted),
	}, recs)
	require.Equal(t, 2, r.Head.Rank)
	require.Equal(t, 4, r.Head.Ranks)
	require.Equal(t, event.ClockName(), r.Head.Clock)
	require.Equal(t, "one", r.Specs[1].Label)
	require.Equal(t, event.Location{Kind: event.SlotLocation, Group: 1, Index: 3}, r.Sources[0].Location)
}

// The JSON blocks have the names that docs/trace-format.md gives.
func TestNamesOfTheFormat(t *testing.T) {
	file := string(small(t))
	require.Contains(t, file, `{"ID":0,"Place":{"Kind":1,"Group":1,"Index":3}}`)
	require.Contains(t, file, `{"ID":1,"Label":"one","Where":""}`)
	require.Regexp(t, `{"Program":".+","Process":\d+,"Host":".+","Boot":".*","Clock":"\w+","Rank":2,"Ranks":4,"Start":{"Ticks":\d+,"Wall":\d+}}`, file)
}

// Both ways of writing records give the same bytes.
func TestRecordBytes(t *testing.T) {
	r := event.Make(1<<55+3, event.Matched, 1, 1<<63, 0x0102030405060708)
	require.Equal(t, appendRecord(nil, &r), appendRecords(nil, []event.Record{r}))
	require.Equal(t, r, record(appendRecord(nil, &r)))
}

// block returns a block as the writer makes it.
func block(kind uint32, payload []byte) []byte {
	b := le.AppendUint32(nil, kind)
	b = le.AppendUint32(b, uint32(len(payload)))
	b = le.AppendUint32(b, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, payload))
	return append(b, payload...)
}

// Each kind of damage is reported by its message.
func TestDamages(t *testing.T) {
	good := small(t)
	begin := append([]byte(magic), 1, 0, 0, 0)
	head := append(bytes.Clone(begin), block(headBlock, []byte("{}"))...)
	with := func(b []byte, more ...[]byte) []byte { return append(bytes.Clone(b), bytes.Join(more, nil)...) }
	flip := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 0x40
		return b
	}
	source := block(sourceBlock, []byte(`{"ID":0}`))
	unknown := event.Make(0, 200, 0, 0, 0)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "not a weft trace: it does not begin as one"},
		{"another file", []byte("MZ this is no trace at all"), "not a weft trace: it does not begin as one"},
		{"version", append([]byte(magic), 9, 0, 0, 0), "a trace format of another version: 9; this program reads 1"},
		{"no head", begin, "at byte 16 of the trace: cut short"},
		{"first block", with(begin, block(endBlock, make([]byte, 8))), "damaged: the first block is of kind 6, not the head"},
		{"head is no JSON", with(begin, block(headBlock, []byte("{"))), "damaged: unexpected end of JSON input"},
		{"second head", with(head, block(headBlock, []byte("{}"))), "damaged: a second head"},
		{"kind of block", with(head, block(77, nil)), "damaged: a block of kind 77; legal are 1 to 6"},
		{"length of block", with(head, []byte{5, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0}), "damaged: a block of 4294967295 bytes; legal are up to 16777216"},
		{"cut in a block's head", good[:len(good)-15], "cut short: there is no end mark"},
		{"cut in a payload", good[:len(good)-3], "cut short: there is no end mark"},
		{"no end mark", good[:len(good)-20], "cut short: there is no end mark"},
		{"a flipped bit", flip(len(good) - 60), "damaged: the checksum of a block is"},
		{"source is no JSON", with(head, block(sourceBlock, []byte("x"))), "damaged: invalid character"},
		{"spec is no JSON", with(head, block(specBlock, []byte("[]"))), "damaged: json: cannot unmarshal array"},
		{"moment", with(head, block(momentBlock, make([]byte, 15))), "damaged: a moment of 15 bytes"},
		{"end mark", with(head, block(endBlock, nil)), "damaged: an end mark of 0 bytes"},
		{"part of a record", with(head, source, block(recordsBlock, make([]byte, 8+31))), "damaged: 39 bytes are not a whole number of records"},
		{"no source", with(head, block(recordsBlock, make([]byte, 8))), "damaged: records of source 0, which is not described before"},
		{"unknown event", with(head, source, block(recordsBlock, appendRecord(make([]byte, 8), &unknown))), "damaged: a trace event of kind 200; this program knows 1 to"},
	} {
		_, _, err := readAll(c.file)
		require.ErrorContains(t, err, c.want, c.name)
	}
}

// Reading any file ends, with an error or without.
func FuzzReader(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(append(append([]byte(magic), 1, 0, 0, 0), block(headBlock, []byte("{}"))...))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = readAll(b) })
}
