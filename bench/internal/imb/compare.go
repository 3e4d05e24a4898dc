// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"weft/bench/internal/harness"
)

// A Comparison collects the rows of several peers and rounds.
type Comparison struct {
	peers   []Peer
	workers int
	keys    []key // in the order of their first rows
	samples map[key]map[string][]float64
	wrong   map[key]map[string]bool
}

// key identifies a row of the comparison.
type key struct {
	bench string
	ranks int
	size  int64
	part  bool // the figure is the hidden part in percent, not a time
}

// NewComparison returns an empty comparison. Workers is copied into its rows.
func NewComparison(peers []Peer, workers int) *Comparison {
	return &Comparison{peers: peers, workers: workers, samples: map[key]map[string][]float64{}, wrong: map[key]map[string]bool{}}
}

// Add adds a peer's row.
func (c *Comparison) Add(peer string, r Row) {
	k := key{bench: r.Bench, ranks: r.Ranks, size: r.Size}
	c.add(k, peer, r.figure(), r.Why != "")
	if find(r.Bench).kind == overlap {
		k.part = true
		c.add(k, peer, r.Overlap, r.Why != "")
	}
}

func (c *Comparison) add(k key, peer string, v float64, wrong bool) {
	if c.samples[k] == nil {
		c.keys = append(c.keys, k)
		c.samples[k], c.wrong[k] = map[string][]float64{}, map[string]bool{}
	}
	c.samples[k][peer] = append(c.samples[k][peer], v)
	c.wrong[k][peer] = c.wrong[k][peer] || wrong
}

// figure returns the time by which peers are compared, in microseconds.
func (r *Row) figure() float64 {
	switch find(r.Bench).kind {
	case band:
		if r.Msgs > 0 {
			return 1e6 / r.Msgs
		}
		return r.Avg / inFlight
	case overlap:
		return r.Pure
	case collect:
		return r.Avg
	}
	return r.Max
}

// Rows returns the rows of all peers, for the program's file.
func (c *Comparison) Rows() []harness.Row {
	rows := []harness.Row{}
	for _, k := range c.keys {
		for _, p := range c.peers {
			samples := c.samples[k][p.Name]
			if len(samples) == 0 {
				continue
			}
			row := harness.Row{Name: "msg/" + k.bench, Peer: p.Name, Workers: c.workers, Ranks: k.ranks, Size: k.size, Unit: "us", OK: !c.wrong[k][p.Name]}
			if k.part {
				row.Name, row.Unit = row.Name+"/overlap", "%"
			}
			row.Summarize(samples)
			rows = append(rows, row)
		}
	}
	return rows
}

// Failed reports whether some contents were wrong.
func (c *Comparison) Failed() bool {
	return slices.ContainsFunc(c.Rows(), func(r harness.Row) bool { return !r.OK })
}

func (c *Comparison) median(k key, peer string) float64 {
	if len(c.samples[k][peer]) == 0 {
		return math.NaN()
	}
	var row harness.Row
	row.Summarize(c.samples[k][peer])
	return row.Median
}

// best returns the figure of the better of the other libraries in a class.
func (c *Comparison) best(k key, class string) float64 {
	best := math.NaN()
	for _, p := range c.peers {
		if v := c.median(k, p.Name); !p.Ours && p.Class == class && (math.IsNaN(best) || (v < best) != k.part) && !math.IsNaN(v) {
			best = v
		}
	}
	return best
}

// rival returns the figure that a peer of weft is compared with: for ranks over a library, that of
// the same library called from C.
func (c *Comparison) rival(k key, p *Peer) float64 {
	if lib, ok := strings.CutPrefix(p.Name, "weft-mpi-"); ok {
		return c.median(k, lib+"-shm")
	}
	return c.best(k, p.Class)
}

