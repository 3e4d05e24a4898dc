// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package count

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/env"
)

// newTestSettings sets the environment. It returns the settings, and the builder that receives the
// histogram.
func newTestSettings(t *testing.T, peers bool, vars ...string) (*Settings, *strings.Builder) {
	t.Helper()
	for _, name := range []string{env.Histogram.Name, env.HistogramMin.Name, env.HistogramMax.Name, env.HistogramShift.Name, env.HistogramTypes.Name, env.Stats.Name} {
		t.Setenv(name, "")
	}
	for _, kv := range vars {
		k, v, _ := strings.Cut(kv, "=")
		t.Setenv(k, v)
	}
	var out strings.Builder
	s, err := New(peers, &out)
	require.NoError(t, err)
	return s, &out
}

// The counts of all reports are added up. Ranks that are lost, or have other bins, are missing, and
// the file names them. Communicators with the same number and different ranks stay apart.
func TestPublish(t *testing.T) {
	file := filepath.Join(t.TempDir(), "stats")
	s, out := newTestSettings(t, false, env.Histogram.Name+"=1", env.HistogramMax.Name+"=256", env.HistogramShift.Name+"=2", env.Stats.Name+"="+file)
	require.True(t, s.peers)
	n := s.histogram.Bins() + 1
	bins := func(x ...uint64) []uint64 { return append(x, make([]uint64, n-len(x))...) }
	group := func(id uint64, rank int, ranks ...int) GroupReport {
		return GroupReport{ID: id, Ranks: ranks, stats: stats{Rank: rank, Peers: []Peer{{Rank: rank, SentBytes: uint64(100 + rank)}}}}
	}
	require.NoError(t, s.Publish([]*Report{
		{Bins: bins(1, 2), Comms: []GroupReport{group(0, 0, 0, 1), group(9, 0, 0)}},
		nil,
		{Bins: bins(10, 20), Comms: []GroupReport{group(0, 1, 0, 1), group(9, 0, 2)}},
		{Bins: bins()[1:]},
		{Bins: append(bins(), 1)},
	}))
	require.Equal(t, "bin  freq\n 64  11\n256  22\n", out.String())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	var all run
	require.NoError(t, json.Unmarshal(b, &all))
	require.Equal(t, []int{1, 3, 4}, all.Missing)
	require.Equal(t, 5, all.Ranks)
	require.Len(t, all.Histogram, n-1)
	require.Equal(t, []bin{{s.histogram.Limit(0), 11}, {s.histogram.Limit(1), 22}}, all.Histogram[:2])
	require.Equal(t, []groupStats{
		{0, []int{0, 1}, []stats{group(0, 0).stats, group(0, 1).stats}},
		{9, []int{0}, []stats{group(0, 0).stats}},
		{9, []int{2}, []stats{group(0, 0).stats}},
	}, all.Communicators)
}

// A rank counts what the program or the environment selects, and nothing else.
func TestWhatIsCounted(t *testing.T) {
	for _, row := range []struct {
		program bool
		env     []string
		none    bool
		peers   bool
		bins    bool
	}{
		{program: false, none: true},
		{program: true, peers: true},
		{env: []string{env.Stats.Name + "=x"}, peers: true},
		{env: []string{env.Histogram.Name + "=1"}, bins: true},
		{program: true, env: []string{env.Histogram.Name + "=1"}, peers: true, bins: true},
		{env: []string{env.Histogram.Name + "=1", env.HistogramTypes.Name + "=loop"}, bins: true},
	} {
		s, _ := newTestSettings(t, row.program, row.env...)
		require.Equal(t, row.none, s == nil, row)
		rank := NewRank(s)
		kinds := []string{"shm", "loop", "shm", "tcp"}
		c := rank.Attach(Group{ID: 7, Rank: 1, Size: 4, World: func(r int) int { return 10 + r }, Kind: func(r int) string { return kinds[r] }})
		require.Equal(t, row.none, c == nil, row)
		if row.none {
			require.Nil(t, c.Peers())
			require.Nil(t, s.Text())
			continue
		}
		c.Receive(3, 5)
		c.Receive(4, 5) // another process may send any rank
		c.Receive(-1, 5)
		c.Send(2, 7)
		c.Send(1, 8)
		r := rank.Report()
		if row.bins {
			want := []uint64{2, 0}
			if len(row.env) > 1 {
				want = []uint64{1, 1}
			}
			require.Equal(t, want, []uint64{r.Bins[0], r.Bins[len(r.Bins)-1]}, row)
		} else {
			require.Empty(t, r.Bins)
		}
		if !row.peers {
			require.Nil(t, c.Peers())
			require.Empty(t, r.Comms)
		} else {
			want := []Peer{
				{Rank: 0, Connection: "shm"},
				{Rank: 1, Connection: "loop", SentMessages: 1, SentBytes: 8},
				{Rank: 2, Connection: "shm", SentMessages: 1, SentBytes: 7},
				{Rank: 3, Connection: "tcp", ReceivedMessages: 1, ReceivedBytes: 5},
			}
			require.Equal(t, want, c.Peers())
			require.Equal(t, []GroupReport{{7, []int{10, 11, 12, 13}, stats{1, want}}}, r.Comms)
		}
		c.Uncount()
		c.Send(2, 7)
		require.Equal(t, r.Bins, rank.Report().Bins)
	}
}

// The error of different settings has both texts.
func TestDifferent(t *testing.T) {
	s, _ := newTestSettings(t, false, env.Histogram.Name+"=1")
	require.ErrorContains(t, Different(0, 2, s.Text(), nil), "rank 0 and rank 2 have different settings")
	require.ErrorContains(t, Different(0, 2, s.Text(), nil), string(s.Text())+" and none")
	require.ErrorContains(t, Different(0, 2, []byte{}, []byte("x")), ": none and x")
}
