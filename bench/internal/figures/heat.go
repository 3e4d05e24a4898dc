// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"cmp"
	"fmt"
	"slices"

	"weft/bench/internal/harness"
)

// heatLoads are the variants of the plot of heat, without heat/, with their colours.
var heatLoads = []struct {
	name string
	appearance
}{
	{"mpi", appearance{label: "mpi: a sweep per rank", color: sky}},
	{"itampi", appearance{label: "itampi: tasks, messages", color: blue}},
	{"tampirma", appearance{label: "tampirma: tasks, puts", color: pink}},
}

// heat draws the rate of the variants, grouped by ranks and workers, beside the plain loop.
func heat(rows Rows) *sheet {
	type shape struct{ ranks, workers int }
	var shapes []shape
	for _, load := range heatLoads {
		for _, r := range rows.of("heat/"+load.name, harness.Ours) {
			if q := (shape{r.Ranks, r.Workers}); !slices.Contains(shapes, q) {
				shapes = append(shapes, q)
			}
		}
	}
	if len(shapes) == 0 {
		return nil
	}
	slices.SortFunc(shapes, func(a, b shape) int { return cmp.Or(a.ranks-b.ranks, a.workers-b.workers) })
	bars := &grouped{groups: len(shapes)}
	plain := series{appearance: appearanceOf("sequential"), rows: map[int]harness.Row{}}
	var size int64
	for _, load := range heatLoads {
		s := series{appearance: load.appearance, rows: map[int]harness.Row{}}
		for i, q := range shapes {
			same := func(r *harness.Row) bool { return r.Ranks == q.ranks && r.Workers == q.workers }
			if r, ok := rows.of("heat/"+load.name, harness.Ours).having(same).first(); ok {
				s.rows[i], size = r, r.Size
			}
			if r, ok := rows.of("heat/"+load.name, "sequential").having(same).first(); ok && plain.rows[i].Runs == 0 {
				plain.rows[i] = r
			}
		}
		bars.all = append(bars.all, s)
	}
	bars.all = append([]series{plain}, bars.all...)
	var labels []string
	for _, q := range shapes {
		labels = append(labels, count(q.ranks, "rank")+", "+count(q.workers, "worker"))
	}
	return barSheet(fmt.Sprintf("Heat example, matrix of %d × %d", size, size), "rate (million cell updates/s), more is better", labels, bars)
}
