// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"encoding/json"
	"io"
	"os"

	"weft/comm/internal/count"
)

// histogramOut gets the histogram. Tests replace it.
var histogramOut io.Writer = os.Stdout

// Stats are the counters of a communicator at its rank. The README tells what is counted.
type Stats struct {
	Rank int `json:"rank"`
	// by rank; empty if neither Config.Stats nor the environment wants counters
	Peers []PeerStats `json:"peers"`
}

// PeerStats counts what a rank and one other, or itself, have sent each other.
type PeerStats struct {
	Rank             int    `json:"rank"`
	Connection       string `json:"connection"` // "loop", "inproc", or a fabric as in WEFT_FABRIC
	SentMessages     uint64 `json:"sent_messages"`
	SentBytes        uint64 `json:"sent_bytes"`
	ReceivedMessages uint64 `json:"received_messages"`
	ReceivedBytes    uint64 `json:"received_bytes"`
}

// Stats returns the counters of this communicator at this rank. Operations that are under way may
// be counted or not.
func (c *Comm) Stats() Stats {
	s := Stats{Rank: c.rank}
	for _, p := range c.counter.Peers() {
		s.Peers = append(s.Peers, PeerStats(p))
	}
	return s
}

// Uncounted leaves the messages of a communicator out of the histogram, which counts what a program
// sends, and not the messages that implement its windows. It is for packages that build on
// communicators; all ranks call it before they send on c. Stats still counts these messages.
func (c *Comm) Uncounted() {
	if c.counter != nil {
		c.counter.Uncount()
	}
}

// count starts counting the messages of a communicator, if messages are counted.
func (p *proc) count(c *Comm) {
	c.counter = p.counts.Attach(count.Group{ID: c.ctx, Rank: c.rank, Size: c.size, World: c.worldRank, Kind: c.connection})
}

// connection returns the type of the connection to a rank.
func (c *Comm) connection(r int) string {
	if r == c.rank {
		return "loop"
	}
	return c.proc.ep.Caps(c.worldRank(r)).Kind
}

// countersCtx is the context in which ranks of other processes send their counters. newContext
// returns none below 1<<32.
const countersCtx = 4

// sendCounters brings the counters of rank p, whose body has returned, to rank 0, which publishes
// all. It is for ranks in several processes; see publishCounters for one process. All ranks count
// the same things: the start of the run has compared the settings.
func (w *world) sendCounters(p *proc) error {
	r, t := p.rank, p.counts
	if t == nil || w.aborted.Load() != nil {
		return nil
	}
	c := w.comm(r)
	c.ctx = countersCtx
	mine := t.Report()
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
	reports := make([]*count.Report, w.size)
	reports[0] = &mine
	for from := 1; from < w.size; from++ {
		one := new(count.Report)
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
		return nil // a run that has failed reports that instead
	}
	return t.Publish(reports)
}

// publishCounters publishes the counters of a run that has all ranks in this process.
func (w *world) publishCounters() error {
	if w.cfg.stats == nil || w.multiProcess || w.aborted.Load() != nil {
		return nil
	}
	reports := make([]*count.Report, w.size)
	for r, p := range w.own {
		one := p.counts.Report()
		reports[r] = &one
	}
	return w.cfg.stats.Publish(reports)
}
