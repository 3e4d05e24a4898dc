// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/event"
	"weft/internal/event/journal"
)

// script is the content of a file that a test makes: the recording of one process on some machine.
type script struct {
	head journal.Head
	recs []event.Record
	last event.Moment
	loss bool
}

// put records at a true time in nanoseconds, by the process's clock: rate ticks per nanosecond.
func (s *script) put(at int64, k event.Kind, peer int) {
	s.recs = append(s.recs, event.Make(at+s.head.Start.Ticks, k, 0, event.PeerB(peer, 7), 8|1<<40))
}

// write makes the file, in the format of package journal.
func (s *script) write(t *testing.T, dir string) string {
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	out := []byte("wefttrace\r\n\x00\x01\x00\x00\x00")
	block := func(kind uint32, payload []byte) {
		b := binary.LittleEndian.AppendUint32(nil, kind)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
		b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, payload))
		out = append(append(out, b...), payload...)
	}
	object := func(kind uint32, v any) {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		block(kind, b)
	}
	object(1, s.head)
	object(2, event.Source{ID: 0, Location: event.Location{Kind: event.RankLocation, Group: JobGroup, Index: s.head.Rank}})
	recs := make([]byte, 8)
	// the records of a source are in the order of their ticks
	slices.SortStableFunc(s.recs, func(a, b event.Record) int { return cmp.Compare(a.Ticks(), b.Ticks()) })
	if s.loss {
		s.recs = append([]event.Record{event.Make(s.head.Start.Ticks, event.Lost, 5, 0, 0)}, s.recs...)
	}
	for i := range s.recs {
		r := &s.recs[i]
		for _, w := range []uint64{uint64(r.Ticks())<<8 | uint64(r.Kind()), r.A, r.B, r.C} {
			recs = binary.LittleEndian.AppendUint64(recs, w)
		}
	}
	block(5, recs)
	block(4, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(s.last.Ticks)), uint64(s.last.Wall)))
	block(6, make([]byte, 8))
	name := filepath.Join(dir, fmt.Sprintf("run.rank%d.weft", s.head.Rank))
	require.NoError(t, os.WriteFile(name, out, 0o600))
	return name
}

const day = int64(1_700_000_000_000_000_000)

// process returns the script of a rank on a machine. The machine's counter is at ticks when the
// recording begins, and its wall clock is ahead by skew.
func process(rank, ranks int, boot string, ticks, skew int64) *script {
	return &script{
		head: journal.Head{Boot: boot, Host: boot, Clock: "tsc", Rank: rank, Ranks: ranks, Start: event.Moment{Ticks: ticks, Wall: day + skew}},
		last: event.Moment{Ticks: ticks + 1_000_000, Wall: day + skew + 1_000_000},
	}
}

// exchange sends messages with some delays from a to b, at true times from start on.
func exchange(a, b *script, start int64, delays ...int64) {
	for i, d := range delays {
		at := start + int64(i)*10_000
		a.put(at, event.SendPosted, b.head.Rank)
		b.put(at+d, event.Matched, a.head.Rank)
	}
}

