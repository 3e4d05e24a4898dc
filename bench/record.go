// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"weft/bench/internal/harness"
	"weft/bench/internal/taskbench"
)

// A record holds the samples of graphs with their details, for the tables that follow the rows.
type record struct {
	quiet   bool // a progress bar is shown instead of lines
	stderr  io.Writer
	results []taskbench.Result
}

// add keeps a sample and reports it on stderr.
func (r *record) add(s taskbench.Result) {
	r.results = append(r.results, s)
	if r.quiet || s.Err != nil { // the observer reports errors
		return
	}
	what := fmt.Sprintf("%.4g ns/task", s.PerTask)
	if n := len(s.Sweep.Readings); n > 0 {
		what = fmt.Sprintf("METG %s, from %d grain sizes", atMost(&s.Sweep), n)
	}
	fmt.Fprintf(r.stderr, "bench: %s %s, workers %d: %s\n", s.Experiment, s.System, s.Workers, what)
}

func atMost(s *taskbench.Sweep) string {
	d := time.Duration(s.METG).String()
	if s.Bound {
		return "at most " + d
	}
	return d
}

// each calls f with the samples of each row, in the order of the table. It leaves out the first
// sample, the unrecorded one, if there are others. A group is measured from its last peer to its
// first, so each reverses the peers.
func (r *record) each(f func(samples []taskbench.Result)) {
	type group struct {
		name    string
		workers int
	}
	var groups []group
	systems := map[group][]string{}
	samples := map[group]map[string][]taskbench.Result{}
	for _, s := range r.results {
		g := group{s.Experiment, s.Workers}
		if samples[g] == nil {
			groups = append(groups, g)
			samples[g] = map[string][]taskbench.Result{}
		}
		if samples[g][s.System] == nil {
			systems[g] = append(systems[g], s.System)
		}
		samples[g][s.System] = append(samples[g][s.System], s)
	}
	for _, g := range groups {
		for _, sys := range slices.Backward(systems[g]) {
			row := samples[g][sys]
			f(row[min(1, len(row)-1):])
		}
	}
}

// runs writes the details of the command taskbench.
func (r *record) runs(w io.Writer, markdown bool) error {
	t := grid{heads: []string{"graph", "peer", "workers", "tasks", "tasks/s", "granularity", "efficiency", "inputs and outputs"}}
	r.each(func(samples []taskbench.Result) {
		s := samples[0]
		perTask := median(samples, func(s taskbench.Result) float64 { return s.PerTask })
		efficiency := "-"
		if e := median(samples, func(s taskbench.Result) float64 { return s.Efficiency }); e > 0 {
			efficiency = fmt.Sprintf("%.1f %%", 100*e)
		}
		checked := "as they should be"
		if i := slices.IndexFunc(samples, func(s taskbench.Result) bool { return s.Err != nil }); i >= 0 {
			checked = samples[i].Err.Error()
		}
		t.rows = append(t.rows, []string{
			s.Experiment, s.System, strconv.Itoa(s.Workers), strconv.FormatInt(s.Tasks, 10), fmt.Sprintf("%.4g", 1e9/perTask),
			time.Duration(perTask * float64(s.Workers)).String(), efficiency, checked,
		})
	})
	return t.write(w, markdown)
}

// sweeps writes the details of the command metg: every grain size of the last search of each row.
func (r *record) sweeps(w io.Writer, markdown bool) error {
	t := grid{heads: []string{"graph", "peer", "workers", "iterations", "granularity", "efficiency"}}
	r.each(func(samples []taskbench.Result) {
		s := samples[len(samples)-1]
		for _, g := range s.Sweep.Readings {
			t.rows = append(t.rows, []string{
				s.Experiment, s.System, strconv.Itoa(s.Workers), strconv.FormatInt(g.Iterations, 10),
				time.Duration(g.Granularity).String(), fmt.Sprintf("%.1f %%", 100*g.Efficiency),
			})
		}
	})
	return t.write(w, markdown)
}

// efficiencies returns a row for each grain size of a search: the efficiency in percent, with the
// granularity in nanoseconds as its size. The search is the one with the median METG.
func (r *record) efficiencies() (rows []harness.Row) {
	r.each(func(samples []taskbench.Result) {
		samples = slices.DeleteFunc(slices.Clone(samples), func(s taskbench.Result) bool { return s.Err != nil })
		if len(samples) == 0 {
			return
		}
		slices.SortStableFunc(samples, func(a, b taskbench.Result) int { return cmp.Compare(a.Sweep.METG, b.Sweep.METG) })
		s := samples[(len(samples)-1)/2]
		known := map[int64]bool{}
		for _, g := range s.Sweep.Readings {
			size := int64(math.Round(g.Granularity))
			if known[size] {
				continue // there is one row for each size
			}
			known[size] = true
			row := harness.Row{Name: s.Experiment + "/efficiency", Peer: s.System, Workers: s.Workers, Ranks: 1, Size: size, Unit: "%", OK: true}
			row.Summarize([]float64{100 * g.Efficiency})
			rows = append(rows, row)
		}
	})
	return rows
}

func median(samples []taskbench.Result, of func(taskbench.Result) float64) float64 {
	var list []float64
	for _, s := range samples {
		list = append(list, of(s))
	}
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

// A grid is a table of text.
type grid struct {
	heads []string
	rows  [][]string
}

func (g *grid) write(w io.Writer, markdown bool) error {
	fmt.Fprintln(w)
	if markdown {
		var b strings.Builder
		fmt.Fprintf(&b, "| %s |\n|%s\n", strings.Join(g.heads, " | "), strings.Repeat("---|", len(g.heads)))
		for _, r := range g.rows {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(r, " | "))
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{g.heads}, g.rows...) {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}

func isTerminal(w io.Writer) bool {
	f, isFile := w.(*os.File)
	return isFile && term.IsTerminal(int(f.Fd()))
}
