// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"weft/internal/env"

	"github.com/stretchr/testify/require"
)

// The counters of all ranks are summed where they are there: those of ranks that are lost, or that
// count otherwise, are missing, and the file says whose. Communicators of one number and different
// ranks are two.
func TestPublish(t *testing.T) {
	counting(t, env.Histogram.Name+"=1", env.HistogramMax.Name+"=256", env.HistogramShift.Name+"=2")
	file := filepath.Join(t.TempDir(), "stats")
	t.Setenv(EnvStats, file)
	s, err := newStatistics(&Config{})
	require.NoError(t, err)
	require.True(t, s.peers)
	n := s.histogram.Bins() + 1
	bins := func(x ...uint64) []uint64 { return append(x, make([]uint64, n-len(x))...) }
	group := func(id uint64, rank int, ranks ...int) commReport {
		return commReport{ID: id, Ranks: ranks, Stats: Stats{Rank: rank, Peers: []PeerStats{{Rank: rank, SentBytes: uint64(100 + rank)}}}}
	}
	require.NoError(t, s.publish([]*rankReport{
		{Bins: bins(1, 2), Comms: []commReport{group(0, 0, 0, 1), group(9, 0, 0)}},
		nil,
		{Bins: bins(10, 20), Comms: []commReport{group(0, 1, 0, 1), group(9, 0, 2)}},
		{Bins: bins()[1:]},
		{Bins: append(bins(), 1)},
	}))
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var run runReport
	require.NoError(t, json.Unmarshal(b, &run))
	require.Equal(t, []int{1, 3, 4}, run.Missing)
	require.Equal(t, 5, run.Ranks)
	require.Len(t, run.Histogram, n-1)
	require.Equal(t, []binReport{{s.histogram.Limit(0), 11}, {s.histogram.Limit(1), 22}}, run.Histogram[:2])
	require.Equal(t, []groupStats{
		{0, []int{0, 1}, []Stats{group(0, 0).Stats, group(0, 1).Stats}},
		{9, []int{0}, []Stats{group(0, 0).Stats}},
		{9, []int{2}, []Stats{group(0, 0).Stats}},
	}, run.Communicators)

	for _, row := range []struct {
		stats bool
		env   []string
		none  bool
		peers bool
	}{{false, nil, true, false}, {true, nil, false, true}, {false, []string{EnvStats + "=x"}, false, true}, {false, []string{env.Histogram.Name + "=1"}, false, false}, {true, []string{env.Histogram.Name + "=1"}, false, true}} {
		counting(t, row.env...)
		s, err := newStatistics(&Config{Stats: row.stats})
		require.NoError(t, err)
		require.Equal(t, row.none, s == nil)
		if s != nil {
			require.Equal(t, row.peers, s.peers)
			w, all, _ := idle(t, 4, Config{Stats: row.stats})
			tally := newRankTally(s)
			tally.attach(all[1])
			require.Equal(t, row.peers, len(all[1].Stats().Peers) == 4)
			require.Equal(t, btoi(row.peers), len(tally.comms))
			require.Equal(t, s.histogram.On, all[1].tally.bin != nil)
			all[1].tally.receive(&header{src: 3, length: 5})
			all[1].tally.receive(&header{src: 4, length: 5}) // another process may say anything
			all[1].tally.send(2, 7)
			if row.peers {
				got := all[1].Stats()
				require.Equal(t, 1, got.Rank)
				require.Equal(t, PeerStats{Rank: 3, Connection: "inproc", ReceivedMessages: 1, ReceivedBytes: 5}, got.Peers[3])
				require.Equal(t, PeerStats{Rank: 2, Connection: "inproc", SentMessages: 1, SentBytes: 7}, got.Peers[2])
				require.Equal(t, PeerStats{Rank: 1, Connection: "loop"}, got.Peers[1])
			}
			require.NoError(t, context.Cause(w.ctx))
		}
	}
	require.Equal(t, []string{"none", "none", "x"}, []string{orNone(nil), orNone([]byte{}), orNone([]byte("x"))})
}

// Rank 0 of several processes gathers the counters of all; those of a rank that is lost, or that
// sends nonsense, are missing, which is logged. The others send theirs.
func TestCountersAreHandedOver(t *testing.T) {
	for _, row := range []struct {
		says1   string
		lose2   bool
		missing []int
	}{{`{"comms":[]}`, false, nil}, {`{"comms":[]}`, true, []int{2}}, {"{", false, []int{1}}, {"{", true, []int{1, 2}}} {
		file := filepath.Join(t.TempDir(), "stats")
		counting(t, EnvStats+"="+file)
		var log bytes.Buffer
		_, c := amongNeighbours(t, 0, Config{Survive: true, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.proc.tally.attach(c)
		say := func(src int32, text string) {
			c.proc.hear(int(src), frameOfHeader(header{proto: eager, ctx: tallying, elem: Byte, elemSize: 1, src: src, length: uint64(len(text))}, []byte(text)))
		}
		say(1, row.says1)
		if row.lose2 {
			c.proc.lose(2, errTest)
		} else {
			say(2, "{}")
		}
		require.NoError(t, c.world.hand(0))
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var run runReport
		require.NoError(t, json.Unmarshal(b, &run))
		require.Equal(t, row.missing, run.Missing)
		require.Len(t, run.Communicators, 1)
		for r := range 3 {
			require.Equal(t, btoi(r > 0 && (r == 1 && row.says1 == "{" || r == 2 && row.lose2)), bytes.Count(log.Bytes(), fmt.Appendf(nil, "msg=\"counters are lost\" rank=%d", r)), log.String())
		}
		c.world.end(errTest)
		require.NoError(t, os.Remove(file))
		require.NoError(t, c.world.hand(0), "a run that has failed says enough")
		_, err = os.Stat(file)
		require.ErrorIs(t, err, os.ErrNotExist)

		log.Reset()
		ep, c := amongNeighbours(t, 1, Config{Survive: true, EagerLimit: 1 << 20, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		c.proc.tally.attach(c)
		require.NoError(t, c.world.hand(1))
		sent := ep.take()
		require.Len(t, sent, 1)
		require.Equal(t, []uint64{0, tallying}, []uint64{uint64(sent[0].dst), sent[0].Head[0]})
		var report rankReport
		require.NoError(t, json.Unmarshal(sent[0].Data, &report))
		require.Len(t, report.Comms, 1)
		require.Equal(t, []int{0, 1, 2}, report.Comms[0].Ranks)
		require.Empty(t, log.String())
		ep.fails = errTest
		require.NoError(t, c.world.hand(1))
		require.Contains(t, log.String(), "msg=\"counters are lost\" rank=1")
	}
}
