// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/internal/env"
	"weft/internal/histogram"
	"weft/internal/waits"
)

// Stats are the counters of a communicator, as its rank sees them. The README says what is counted.
type Stats struct {
	Rank  int         `json:"rank"`
	Peers []PeerStats `json:"peers"` // by rank; empty if Config.Stats and the environment do not want counters
}

// PeerStats count what a rank and one other, or itself, have sent each other.
type PeerStats struct {
	Rank             int    `json:"rank"`
	Connection       string `json:"connection"` // "loop", "inproc", "shm", "tcp", "mpi"
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
}

// Stats returns the counters of this communicator at this rank. Operations that are under way may be in them, or not yet.
func (c *Comm) Stats() Stats {
	s := Stats{Rank: c.rank}
	t := c.tally
	if t == nil || t.sent == nil {
		return s
	}
	s.Peers = make([]PeerStats, c.size)
	for r := range s.Peers {
		s.Peers[r] = PeerStats{r, t.kinds[r], t.sent[r].messages.Load(), t.sent[r].bytes.Load(), t.received[r].messages.Load(), t.received[r].bytes.Load()}
	}
	return s
}

// statistics say what a run counts. Constant; the same in all processes of a job.
type statistics struct {
	histogram histogram.Settings
	peers     bool      // count by communicator and peer
	file      string    // where that goes at the end; empty: nowhere
	out       io.Writer // where the histogram goes
}

// histogramOut is where the histogram goes. Tests have another.
var histogramOut io.Writer = os.Stdout

func newStatistics(cfg *Config) (*statistics, error) {
	h, err := histogram.FromEnvironment()
	if err != nil {
		return nil, err
	}
	s := &statistics{histogram: h, file: env.Stats.Text(), out: histogramOut}
	s.peers = cfg.Stats || s.file != ""
	if !h.On && !s.peers {
		return nil, nil
	}
	return s, nil
}

// text is what ranks in different processes compare, so that all know at the end what all have counted. It is not for people.
func (s *statistics) text() []byte {
	if s == nil {
		return nil
	}
	b, _ := json.Marshal(map[string]any{"histogram": s.histogram, "peers": s.peers, "file": s.file != ""})
	return b
}

// rankTally counts for one rank.
type rankTally struct {
	*statistics

	mu    sync.Mutex
	comms []*Comm // guarded by mu: all that count by peer, for the end

	// bins are the histogram's, and one more for messages that it leaves out. They are this rank's own memory, so ranks do not
	// write to each other's cache lines; goroutines of one rank may.
	bins []atomic.Uint64
}

// Uncounted leaves the messages of a communicator out of the histogram, which counts what a program sends, and not what carries its windows. It is for
// packages that build on communicators; all ranks call it before they send by it. Stats has these messages.
func (c *Comm) Uncounted() {
	if t := c.tally; t != nil {
		t.bin = nil
	}
}

// tally counts for one rank of one communicator.
type tally struct {
	of    *rankTally
	kinds []string // by peer: the connection
	// bin is, by peer, whether the histogram counts it; nil if there is no histogram, or the communicator is not in it.
	bin            []bool
	sent, received []counter // by peer; nil if not wanted
}

type counter struct{ messages, bytes atomic.Uint64 }

func newRankTally(s *statistics) *rankTally {
	if s == nil {
		return nil
	}
	t := &rankTally{statistics: s}
	if s.histogram.On {
		const line = 16 // words: two cache lines, which processors fetch in pairs
		n := s.histogram.Bins() + 1
		t.bins = make([]atomic.Uint64, n+2*line)[line : line+n]
	}
	return t
}

// attach has a communicator's messages counted.
func (t *rankTally) attach(c *Comm) {
	if t == nil {
		return
	}
	y := &tally{of: t, kinds: make([]string, c.size)}
	for r := range y.kinds {
		y.kinds[r] = c.connection(r)
	}
	if t.histogram.On {
		y.bin = make([]bool, c.size)
		for r, kind := range y.kinds {
			y.bin[r] = t.histogram.Counts(kind)
		}
	}
	if t.peers {
		y.sent, y.received = make([]counter, c.size), make([]counter, c.size)
		t.mu.Lock()
		t.comms = append(t.comms, c)
		t.mu.Unlock()
	}
	c.tally = y
}

