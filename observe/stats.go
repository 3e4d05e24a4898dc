// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"weft/observe/internal/dist"
	"weft/observe/internal/graph"
)

// Stats has the statistics of the tasks that are over, by label.
type Stats struct {
	Watched time.Duration // since the observer began
	Labels  []LabelStats  // by run time, greatest first
	Notes   []string      // what is missing, a sentence each
}

// LabelStats has the statistics of the tasks with one label. The label of a task without one is the
// name of its body.
type LabelStats struct {
	Label string
	Site  string // where the first of them was spawned

	Tasks   int64 // that are over
	Failed  int64 // of these: the body returned an error, or panicked
	Skipped int64 // of these: the run had failed before they began

	// Deps is the time from the spawn until the accesses are satisfied. Ready is the time from
	// then, or from the end of a blocking wait, until the task has a slot. Run is the time in the
	// body on a slot, without other bodies that run on top while the task waits.
	Deps, Ready, Run Durations

	// Blocked is the time in the body without a slot, of the tasks that blocked. Comm is the time
	// from the end of the body until everything that is bound to the task is complete, such as
	// messages, of the tasks to which something was bound.
	Blocked, Comm Durations
}

// Durations is a distribution of durations. Quantiles are right within a sixteenth of their value.
type Durations struct {
	Count          int64
	Sum            time.Duration
	Min, Mean, Max time.Duration
	P50, P90, P99  time.Duration
}

func durations(d *dist.D) Durations {
	return Durations{
		Count: int64(d.N), Sum: d.Sum(), Min: d.Min(), Mean: d.Mean(), Max: d.Max(),
		P50: d.Quantile(0.5), P90: d.Quantile(0.9), P99: d.Quantile(0.99),
	}
}

// Stats returns the statistics of the tasks that are over now.
func (o *Observer) Stats() *Stats {
	o.flush()
	groups, watched, notes := o.collector.Groups()
	s := &Stats{Watched: watched, Notes: notes}
	for _, g := range groups {
		s.Labels = append(s.Labels, LabelStats{
			Label: g.Label, Site: g.Site, Tasks: g.Sum.Count, Failed: g.Failed, Skipped: g.Skipped,
			Deps: durations(&g.Deps), Ready: durations(&g.Ready), Run: durations(&g.Run), Blocked: durations(&g.Blocked), Comm: durations(&g.Bound),
		})
	}
	return s
}

// Label returns the statistics of a label; nil if no task with it is over.
func (s *Stats) Label(label string) *LabelStats {
	for i := range s.Labels {
		if s.Labels[i].Label == label {
			return &s.Labels[i]
		}
	}
	return nil
}

// String returns the table that WriteTo writes.
func (s *Stats) String() string {
	var b strings.Builder
	_, _ = s.WriteTo(&b)
	return b.String()
}

// WriteTo writes a table with a line for each label.
func (s *Stats) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 8, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "label\ttasks\trun\tmean\t50 %\t99 %\tmax\tdeps\tready\tblocked\tcomm\t")
	for i := range s.Labels {
		l := &s.Labels[i]
		_, _ = fmt.Fprintf(t, "%s\t%d\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t%v\t\n", inTable(l.Label), l.Tasks,
			graph.Round(l.Run.Sum), graph.Round(l.Run.Mean), graph.Round(l.Run.P50), graph.Round(l.Run.P99), graph.Round(l.Run.Max),
			perTask(&l.Deps, l.Tasks), perTask(&l.Ready, l.Tasks), perTask(&l.Blocked, l.Tasks), perTask(&l.Comm, l.Tasks))
	}
	_ = t.Flush() // a buffer has no errors
	_, _ = fmt.Fprintf(&b, "Over %v. run is the sum; mean to max are of run; deps to comm are means over all tasks of the label.\n", graph.Round(s.Watched))
	for _, l := range s.Labels {
		if l.Failed > 0 || l.Skipped > 0 {
			_, _ = fmt.Fprintf(&b, "%s: %d failed, %d skipped.\n", inTable(l.Label), l.Failed, l.Skipped)
		}
	}
	for _, n := range s.Notes {
		_, _ = fmt.Fprintln(&b, n)
	}
	return b.WriteTo(w)
}

// maxLetters is the greatest width of a label in the table.
const maxLetters = 60

// inTable makes a label fit into one line of the table: it quotes a label with invisible characters
// or line breaks, and leaves out the middle of a long one.
func inTable(label string) string {
	if strings.ContainsFunc(label, func(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }) || strings.TrimSpace(label) != label {
		label = strconv.Quote(label)
	}
	if r := []rune(label); len(r) > maxLetters {
		label = string(r[:maxLetters/2]) + "…" + string(r[len(r)-maxLetters/2+1:])
	}
	return label
}

func perTask(d *Durations, tasks int64) string {
	if d.Count == 0 || tasks == 0 {
		return "-"
	}
	return graph.Round(d.Sum / time.Duration(tasks)).String()
}
