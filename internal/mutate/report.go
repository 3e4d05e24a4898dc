// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// row counts verdicts.
type row struct {
	name        string
	by          map[string]int // number of killed mutants by verdict.By
	killed, all int
	left        int // invalid, or the same code
}

func (r *row) add(v *verdict) {
	if !v.counts() {
		r.left++
		return
	}
	r.all++
	if v.State == "killed" {
		r.killed++
		r.by[v.By]++
	}
}

func (r *row) print(w io.Writer) {
	score := "–"
	if r.all > 0 {
		score = fmt.Sprintf("%d %%", r.killed*100/r.all)
	}
	fmt.Fprintf(w, "| %s | %d | %d | %d | %d | %d | %d | %d | %s | %d |\n", r.name, r.all, r.by["tests"], r.by["explorations"],
		r.by["the race detector"], r.by["lint mode"], r.by["dependants"], r.all-r.killed, score, r.left)
}

// report prints the tables, and each surviving mutant.
func report(w io.Writer, seed uint64, verdicts []*verdict) {
	fmt.Fprintf(w, "Seed %d.\n", seed)
	for _, t := range []struct {
		title string
		by    func(*verdict) string
	}{{"package", func(v *verdict) string { return v.Package }}, {"operator", func(v *verdict) string { return v.Operator }}} {
		fmt.Fprintf(w, "\n| %s | mutants | killed by tests | by explorations | by races | in lint mode | by dependants | survived | score | not compiled, or the same |\n|---|---|---|---|---|---|---|---|---|---|\n", t.title)
		var rows []*row
		all := &row{name: "all", by: map[string]int{}}
		for _, v := range verdicts {
			i := slices.IndexFunc(rows, func(r *row) bool { return r.name == t.by(v) })
			if i < 0 {
				i = len(rows)
				rows = append(rows, &row{name: t.by(v), by: map[string]int{}})
			}
			rows[i].add(v)
			all.add(v)
		}
		for _, r := range append(rows, all) {
			r.print(w)
		}
	}
	for _, v := range verdicts {
		if v.State == "survived" {
			fmt.Fprintf(w, "\n%d. %s:%d, %s, run by %d tests of its package:\n\n    %s\n", v.Number, v.File, v.Line, v.Operator, v.Covered,
				strings.ReplaceAll(strings.TrimSuffix(v.Diff, "\n"), "\n", "\n    "))
		}
	}
}