func open(t *testing.T, all ...*script) *Set {
	dir := t.TempDir()
	var names []string
	for _, s := range all {
		names = append([]string{s.write(t, dir)}, names...) // in any order
	}
	s, err := Open(names...)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// late returns the time from sending to matching of each message, in the order of matching. A
// negative time is impossible.
func late(t *testing.T, s *Set) (delays []int64) {
	sent := map[Message][]int64{}
	type got struct {
		m  Message
		at int64
	}
	var gets []got
	for e, err := range s.Events() {
		require.NoError(t, err)
		switch e.Kind() {
		case event.SendPosted:
			sent[MessageOf(e)] = append(sent[MessageOf(e)], e.Time)
		case event.Matched:
			gets = append(gets, got{MessageOf(e), e.Time})
		}
	}
	for _, g := range gets {
		delays = append(delays, g.at-sent[g.m][0])
		sent[g.m] = sent[g.m][1:]
	}
	return delays
}

// Two machines whose clocks differ by far more than messages take.
func TestSkewedClocksAreAligned(t *testing.T) {
	for _, skew := range []int64{0, 3_000_000, -7_000_000_000, 40} {
		a, b := process(0, 2, "a", 1000, 0), process(1, 2, "b", 77_000, skew)
		exchange(a, b, 0, 5000, 900, 1300)
		exchange(b, a, 5000, 2000, 700, 9000)
		s := open(t, a, b)
		delays := late(t, s)
		require.Len(t, delays, 6)
		for _, d := range delays {
			require.GreaterOrEqual(t, d, int64(799))
		}
		uncertainty, ok := s.Uncertainty()
		require.True(t, ok)
		require.EqualValues(t, 800, uncertainty) // (900 + 700) / 2, and 100 of that is the error
		lines := s.Clocks()
		require.Len(t, lines, 1)
		word := "ahead of"
		if skew < 0 {
			word = "behind"
		}
		require.Contains(t, lines[0], "clock of b (rank 1): ")
		require.Contains(t, lines[0], word+" the clock of a, measured by 6 messages in both directions with a, uncertainty 800ns")
	}
}

// A machine is shifted through the machine that gives the least uncertainty, not always through the
// first.
func TestClocksByWayOfOthers(t *testing.T) {
	a, b, c := process(0, 3, "a", 0, 0), process(1, 3, "b", 50, 5_000_000), process(2, 3, "c", 99, -3_000_000)
	exchange(a, b, 0, 1000)
	exchange(b, a, 1000, 1000)
	exchange(b, c, 2000, 100)
	exchange(c, b, 3000, 100)
	exchange(a, c, 4000, 50_000) // slow messages: a large uncertainty
	exchange(c, a, 5000, 50_000)
	s := open(t, a, b, c)
	require.ElementsMatch(t, []int64{1000, 1000, 100, 100, 50_000, 50_000}, late(t, s))
	uncertainty, ok := s.Uncertainty()
	require.True(t, ok)
	require.EqualValues(t, 1100, uncertainty)
	require.Contains(t, s.Clocks()[1], "clock of c (rank 2): 3ms behind the clock of a, measured by 2 messages in both directions with b, uncertainty 1.1µs")
}

// Clocks and Uncertainty say when messages determine less.
func TestUncertainClocks(t *testing.T) {
	for name, row := range map[string]struct {
		talk  func(a, b *script)
		skew  int64
		want  string
		delay int64
	}{
		"no messages":         {func(a, b *script) {}, 5000, "5µs", 0},
		"one way, impossible": {func(a, b *script) { exchange(a, b, 0, 700, 800) }, -9000, "8.3µs behind the clock of a, a lower bound from 2 messages in one direction", 0},
		"the other way":       {func(a, b *script) { exchange(b, a, 0, 700, 800) }, 9000, "8.3µs ahead of the clock of a, a lower bound from 2 messages in one direction", 0},
		"one way, possible":   {func(a, b *script) { exchange(a, b, 0, 700) }, 9000, "by the time of day, since no messages in both directions measure it", 9700},
		"records lost":        {func(a, b *script) { exchange(a, b, 0, 700); exchange(b, a, 0, 700); b.loss = true }, 0, "by the time of day", 700},
	} {
		a, b := process(0, 2, "a", 0, 0), process(1, 2, "b", 5, row.skew)
		row.talk(a, b)
		s := open(t, a, b)
		_, ok := s.Uncertainty()
		require.False(t, ok, name)
		if name == "no messages" {
			require.Contains(t, s.Clocks()[0], "by the time of day")
			continue
		}
		require.Contains(t, s.Clocks()[0], row.want, name)
		require.Contains(t, late(t, s), row.delay, name)
	}
}

// Processes of one machine share its counter, although their readings of the wall clock differ.
func TestOneMachineHasOneClock(t *testing.T) {
	a, b := process(0, 2, "a", 1000, 0), process(1, 2, "a", 4000, 0)
	b.head.Start.Wall += 60_000_000_000 // the wall clock was set by a minute between the starts
	b.last = b.head.Start               // the process has one moment only
	exchange(a, b, 10_000, 300)
	s := open(t, a, b)
	require.Equal(t, []int64{300 + 3000}, late(t, s)) // b's counter is 3000 ahead
	require.Empty(t, s.Clocks())
	uncertainty, ok := s.Uncertainty()
	require.True(t, ok)
	require.Zero(t, uncertainty)
}

// Files of another run, damaged files and missing files are errors that name the file.
func TestFilesOfOneRun(t *testing.T) {
	dir := t.TempDir()
	a, b := process(0, 3, "a", 0, 0).write(t, dir), process(2, 3, "a", 0, 0).write(t, dir)
	s, err := Open(b, a)
	require.NoError(t, err)
	require.Equal(t, []int{1}, s.Missing())
	require.Equal(t, 2, s.Head(1).Rank)
	s.Close()
	s, err = Open(a)
	require.NoError(t, err)
	require.Equal(t, []int{1, 2}, s.Missing())
	s.Close()

	other := process(1, 4, "a", 0, 0).write(t, t.TempDir())
	again := process(2, 3, "a", 0, 0).write(t, t.TempDir())
	text, err := os.ReadFile(a)
	require.NoError(t, err)
	file := func(name string, b []byte) string {
		f := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(f, b, 0o600))
		return f
	}
	for _, row := range []struct {
		names []string
		want  string
	}{
		{[]string{a, b, again}, "it is of rank 2, and so is "},
		{[]string{a, other}, other + ": it is of a run of 4 ranks, and " + a + " is of a run of 3 ranks"},
		{[]string{a, filepath.Join(dir, "none")}, "none: no such file"},
		{[]string{a, file("text", []byte("text"))}, "text: not a weft trace"},
		{[]string{a, file("version", bytes.Replace(text, []byte("\x00\x01\x00"), []byte("\x00\x07\x00"), 1))}, "version: a trace format of another version"},
	} {
		_, err := Open(row.names...)
		require.ErrorContains(t, err, row.want)
	}

	// All cut files are named after the records that they have. A file that is damaged in the
	// middle ends the reading.
	cut := process(1, 3, "a", 0, 0)
	cut.put(500, event.RequestDone, 0)
	whole := cut.write(t, t.TempDir())
	text, err = os.ReadFile(whole)
	require.NoError(t, err)
	read := func(names ...string) (n int, err error) {
		s, err := Open(names...)
		require.NoError(t, err)
		defer s.Close()
		for _, e := range s.Events() {
			if e != nil {
				return n, e
			}
			n++
		}
		return n, nil
	}
	n, err := read(a, whole)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = read(file("cut0", first(t, a, 20)), file("cut1", text[:len(text)-20]))
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, journal.ErrCut)
	require.ErrorContains(t, err, "cut0: at byte")
	require.ErrorContains(t, err, "cut1: at byte")
	text[len(text)-60] ^= 4
	_, err = read(a, file("damaged", text))
	require.False(t, errors.Is(err, journal.ErrCut))
	require.ErrorContains(t, err, "damaged: at byte")
}

// first returns a file without its last bytes.
func first(t *testing.T, name string, less int) []byte {
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	return b[:len(b)-less]
}
