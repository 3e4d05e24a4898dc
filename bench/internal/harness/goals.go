// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A Goal is a target for a ratio of medians: weft's with a number of workers over that of the best
// rival in the same run. It is for workloads where less is better.
type Goal struct {
	Workers      int     // weft's
	RivalWorkers int     // the rivals'
	Against      string  // the only rival that counts; empty means the best of all
	Ratio        float64 // weft's median over the rival's is to be at most this

	// Growth compares weft's median at the largest size with weft's least median at a smaller size,
	// and with no rival. With GrowthOf it compares the growth of weft's median with the growth of
	// that peer's: larger data cost every peer more.
	Growth   bool
	GrowthOf string
}

// An Outcome is the result of a run for one goal and one size.
type Outcome struct {
	Goal
	Name        string // of the workload
	Size        int64
	Unit        string
	Ours        float64 // weft's median
	Rival       string  // the best one
	RivalMedian float64
	Rivals      []string // all rivals that were measured
}

// Reached is weft's median over the rival's.
func (o *Outcome) Reached() float64 { return o.Ours / o.RivalMedian }

// Met reports whether the goal is met.
func (o *Outcome) Met() bool { return o.Reached() <= o.Ratio }

// Outcomes compares rows with the goals of their workloads. A goal for which a row is missing or
// was wrong has no outcome.
func Outcomes(rows []Row, loads []Workload) []Outcome {
	var out []Outcome
	for i := range loads {
		var sizes []int64
		for _, r := range rows {
			if r.Name == loads[i].Name && !slices.Contains(sizes, r.Size) {
				sizes = append(sizes, r.Size)
			}
		}
		for _, size := range sizes {
			for _, g := range loads[i].Goals {
				if g.Growth {
					continue
				}
				if o, ok := outcome(rows, &loads[i], size, g); ok {
					out = append(out, o)
				}
			}
		}
		for _, g := range loads[i].Goals {
			if !g.Growth {
				continue
			}
			if o, ok := growth(rows, &loads[i], g); ok {
				out = append(out, o)
			}
		}
	}
	return out
}

func outcome(rows []Row, load *Workload, size int64, g Goal) (Outcome, bool) {
	o := Outcome{Goal: g, Name: load.Name, Size: size, Unit: load.Unit}
	for _, r := range rows {
		if r.Name != load.Name || r.Size != size || !r.OK {
			continue
		}
		if r.Peer == Ours && r.Workers == g.Workers {
			o.Ours = r.Median
		}
		if r.Workers == g.RivalWorkers && load.isRival(r.Peer) && (g.Against == "" || g.Against == r.Peer) {
			o.Rivals = append(o.Rivals, r.Peer)
			if o.Rival == "" || r.Median < o.RivalMedian {
				o.Rival, o.RivalMedian = r.Peer, r.Median
			}
		}
	}
	return o, o.Ours > 0 && o.RivalMedian > 0
}

// growth is the outcome of a goal with Growth.
func growth(rows []Row, load *Workload, g Goal) (Outcome, bool) {
	g.RivalWorkers = g.Workers
	small, large, ok := extremes(rows, load.Name, Ours, g.Workers)
	o := Outcome{
		Goal: g, Name: load.Name, Unit: load.Unit, Size: large.Size, Ours: large.Median,
		Rival: fmt.Sprintf("%s at %d", Ours, small.Size), RivalMedian: small.Median, Rivals: []string{Ours},
	}
	if g.GrowthOf != "" && ok {
		o.Ours = large.Median - small.Median
		small, large, ok = extremes(rows, load.Name, g.GrowthOf, g.Workers)
		o.Rival, o.RivalMedian, o.Rivals = g.GrowthOf, large.Median-small.Median, []string{g.GrowthOf}
	}
	return o, ok && o.RivalMedian > 0
}

// extremes returns a peer's row of the largest size, and of the other rows the one with the least
// median.
func extremes(rows []Row, name, peer string, workers int) (small, large Row, ok bool) {
	var all []Row
	for _, r := range rows {
		if r.Name == name && r.Peer == peer && r.Workers == workers && r.OK {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b Row) int { return cmp.Compare(a.Size, b.Size) })
	if len(all) < 2 {
		return Row{}, Row{}, false
	}
	large = all[len(all)-1]
	return slices.MinFunc(all[:len(all)-1], func(a, b Row) int { return cmp.Compare(a.Median, b.Median) }), large, true
}

func (w *Workload) isRival(peer string) bool {
	return slices.ContainsFunc(w.Peers, func(p Peer) bool { return p.Rival && p.Name == peer })
}

var outcomeHeads = []string{"name", "size", "weft", "workers", "best rival", "workers", "of", "ratio", "goal", "met"}

// cells returns the cells of the outcome in a table.
func (o *Outcome) cells() []string {
	met := "yes"
	if !o.Met() {
		met = "NO"
	}
	more := ""
	if o.GrowthOf != "" {
		more = "+"
	}
	return []string{
		o.Name, strconv.FormatInt(o.Size, 10), more + number(o.Ours) + " " + o.Unit, strconv.Itoa(o.Workers),
		o.Rival + " " + more + number(o.RivalMedian), strconv.Itoa(o.RivalWorkers), strings.Join(o.Rivals, ", "),
		strconv.FormatFloat(o.Reached(), 'f', 3, 64), fmt.Sprintf("%g", o.Ratio), met,
	}
}

// WriteOutcomes writes the outcomes as a table for a terminal.
func WriteOutcomes(w io.Writer, outcomes []Outcome) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.Join(outcomeHeads, "\t"))
	for i := range outcomes {
		fmt.Fprintln(tw, strings.Join(outcomes[i].cells(), "\t"))
	}
	return tw.Flush()
}

// WriteOutcomesMarkdown writes the outcomes as a Markdown table, for a document.
func WriteOutcomesMarkdown(w io.Writer, outcomes []Outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n|---|---:|---:|---:|---:|---:|---|---:|---:|---|\n", strings.Join(outcomeHeads, " | "))
	for i := range outcomes {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(outcomes[i].cells(), " | "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
