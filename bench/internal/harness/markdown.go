// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// WriteMarkdown writes the rows as one Markdown table, for a document.
func WriteMarkdown(w io.Writer, rows []Row) error {
	var b strings.Builder
	b.WriteString("| name | size | ranks | workers | peer | median | min to max | runs | unit | weft/peer | ok |\n")
	b.WriteString("|---|---:|---:|---:|---|---:|---:|---:|---|---:|---|\n")
	for _, r := range rows {
		ok := "ok"
		if !r.OK {
			ok = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %s | %s | %s to %s | %d | %s | %s | %s |\n", r.Name, r.Size, r.Ranks, r.Workers,
			r.Peer, r.number(r.Median), r.number(r.Min), r.number(r.Max), r.Runs, r.Unit, ratio(oursIn(rows, r), r), ok)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oursIn returns weft's median in the group of row r, or NaN.
func oursIn(rows []Row, r Row) float64 {
	for _, o := range rows {
		if o.Peer == Ours && o.Runs > 0 && o.Name == r.Name && o.Size == r.Size && o.Ranks == r.Ranks && o.Workers == r.Workers {
			return o.Median
		}
	}
	return math.NaN()
}