// Write writes a table for every benchmark and number of ranks: the medians, and the ratio of each
// peer of weft to the better of the others.
func (c *Comparison) Write(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := key{ranks: -1}
	keys := slices.Clone(c.keys)
	slices.SortStableFunc(keys, func(a, b key) int { return cmp.Compare(c.block(a), c.block(b)) })
	for _, k := range keys {
		var heads, cells []string
		for _, p := range c.peers {
			v := c.median(k, p.Name)
			if math.IsNaN(v) && !c.anywhere(k, p.Name) {
				continue
			}
			heads, cells = append(heads, p.Name), append(cells, number2(v))
		}
		for _, p := range c.peers {
			if r := c.rival(k, &p); p.Ours && !math.IsNaN(r) && !math.IsNaN(c.median(k, p.Name)) {
				heads, cells = append(heads, strings.TrimPrefix(p.Name, "weft-")+" ratio"), append(cells, number2(c.median(k, p.Name)/r))
			}
		}
		if k.bench != last.bench || k.ranks != last.ranks || k.part != last.part {
			last = k
			if err := tw.Flush(); err != nil {
				return err
			}
			unit := "microseconds"
			if k.part {
				unit = "percent hidden"
			}
			fmt.Fprintf(w, "\n%s, %d ranks, %s\n", k.bench, k.ranks, unit)
			fmt.Fprintf(tw, "bytes\t%s\t\n", strings.Join(heads, "\t"))
		}
		fmt.Fprintf(tw, "%d\t%s\t\n", k.size, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// block returns the position of the table of k's benchmark.
func (c *Comparison) block(k key) int {
	return slices.IndexFunc(c.keys, func(o key) bool { return o.bench == k.bench && o.ranks == k.ranks && o.part == k.part })
}

// anywhere reports whether a peer has a row for any size of k's benchmark.
func (c *Comparison) anywhere(k key, peer string) bool {
	for _, other := range c.keys {
		if other.bench == k.bench && other.ranks == k.ranks && other.part == k.part && len(c.samples[other][peer]) > 0 {
			return true
		}
	}
	return false
}

func number2(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// A goal is a target for a ratio, or for a figure.
type goal struct {
	what  string
	k     key
	peer  string
	rival string  // "": the best of the class; "-": none, limit is a figure
	limit float64 // upper bound; for hidden parts, lower bound
}

const mib = 1 << 20

var goals = []goal{
	{"ping-pong 8 B", key{"PingPong", 2, 8, false}, "weft-shm", "", 0.6},
	{"ping-pong 64 KiB", key{"PingPong", 2, 64 << 10, false}, "weft-shm", "", 0.9},
	{"ping-pong 1 MiB", key{"PingPong", 2, mib, false}, "weft-shm", "", 0.85},
	{"ping-pong 4 MiB", key{"PingPong", 2, 4 * mib, false}, "weft-shm", "", 0.7},
	{"64 outstanding, 8 B, per message", key{"Uniband", 2, 8, false}, "weft-shm", "", 0.6},
	{"barrier", key{"Barrier", 2, 0, false}, "weft-shm", "", 0.8},
	{"allreduce 8 B", key{"Allreduce", 2, 8, false}, "weft-shm", "", 0.5},
	{"allreduce 1 MiB", key{"Allreduce", 2, mib, false}, "weft-shm", "", 0.6},
	{"bcast 1 MiB", key{"Bcast", 2, mib, false}, "weft-shm", "", 0.9},
	{"four ranks: ping-pong 8 B", key{"PingPong", 4, 8, false}, "weft-shm", "openmpi-shm", 1.5},
	{"four ranks: barrier", key{"Barrier", 4, 0, false}, "weft-shm", "openmpi-shm", 1.5},
	{"four ranks: allreduce 8 B", key{"Allreduce", 4, 8, false}, "weft-shm", "openmpi-shm", 1.5},
	{"four ranks: ping-pong 8 B", key{"PingPong", 4, 8, false}, "weft-shm", "mpich-shm", 0.02},
	{"four ranks: barrier", key{"Barrier", 4, 0, false}, "weft-shm", "mpich-shm", 0.02},
	{"four ranks: allreduce 8 B", key{"Allreduce", 4, 8, false}, "weft-shm", "mpich-shm", 0.02},
	{"send of 1 MiB to a rank that computes", key{"Progress", 2, mib, false}, "weft-shm", "", 0.01},
	{"hidden of an exchange of 1 MiB, percent", key{"Overlap", 2, mib, true}, "weft-shm", "-", 80},
	{"tcp ping-pong 8 B", key{"PingPong", 2, 8, false}, "weft-tcp", "", 0.95},
	{"tcp time of 4 MiB", key{"PingPong", 2, 4 * mib, false}, "weft-tcp", "", 1},
	{"over Open MPI, 8 B", key{"PingPong", 2, 8, false}, "weft-mpi-openmpi", "openmpi-shm", 1.6},
	{"over Open MPI, time of 1 MiB", key{"PingPong", 2, mib, false}, "weft-mpi-openmpi", "openmpi-shm", 1 / 0.95},
	{"over MPICH, 8 B", key{"PingPong", 2, 8, false}, "weft-mpi-mpich", "mpich-shm", 1.6},
	{"over MPICH, time of 1 MiB", key{"PingPong", 2, mib, false}, "weft-mpi-mpich", "mpich-shm", 1 / 0.95},
	{"start of 4 ranks", key{"Start", 4, 0, false}, "weft-shm", "", 0.5},
	{"processor time in a second of Recv, µs", key{"Idle", 2, 0, false}, "weft-shm", "-", 5000},
}

// WriteGoals writes the goals for which this run has figures. The goals of shared memory are also
// those of ranks in one process.
func (c *Comparison) WriteGoals(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "goal\tpeer\tours\ttheirs\tratio\tmeant\t")
	n := 0
	for _, g := range goals {
		peers := []string{g.peer}
		if g.peer == "weft-shm" {
			peers = append(peers, "weft-inproc")
		}
		for _, name := range peers {
			ours := c.median(g.k, name)
			var theirs float64
			switch g.rival {
			case "":
				i := slices.IndexFunc(c.peers, func(p Peer) bool { return p.Name == name })
				if i < 0 {
					continue
				}
				theirs = c.best(g.k, c.peers[i].Class)
			case "-":
				theirs = 1
			default:
				theirs = c.median(g.k, g.rival)
			}
			if math.IsNaN(ours) || math.IsNaN(theirs) {
				continue
			}
			n++
			met, sign := ours/theirs <= g.limit, "≤"
			if g.k.part {
				met, sign = ours >= g.limit, "≥"
			}
			verdict := "met"
			if !met {
				verdict = "MISSED"
			}
			rival := number2(theirs)
			if g.rival == "-" {
				rival = ""
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s %.3g\t%s\n", g.what, name, number2(ours), rival, number2(ours/theirs), sign, g.limit, verdict)
		}
	}
	if n == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nGoals:")
	return tw.Flush()
}
