// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import "fmt"

// A Plot is a picture that answers one question.
type Plot struct {
	Name  string                 // of its file, without .svg
	Shows string                 // what it shows, in a line
	Needs string                 // the rows that it is made of, and the command that measures them
	draw  func(rows Rows) *sheet // nil: rows are missing
}

// Plots returns all plots.
func Plots() []Plot {
	return []Plot{
		{"tasks", "what a task costs, by workload, beside its peers",
			"task/independent, chain, chains64, readers, blocks or forkjoin, of peer weft; bench -run '^task/' -peers", tasks},
		{"efficiency", "how small tasks may be: efficiency by granularity",
			"metg/PATTERN/efficiency, of peer weft; bench metg -sweeps -peers", efficiency},
		{"latency", "what a message takes, by size and fabric",
			"msg/PingPong, of a peer weft-…, of more than 0 bytes; bench imb -fabric inproc,shm,tcp -peers PingPong", latency},
		{"bandwidth", "how many bytes a second 64 messages under way move, by size and fabric",
			"msg/Uniband, of a peer weft-…, of more than 0 bytes; bench imb -fabric inproc,shm,tcp -peers Uniband", bandwidth},
		{"collectives", "what a broadcast and a sum over all ranks take, by size and fabric",
			"msg/Bcast or msg/Allreduce, of a peer weft-…, of more than 0 bytes; bench imb -fabric inproc,shm,tcp -peers Bcast Allreduce", collectives},
		{"heat", "the rate of the heat example, by variant, ranks and workers",
			"heat/mpi, itampi or tampirma, of peer weft; bench -run '^heat/'", heat},
	}
}

// SVG draws the plot of the rows, with a line below it that names the machine and the commit. The
// line may be empty. The error wraps [ErrMissing].
func (p *Plot) SVG(rows Rows, caption string) ([]byte, error) {
	s := p.draw(rows)
	if s == nil {
		return nil, fmt.Errorf("plot %s: %w: it needs %s", p.Name, ErrMissing, p.Needs)
	}
	s.caption = caption
	return s.svg(), nil
}
