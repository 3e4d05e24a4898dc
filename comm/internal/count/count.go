// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package count counts the messages of a run: the histogram of sizes, and the messages that each
// rank of each communicator has sent to and received from each other one. Of a communicator, it
// knows only the number and the ranks. ../../README.md, "Counting", says what is counted.
//
// Any goroutine may use a [Counter]. Goroutines of one rank share its cache lines; ranks share
// none.
package count

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"weft/internal/env"
	"weft/internal/histogram"
)

// Settings say what a run counts. They are constant, and the same in all processes of a job.
type Settings struct {
	histogram histogram.Settings
	peers     bool      // count by communicator and peer
	file      string    // file for the counts by communicator and peer; empty: none
	out       io.Writer // for the histogram
}

// New returns the settings of the environment; with peers, the run also counts by communicator and
// peer. It returns nil if nothing is counted. The histogram is written to out.
func New(peers bool, out io.Writer) (*Settings, error) {
	h, err := histogram.FromEnvironment()
	if err != nil {
		return nil, err
	}
	s := &Settings{histogram: h, file: env.Stats.Text(), out: out}
	s.peers = peers || s.file != ""
	if !h.On && !s.peers {
		return nil, nil
	}
	return s, nil
}

// Text returns the settings as text, for ranks in different processes to compare: at the end, their
// counts are added up. It is not meant to be read.
func (s *Settings) Text() []byte {
	if s == nil {
		return nil
	}
	b, _ := json.Marshal(map[string]any{"histogram": s.histogram, "peers": s.peers, "file": s.file != ""})
	return b
}

// Different returns the error of two ranks with different settings; mine and theirs are their
// Texts.
func Different(rank, other int, mine, theirs []byte) error {
	orNone := func(b []byte) string {
		if len(b) == 0 {
			return "none"
		}
		return string(b)
	}
	return fmt.Errorf("rank %d and rank %d have different settings of %s, its like, %s or Config.Stats: %s and %s",
		rank, other, env.Histogram.Name, env.Stats.Name, orNone(mine), orNone(theirs))
}

// Rank counts for one rank.
type Rank struct {
	*Settings

	mu  sync.Mutex
	all []*Counter // guarded by mu: the counters by peer, for Report

	// bins has the bins of the histogram, and one more for messages that the histogram leaves out.
	// They share no cache line with other ranks' data.
	bins []atomic.Uint64
}

// NewRank returns the counts of a rank; nil if nothing is counted.
func NewRank(s *Settings) *Rank {
	if s == nil {
		return nil
	}
	t := &Rank{Settings: s}
	if s.histogram.On {
		const line = 16 // words: two cache lines, which processors fetch in pairs
		n := s.histogram.Bins() + 1
		t.bins = make([]atomic.Uint64, n+2*line)[line : line+n]
	}
	return t
}

// Group describes a communicator at one of its ranks.
type Group struct {
	ID    uint64
	Rank  int
	Size  int
	World func(rank int) int    // the rank in the run of a member
	Kind  func(rank int) string // the kind of connection to a member
}

// Counter counts for one rank of one communicator.
type Counter struct {
	of    *Rank
	group Group
	kinds []string // by peer: the kind of connection
	// By peer: whether the histogram counts messages to it. Nil if there is no histogram, or if the
	// histogram leaves out the communicator.
	bin            []bool
	sent, received []tally // by peer; nil if not counted
}

type tally struct{ messages, bytes atomic.Uint64 }

// Attach returns the counter of a communicator; nil if nothing is counted.
func (t *Rank) Attach(g Group) *Counter {
	if t == nil {
		return nil
	}
	c := &Counter{of: t, group: g, kinds: make([]string, g.Size)}
	for r := range c.kinds {
		c.kinds[r] = g.Kind(r)
	}
	if t.histogram.On {
		c.bin = make([]bool, g.Size)
		for r, kind := range c.kinds {
			c.bin[r] = t.histogram.Counts(kind)
		}
	}
	if t.peers {
		c.sent, c.received = make([]tally, g.Size), make([]tally, g.Size)
		t.mu.Lock()
		t.all = append(t.all, c)
		t.mu.Unlock()
	}
	return c
}

// Uncount leaves the communicator out of the histogram. No message has been sent yet.
func (c *Counter) Uncount() { c.bin = nil }

// Send counts a message before it is sent.
func (c *Counter) Send(dst int, length uint64) {
	if c.bin != nil {
		i := len(c.of.bins) - 1
		if c.bin[dst] {
			i = c.of.histogram.Bin(length)
		}
		c.of.bins[i].Add(1)
	}
	if c.sent != nil {
		c.sent[dst].messages.Add(1)
		c.sent[dst].bytes.Add(length)
	}
}