// connection returns the type of the connection to a rank.
func (c *Comm) connection(r int) string {
	if r == c.rank {
		return "loop"
	}
	return c.proc.ep.Caps(c.worldRank(r)).Kind
}

// send counts a message before it is sent.
func (t *tally) send(dst int, length uint64) {
	if t.bin != nil {
		i := len(t.of.bins) - 1
		if t.bin[dst] {
			i = t.of.histogram.Bin(length)
		}
		t.of.bins[i].Add(1)
	}
	if t.sent != nil {
		t.sent[dst].messages.Add(1)
		t.sent[dst].bytes.Add(length)
	}
}

// receive counts a message that has been matched.
func (t *tally) receive(h *header) {
	if t.received != nil && int(h.src) < len(t.received) { // other processes may say anything
		t.received[h.src].messages.Add(1)
		t.received[h.src].bytes.Add(h.length)
	}
}

// rankReport is what a rank has counted, as it goes to rank 0.
type rankReport struct {
	Bins  []uint64     `json:"bins,omitempty"`
	Comms []commReport `json:"comms,omitempty"`
}

type commReport struct {
	ID    uint64 `json:"id"`
	Ranks []int  `json:"ranks"` // of the run
	Stats
}

func (t *rankTally) report() rankReport {
	var r rankReport
	for i := range t.bins {
		r.Bins = append(r.Bins, t.bins[i].Load())
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.comms {
		x := commReport{ID: c.ctx, Stats: c.Stats()}
		for p := range c.size {
			x.Ranks = append(x.Ranks, c.worldRank(p))
		}
		r.Comms = append(r.Comms, x)
	}
	return r
}

// runReport is the file of WEFT_STATS.
type runReport struct {
	Version       int          `json:"version"`
	Ranks         int          `json:"ranks"`
	Missing       []int        `json:"missing,omitempty"` // ranks that were lost before the end
	Histogram     []binReport  `json:"histogram,omitempty"`
	Connections   []string     `json:"histogram_connections,omitempty"`
	Communicators []groupStats `json:"communicators"`
}

type binReport struct {
	Limit    uint64 `json:"limit"` // the last bin has what is larger as well
	Messages uint64 `json:"messages"`
}

type groupStats struct {
	ID    uint64  `json:"id"` // 0: all ranks
	Ranks []int   `json:"ranks"`
	Stats []Stats `json:"stats"` // of each rank
}

// publish prints and writes what all ranks have counted. reports are by rank; nil for ranks that were lost.
func (s *statistics) publish(reports []*rankReport) error {
	run := runReport{Version: 1, Ranks: len(reports), Connections: s.histogram.Types}
	var bins []uint64
	if s.histogram.On {
		bins = make([]uint64, s.histogram.Bins()+1)
	}
	total := uint64(0)
	for rank, r := range reports {
		if r == nil || len(r.Bins) != len(bins) {
			run.Missing = append(run.Missing, rank)
			continue
		}
		for i, n := range r.Bins {
			bins[i] += n
			total += n
		}
		for _, c := range r.Comms {
			run.add(&c)
		}
	}
	var err error
	if s.histogram.On && total > 0 {
		bins = bins[:len(bins)-1]
		err = s.histogram.Write(s.out, bins)
		for i, n := range bins {
			run.Histogram = append(run.Histogram, binReport{s.histogram.Limit(i), n})
		}
	}
	if s.file != "" {
		b, e := json.MarshalIndent(&run, "", "  ")
		if e == nil {
			e = os.WriteFile(s.file, append(b, '\n'), 0o666)
		}
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", EnvStats, e))
		}
	}
	return err
}

