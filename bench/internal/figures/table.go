// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"weft/bench/internal/harness"
)

// A comparison is a row of the table of the main figures: weft beside the strongest of its peers in
// Go, and the strongest of the other peers.
type comparison struct {
	what   string
	name   string
	size   int64 // 0: that of the first row
	ranks  int   // 0: those of the first row
	ours   string
	inGo   []string
	others []string
	rate   bool // more is better
}

var (
	goPeers  = []string{"goroutines", "channels", "ants", "errgroup"}
	runtimes = []string{"libgomp", "libomp", "tbb"}
	shmPeers = []string{"openmpi-shm", "mpich-shm"}
	tcpPeers = []string{"openmpi-tcp", "mpich-tcp"}
)

var comparisons = []comparison{
	{what: "independent tasks", name: "task/independent", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "one chain of tasks", name: "task/chain", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "64 chains", name: "task/chains64", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "a writer and 8 readers", name: "task/readers", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "5 accesses (blocks)", name: "task/blocks", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "fork and join", name: "task/forkjoin", ours: "weft", inGo: goPeers, others: runtimes},
	{what: "METG, stencil", name: "metg/stencil_1d", size: 16, ours: "weft", inGo: goPeers, others: runtimes},
	{what: "message of 8 B, one process", name: "msg/pingpong", size: 8, ours: "weft", inGo: goPeers},
	{what: "message of 1 MiB, one process", name: "msg/pingpong", size: 1 << 20, ours: "weft", inGo: goPeers},
	{what: "message of 8 B, shared memory", name: "msg/PingPong", size: 8, ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "message of 1 MiB, shared memory", name: "msg/PingPong", size: 1 << 20, ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "message of 8 B, TCP", name: "msg/PingPong", size: 8, ranks: 2, ours: "weft-tcp", others: tcpPeers},
	{what: "message of 1 MiB, TCP", name: "msg/PingPong", size: 1 << 20, ranks: 2, ours: "weft-tcp", others: tcpPeers},
	{what: "one of 64 messages of 8 B, shared memory", name: "msg/Uniband", size: 8, ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "barrier, shared memory", name: "msg/Barrier", ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "allreduce of 8 B, shared memory", name: "msg/Allreduce", size: 8, ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "allreduce of 1 MiB, shared memory", name: "msg/Allreduce", size: 1 << 20, ranks: 2, ours: "weft-shm", others: shmPeers},
	{what: "heat, tasks, 1 rank (rate)", name: "heat/itampi", ranks: 1, ours: "weft", inGo: []string{"sequential"}, rate: true},
}

// WriteTable writes the main figures as a Markdown table. They are those of the greatest number of
// workers in the rows of weft. A workload without a row of weft is left out. The error wraps
// [ErrMissing] if every workload is left out.
func WriteTable(w io.Writer, rows Rows) error {
	var b strings.Builder
	b.WriteString("| what | weft | strongest in Go | ratio | strongest other | ratio |\n|---|---|---|---:|---|---:|\n")
	n := 0
	for _, c := range comparisons {
		these, _ := rows.having(func(r *harness.Row) bool {
			return r.Name == c.name && (c.size == 0 || r.Size == c.size) && (c.ranks == 0 || r.Ranks == c.ranks)
		}).withWorkers(c.ours)
		ours, ok := these.of(c.name, c.ours).first()
		if !ok {
			continue
		}
		n++
		unit, scale := unitOf(&ours)
		fmt.Fprintf(&b, "| %s | %s %s |", c.what, spread(ours.Median/scale, ours.Min/scale, ours.Max/scale), unit)
		for _, peers := range [][]string{c.inGo, c.others} {
			best, ok := c.strongest(these, peers)
			if !ok {
				b.WriteString(" – | – |")
				continue
			}
			fmt.Fprintf(&b, " %s %s | %s |", best.Peer, spread(best.Median/scale, best.Min/scale, best.Max/scale),
				spread(ours.Median/best.Median, ours.Min/best.Max, ours.Max/best.Min))
		}
		b.WriteByte('\n')
	}
	if n == 0 {
		return fmt.Errorf("table of the main figures: %w: it needs at least one of %s", ErrMissing, strings.Join(mainNames(), ", "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// strongest returns the row of the best of some peers.
func (c *comparison) strongest(rows Rows, peers []string) (best harness.Row, ok bool) {
	for _, r := range rows {
		if slices.Contains(peers, r.Peer) && r.Min > 0 && (!ok || r.Median != best.Median && (r.Median < best.Median) != c.rate) {
			best, ok = r, true
		}
	}
	return best, ok
}

// unitOf returns the unit of a row in the table, and the divisor of its figures.
func unitOf(r *harness.Row) (unit string, scale float64) {
	switch {
	case r.Unit == "us":
		return "µs", 1
	case r.Unit == "ns" && r.Median >= 1000:
		return "µs", 1000
	}
	return r.Unit, 1
}

func mainNames() (list []string) {
	for _, c := range comparisons {
		if !slices.Contains(list, c.name) {
			list = append(list, c.name)
		}
	}
	return list
}

// spread prints a figure with its range, if it has one.
func spread(mid, low, high float64) string {
	if low == high {
		return digits(mid)
	}
	return fmt.Sprintf("%s (%s–%s)", digits(mid), digits(low), digits(high))
}

// digits prints two or three digits, and never an exponent.
func digits(v float64) string {
	decimals := 2
	switch {
	case v >= 100:
		decimals = 0
	case v >= 10:
		decimals = 1
	case v < 0.1:
		decimals = 3
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}
