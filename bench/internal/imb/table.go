// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// column is a column of a table: its heading, and the cell of a row.
type column struct {
	head string
	cell func(r *Row) string
}

func integer(f func(r *Row) int64) func(r *Row) string {
	return func(r *Row) string { return strconv.FormatInt(f(r), 10) }
}

func decimal(f func(r *Row) float64) func(r *Row) string {
	return func(r *Row) string { return strconv.FormatFloat(f(r), 'f', 2, 64) }
}

var (
	sizeColumn = column{"#bytes", integer(func(r *Row) int64 { return r.Size })}
	repsColumn = column{"#repetitions", integer(func(r *Row) int64 { return r.Reps })}
	rateColumn = column{"Mbytes/sec", decimal(func(r *Row) float64 { return r.Rate })}
	msgsColumn = column{"Msg/sec", integer(func(r *Row) int64 { return int64(r.Msgs) })}
	oneColumn  = column{"t[usec]", decimal(func(r *Row) float64 { return r.Max })}
	minColumn  = column{"t_min[usec]", decimal(func(r *Row) float64 { return r.Min })}
	maxColumn  = column{"t_max[usec]", decimal(func(r *Row) float64 { return r.Max })}
	avgColumn  = column{"t_avg[usec]", decimal(func(r *Row) float64 { return r.Avg })}
	overlaps   = []column{
		{"t_ovrl[usec]", decimal(func(r *Row) float64 { return r.Both })},
		{"t_pure[usec]", decimal(func(r *Row) float64 { return r.Pure })},
		{"t_CPU[usec]", decimal(func(r *Row) float64 { return r.CPU })},
		{"overlap[%]", decimal(func(r *Row) float64 { return r.Overlap })},
	}
)

func (b *benchmark) columns() []column {
	cols := []column{sizeColumn, repsColumn}
	if b.takes(0) && !b.takes(1) && !b.takes(4) { // the only size is 0
		cols = cols[1:]
	}
	switch b.kind {
	case single:
		cols = append(cols, oneColumn, rateColumn)
	case parallel:
		cols = append(cols, minColumn, maxColumn, avgColumn, rateColumn)
	case band:
		cols = append(cols, rateColumn, msgsColumn)
	case collect:
		cols = append(cols, minColumn, maxColumn, avgColumn)
	case overlap:
		cols = append(cols, overlaps...)
	case special:
		cols = append(cols, oneColumn)
	}
	return cols
}

const (
	columnWidth = 13
	line        = "#-----------------------------------------------------------------------------"
)

// A Table writes rows in the layout of the Intel MPI Benchmarks, with a heading where a benchmark,
// or the number of ranks, changes.
type Table struct {
	w     io.Writer
	bench string
	ranks int
}

// NewTable returns an empty table.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Row writes a row.
func (t *Table) Row(r Row) {
	b := find(r.Bench)
	cols := b.columns()
	if r.Bench != t.bench || r.Ranks != t.ranks {
		t.bench, t.ranks = r.Bench, r.Ranks
		fmt.Fprintf(t.w, "\n%s\n# Benchmarking %s\n# #processes = %d\n", line, r.Bench, r.Ranks)
		if idle := r.Ranks - 2; b.kind == single && idle > 0 {
			fmt.Fprintf(t.w, "# ( %d additional processes waiting in Barrier )\n", idle)
		}
		fmt.Fprintln(t.w, line)
		heads := make([]string, len(cols))
		for i, c := range cols {
			heads[i] = c.head
		}
		t.write(heads)
	}
	cells := make([]string, len(cols))
	for i, c := range cols {
		cells[i] = c.cell(&r)
	}
	t.write(cells)
	if r.Why != "" {
		fmt.Fprintf(t.w, "# FAILED: %s\n", r.Why)
	}
}

func (t *Table) write(cells []string) {
	var b strings.Builder
	for _, c := range cells {
		fmt.Fprintf(&b, "%*s", columnWidth, c)
	}
	fmt.Fprintln(t.w, b.String())
}
