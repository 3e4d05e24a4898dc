// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"weft/bench/internal/harness"
	"weft/bench/internal/imb"
)

// messagePeers returns the peers of message benchmarks in the order of legends, weft first.
func messagePeers() (list []string) {
	for _, p := range imb.Peers() {
		list = append(list, p.Name)
	}
	return list
}

const markNotes = "A mark is the median of the rounds; its whisker reaches from the least to the greatest."

// sized returns the rows of a message benchmark with more than 0 bytes and with the least number of
// ranks in the rows of weft, and that number.
func sized(rows Rows, bench string) (Rows, int) {
	rows = rows.named("msg/" + bench).having(func(r *harness.Row) bool { return r.Size > 0 && r.Min > 0 && slices.Contains(messagePeers(), r.Peer) })
	ranks := 0
	for i := range rows {
		if r := &rows[i]; strings.HasPrefix(r.Peer, harness.Ours+"-") && (ranks == 0 || r.Ranks < ranks) {
			ranks = r.Ranks
		}
	}
	return rows.having(func(r *harness.Row) bool { return r.Ranks == ranks }), ranks
}

// curves adds a curve for each peer to a panel, and returns the curves. Value converts a row's time
// in microseconds to the figure of the panel.
func curves(p *plot.Plot, rows Rows, sizes byteSizes, value func(r *harness.Row, us float64) float64) (list []*curve) {
	p.Add(grid{across: true, up: true})
	for _, peer := range messagePeers() {
		var points []point
		for _, r := range rows.having(func(r *harness.Row) bool { return r.Peer == peer }) {
			low, high := value(&r, r.Min), value(&r, r.Max)
			q := point{float64(r.Size), value(&r, r.Median), min(low, high), max(low, high)}
			points = append(points, q.logX().logY())
		}
		if len(points) > 0 {
			k := newCurve(appearanceOf(peer), points)
			p.Add(k)
			list = append(list, k)
		}
	}
	logarithmic(&p.X, sizes)
	logarithmic(&p.Y, decades{})
	return list
}

func micros(_ *harness.Row, us float64) float64 { return us }

// megabytes returns the bandwidth if a message takes us microseconds.
func megabytes(r *harness.Row, us float64) float64 { return float64(r.Size) / us }

func latency(rows Rows) *sheet {
	return oneBenchmark(rows, "PingPong", "Time of a message: half of a ping-pong, %s", "time (µs), less is better", micros)
}

func bandwidth(rows Rows) *sheet {
	return oneBenchmark(rows, "Uniband", "Bandwidth with 64 messages under way, %s", "bandwidth (10⁶ bytes/s), more is better", megabytes)
}

func oneBenchmark(rows Rows, bench, title, y string, value func(r *harness.Row, us float64) float64) *sheet {
	rows, ranks := sized(rows, bench)
	if ranks == 0 {
		return nil
	}
	p := newPanel(fmt.Sprintf(title, count(ranks, "rank")), "size of the message", y)
	s := newSheet(markNotes, p)
	for _, k := range curves(p, rows, byteSizes{8}, value) {
		s.legend.Add(k.label, k)
	}
	return s
}

// collectives draws Bcast and Allreduce side by side.
func collectives(rows Rows) *sheet {
	s := newSheet(markNotes)
	var known []string // in the legend
	for _, bench := range []string{"Bcast", "Allreduce"} {
		rows, ranks := sized(rows, bench)
		if ranks == 0 {
			continue
		}
		p := newPanel(fmt.Sprintf("%s, %s", bench, count(ranks, "rank")), "size of the data of a rank", "time (µs), less is better")
		for _, k := range curves(p, rows, byteSizes{64}, micros) {
			if !slices.Contains(known, k.label) {
				known = append(known, k.label)
				s.legend.Add(k.label, k)
			}
		}
		s.panels = append(s.panels, p)
	}
	if len(s.panels) == 0 {
		return nil
	}
	return s
}