// Receive counts a message that has been matched. src comes from another process and may be wrong.
func (c *Counter) Receive(src int, length uint64) {
	if c.received != nil && uint(src) < uint(len(c.received)) {
		c.received[src].messages.Add(1)
		c.received[src].bytes.Add(length)
	}
}

// Peer has the counts of a rank's messages to and from one rank.
type Peer struct {
	Rank             int    `json:"rank"`
	Connection       string `json:"connection"`
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
}

// Peers returns the counts by rank; nil if there are none. The Counter may be nil.
func (c *Counter) Peers() []Peer {
	if c == nil || c.sent == nil {
		return nil
	}
	peers := make([]Peer, len(c.sent))
	for r := range peers {
		peers[r] = Peer{r, c.kinds[r], c.sent[r].messages.Load(), c.sent[r].bytes.Load(), c.received[r].messages.Load(), c.received[r].bytes.Load()}
	}
	return peers
}

// Report has the counts of a rank, as they are sent to rank 0.
type Report struct {
	Bins  []uint64      `json:"bins,omitempty"`
	Comms []GroupReport `json:"comms,omitempty"`
}

// GroupReport has a rank's counts of one communicator.
type GroupReport struct {
	ID    uint64 `json:"id"`
	Ranks []int  `json:"ranks"` // of the run
	stats
}

// stats has the counts of one rank of a communicator.
type stats struct {
	Rank  int    `json:"rank"`
	Peers []Peer `json:"peers"`
}

// Report returns the counts of the rank.
func (t *Rank) Report() Report {
	var r Report
	for i := range t.bins {
		r.Bins = append(r.Bins, t.bins[i].Load())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.all {
		x := GroupReport{ID: c.group.ID, stats: stats{c.group.Rank, c.Peers()}}
		for p := range c.group.Size {
			x.Ranks = append(x.Ranks, c.group.World(p))
		}
		r.Comms = append(r.Comms, x)
	}
	return r
}

// run is the contents of the file that WEFT_STATS names.
type run struct {
	Version       int          `json:"version"`
	Ranks         int          `json:"ranks"`
	Missing       []int        `json:"missing,omitempty"` // ranks that were lost before the end
	Histogram     []bin        `json:"histogram,omitempty"`
	Connections   []string     `json:"histogram_connections,omitempty"`
	Communicators []groupStats `json:"communicators"`
}

type bin struct {
	Limit    uint64 `json:"limit"` // the last bin also has all larger messages
	Messages uint64 `json:"messages"`
}

type groupStats struct {
	ID    uint64  `json:"id"` // 0: all ranks
	Ranks []int   `json:"ranks"`
	Stats []stats `json:"stats"` // of each rank
}

// Publish prints the histogram and writes the file, from the reports of all ranks. reports is by
// rank, nil for lost ranks.
func (s *Settings) Publish(reports []*Report) error {
	all := run{Version: 1, Ranks: len(reports), Connections: s.histogram.Types}
	var bins []uint64
	if s.histogram.On {
		bins = make([]uint64, s.histogram.Bins()+1)
	}
	total := uint64(0)
	for rank, r := range reports {
		if r == nil || len(r.Bins) != len(bins) {
			all.Missing = append(all.Missing, rank)
			continue
		}
		for i, n := range r.Bins {
			bins[i] += n
			total += n
		}
		for _, c := range r.Comms {
			all.add(&c)
		}
	}
	var err error
	if s.histogram.On && total > 0 {
		bins = bins[:len(bins)-1]
		err = s.histogram.Write(s.out, bins)
		for i, n := range bins {
			all.Histogram = append(all.Histogram, bin{s.histogram.Limit(i), n})
		}
	}
	if s.file != "" {
		b, e := json.MarshalIndent(&all, "", "  ")
		if e == nil {
			e = os.WriteFile(s.file, append(b, '\n'), 0o666)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", env.Stats.Name, e))
		}
	}
	return err
}

// add adds a rank's counts to those of the same communicator. All colours of a split have the same
// number, so the ranks are compared too.
func (all *run) add(c *GroupReport) {
	i := slices.IndexFunc(all.Communicators, func(g groupStats) bool { return g.ID == c.ID && slices.Equal(g.Ranks, c.Ranks) })
	if i < 0 {
		i = len(all.Communicators)
		all.Communicators = append(all.Communicators, groupStats{ID: c.ID, Ranks: c.Ranks})
	}
	all.Communicators[i].Stats = append(all.Communicators[i].Stats, c.stats)
}
