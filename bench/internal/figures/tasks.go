// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot"

	"weft/bench/internal/harness"
)

const barNotes = "A bar is the median of the samples; its whisker reaches from the least to the greatest."

// taskLoads are the workloads of the plot of tasks, without task/, in the order of its groups.
var taskLoads = []string{"independent", "chain", "chains64", "readers", "blocks", "forkjoin"}

// tasks draws what a task costs in each workload. The peers in Go are one series: goroutines where
// tasks have no accesses, channels elsewhere.
func tasks(rows Rows) *sheet {
	var names []string
	for _, load := range taskLoads {
		names = append(names, "task/"+load)
	}
	rows, workers := rows.named(names...).withWorkers(harness.Ours)
	if workers == 0 {
		return nil
	}
	bars := &grouped{}
	peers := [][]string{{harness.Ours}, {"goroutines", "channels"}, {"libgomp"}, {"libomp"}, {"tbb"}}
	for _, same := range peers {
		s := series{appearance: appearanceOf(same[0]), rows: map[int]harness.Row{}}
		if len(same) > 1 {
			s.label = strings.Join(same, ", ")
		}
		bars.all = append(bars.all, s)
	}
	var labels []string
	for i, name := range names {
		if len(rows.of(name, harness.Ours)) == 0 {
			continue
		}
		for k, same := range peers {
			for _, peer := range same {
				if r, ok := rows.of(name, peer).first(); ok {
					bars.all[k].rows[bars.groups] = r
				}
			}
		}
		labels = append(labels, taskLoads[i])
		bars.groups++
	}
	return barSheet(fmt.Sprintf("Cost of a task that does no work, %s", count(workers, "worker")), "time per task (ns), less is better", labels, bars)
}

// barSheet returns a sheet with one panel of bars from zero on. Series without a bar are left out.
func barSheet(title, y string, labels []string, bars *grouped) *sheet {
	var shown []series
	for _, s := range bars.all {
		if len(s.rows) > 0 {
			shown = append(shown, s)
		}
	}
	bars.all = shown
	p := newPanel(title, "", y)
	p.Add(grid{across: true}, bars)
	p.Y.Min, p.Y.Max, p.Y.Tick.Marker = 0, 1.03*p.Y.Max, wholes{}
	p.NominalX(labels...)
	p.X.Padding = 4
	p.X.Min, p.X.Max = -0.5, float64(bars.groups)-0.5
	s := newSheet(barNotes, p)
	for i := range bars.all {
		s.legend.Add(bars.all[i].label, &bars.all[i])
	}
	return s
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

const efficiencySuffix = "/efficiency"

// efficiency draws the part of the peak that each system reaches, by the granularity of tasks. It
// takes the first pattern of the rows.
func efficiency(rows Rows) *sheet {
	rows, workers := rows.having(func(r *harness.Row) bool { return strings.HasSuffix(r.Name, efficiencySuffix) }).withWorkers(harness.Ours)
	ours := rows.having(func(r *harness.Row) bool { return r.Peer == harness.Ours })
	if len(ours) == 0 {
		return nil
	}
	pattern := strings.TrimSuffix(strings.TrimPrefix(ours[0].Name, "metg/"), efficiencySuffix)
	p := newPanel(fmt.Sprintf("Efficiency by granularity: %s, %s", pattern, count(workers, "worker")),
		"granularity: workers × time / tasks (µs)", "efficiency (% of the peak)")
	p.Add(grid{across: true, up: true})
	s := newSheet("METG is the granularity at 50 %, the dashed line: further left is better. One search for each system, the one with the median METG.", p)
	for _, peer := range rows.peers() {
		var points []point
		for _, r := range rows.of(ours[0].Name, peer) {
			points = append(points, point{float64(r.Size) / 1e3, r.Median, r.Median, r.Median}.logX())
		}
		k := newCurve(appearanceOf(peer), points)
		p.Add(k)
		s.legend.Add(k.label, k)
	}
	logarithmic(&p.X, decades{})
	p.Add(level(50))
	p.Y.Min, p.Y.Max = 0, 105
	p.Y.Tick.Marker = percents
	return s
}

var percents = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"}}