// add puts a rank's counters to those of the same communicator. All colours of a split have one number, so the group counts too.
func (run *runReport) add(c *commReport) {
	i := slices.IndexFunc(run.Communicators, func(g groupStats) bool { return g.ID == c.ID && slices.Equal(g.Ranks, c.Ranks) })
	if i < 0 {
		i = len(run.Communicators)
		run.Communicators = append(run.Communicators, groupStats{ID: c.ID, Ranks: c.Ranks})
	}
	run.Communicators[i].Stats = append(run.Communicators[i].Stats, c.Stats)
}

// tallying is the context in which ranks of other processes send their counters. newContext returns none below 1<<32.
const tallying = 4

// hand brings the counters of rank r, whose body has returned, to rank 0, which publishes all. It is for ranks that are not all
// in one process; see conclude for those that are. All ranks count the same things: the beginning of the run has seen to that.
func (w *world) hand(r int) error {
	t := w.procs[r].tally
	if t == nil || w.aborted.Load() != nil {
		return nil
	}
	c := w.comm(r)
	c.ctx = tallying
	mine := t.report()
	if r != 0 {
		b, err := json.Marshal(&mine)
		if err == nil {
			err = c.Send(Of(b), 0, 0)
		}
		if err != nil {
			w.cfg.Logger.Warn("counters are lost", "rank", r, "cause", err)
		}
		return nil
	}
	reports := make([]*rankReport, w.size)
	reports[0] = &mine
	for from := 1; from < w.size; from++ {
		one := new(rankReport)
		st, err := c.Probe(from, 0)
		if err == nil {
			b := make([]byte, st.Bytes)
			if _, err = c.Recv(Of(b), from, 0); err == nil {
				err = json.Unmarshal(b, one)
			}
		}
		if err != nil {
			w.cfg.Logger.Warn("counters are lost", "rank", from, "cause", err)
			continue
		}
		reports[from] = one
	}
	if w.aborted.Load() != nil {
		return nil // the end of a run that has failed says enough
	}
	return t.publish(reports)
}

// conclude publishes the counters of a run that has all ranks in this process.
func (w *world) conclude() error {
	if w.cfg.stats == nil || w.apart || w.aborted.Load() != nil {
		return nil
	}
	reports := make([]*rankReport, w.size)
	for r, p := range w.procs {
		one := p.tally.report()
		reports[r] = &one
	}
	return w.cfg.stats.publish(reports)
}

// differentStatistics is the error of processes of a job that do not count the same.
func differentStatistics(rank, other int, mine, theirs []byte) error {
	return fmt.Errorf("%w: rank %d and rank %d have different settings of %s, its like, %s or Config.Stats: %s and %s",
		ErrConfig, rank, other, env.Histogram.Name, EnvStats, orNone(mine), orNone(theirs))
}

func orNone(b []byte) string {
	if len(b) == 0 {
		return "none"
	}
	return string(b)
}

// sharedDump has the goroutines of the process, as they were a moment ago. To write them down stops
// the program and takes the longer the more there are; so runs that one context ends, which all say
// who waits for what, share one.
type sharedDump struct {
	mu   sync.Mutex
	all  map[uint64]*waits.Goroutine // guarded by mu: by number; nil: none that is fresh
	made int                         // guarded by mu: dumps so far
}

var dump sharedDump

// dumpFresh is for how long a dump is shared (guess). Tests have another.
var dumpFresh = 10 * time.Millisecond

// get returns a dump that is new, or was when the last moment began.
func (d *sharedDump) get() map[uint64]*waits.Goroutine {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = numbered()
		d.made++
		n := d.made
		time.AfterFunc(dumpFresh, func() { d.forget(n) })
	}
	return d.all
}

// forget drops dump number n, unless there is a later one.
func (d *sharedDump) forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == n {
		d.all = nil
	}
}

// listGoroutines lists all of the process. Tests count the calls.
var listGoroutines = waits.Goroutines

// numbered returns all goroutines by number, as they are now.
func numbered() map[uint64]*waits.Goroutine {
	all := map[uint64]*waits.Goroutine{}
	for _, g := range listGoroutines() {
		all[g.ID] = &g
	}
	return all
}
