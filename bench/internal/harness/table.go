// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// A Table prints each complete group, in columns whose widths suit the whole plan.
type Table struct {
	w       io.Writer
	name    int // column widths
	peer    int
	unit    int
	size    int
	started bool
}

// NewTable returns a table whose columns are wide enough for every row of the plan.
func NewTable(w io.Writer, plan *Plan) *Table {
	t := &Table{w: w, name: len("name"), peer: len("peer"), unit: len("unit"), size: len("size")}
	for _, r := range plan.Outline() {
		t.name = max(t.name, len(r.Name))
		t.peer = max(t.peer, len(r.Peer))
		t.unit = max(t.unit, len(r.Unit))
		t.size = max(t.size, len(strconv.FormatInt(r.Size, 10)))
	}
	return t
}

// Group prints the rows of one group, preceded by the heading when it is the first.
func (t *Table) Group(rows []Row, load Workload) error {
	var b strings.Builder
	if !t.started {
		t.started = true
		fmt.Fprintf(&b, "%-*s  %*s  %5s  %7s  %-*s  %10s  %10s  %10s  %4s  %-*s  %9s  %s\n", t.name, "name", t.size, "size",
			"ranks", "workers", t.peer, "peer", "median", "min", "max", "runs", t.unit, "unit", "weft/peer", "ok")
	} else {
		b.WriteByte('\n')
	}
	for _, r := range rows {
		ok := "ok"
		if !r.OK {
			ok = "FAILED"
		}
		fmt.Fprintf(&b, "%-*s  %*d  %5d  %7d  %-*s  %10s  %10s  %10s  %4d  %-*s  %9s  %s\n", t.name, r.Name, t.size, r.Size,
			r.Ranks, r.Workers, t.peer, r.Peer, r.number(r.Median), r.number(r.Min), r.number(r.Max), r.Runs, t.unit, r.Unit,
			ratio(oursIn(rows, r), r), ok)
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

// ratio returns weft's median over the peer's. Below one it means less time, or for a rate, less
// work.
func ratio(ours float64, r Row) string {
	if r.Peer == Ours || r.Runs == 0 || math.IsNaN(ours) || r.Median == 0 {
		return "-"
	}
	return strconv.FormatFloat(ours/r.Median, 'f', 3, 64)
}

// number prints one of the row's statistics, or - if the row has no samples.
func (r *Row) number(v float64) string {
	if r.Runs == 0 {
		return "-"
	}
	return number(v)
}

// number prints about four significant digits, and never an exponent.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}
