// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/schollz/progressbar/v3"

	"weft/bench/internal/harness"
)

// list prints what -list shows.
func list(w io.Writer, loads []harness.Workload) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "name\tunit\tsizes\tranks\tpeers\twhat it is")
	for _, l := range loads {
		peers := make([]string, len(l.Peers))
		for i, p := range l.Peers {
			peers[i] = p.Name
			if p.Extra {
				peers[i] += " (-peers)"
			}
		}
		ranks := l.Ranks
		if ranks == nil {
			ranks = []int{1}
		}
		fmt.Fprintf(tw, "%s\t%s\t%s %s\t%s\t%s\t%s\n", l.Name, l.Unit, join(l.Sizes), l.SizeOf, join(ranks), strings.Join(peers, ", "), l.About)
	}
	_ = tw.Flush()
}

func join[T any](list []T) string {
	return strings.Trim(fmt.Sprint(list), "[]")
}

// observe returns an observer that prints each complete group to table and shows the progress on
// stderr: a progress bar if stderr is a terminal, else a line for each row.
func observe(plan *harness.Plan, table, stderr io.Writer) harness.Observer {
	t := harness.NewTable(table, plan)
	say := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	group := func(rows []harness.Row, load harness.Workload) { _ = t.Group(rows, load) }
	said := map[string]bool{}
	obs := harness.Observer{
		Skipped: func(r harness.Row, why error) {
			if line := fmt.Sprintf("bench: peer %s: %v", r.Peer, why); !said[line] {
				// a missing compiler is missing for every workload
				said[line] = true
				say("%s", line)
			}
		},
		Failed: func(r harness.Row, why error) {
			text := why.Error()
			if said[text] { // a program that cannot be built fails every row alike
				text = "as above"
			}
			said[why.Error()] = true
			say("bench: %s, peer %s, size %d, ranks %d, workers %d: %s", r.Name, r.Peer, r.Size, r.Ranks, r.Workers, text)
		},
		Group: group,
	}

	if !isTerminal(stderr) {
		done, all := 0, plan.Rows()
		obs.Group = func(rows []harness.Row, load harness.Workload) {
			for _, r := range rows {
				done++
				say("bench: row %d of %d: %s %s, size %d, ranks %d, workers %d: %.4g %s", done, all, r.Name, r.Peer, r.Size, r.Ranks, r.Workers, r.Median, r.Unit)
			}
			group(rows, load)
		}
		return obs
	}

	bar := progressbar.NewOptions(plan.Samples(),
		progressbar.OptionSetWriter(stderr), progressbar.OptionSetWidth(24), progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(), progressbar.OptionSetPredictTime(true))
	obs.Sampling = func(r harness.Row, _ int) {
		bar.Describe(fmt.Sprintf("%s %s", r.Name, r.Peer))
		_ = bar.Add(1)
	}
	clearing := func(f func()) {
		_ = bar.Clear()
		f()
	}
	skipped, failed := obs.Skipped, obs.Failed
	obs.Skipped = func(r harness.Row, why error) { clearing(func() { skipped(r, why) }) }
	obs.Failed = func(r harness.Row, why error) { clearing(func() { failed(r, why) }) }
	obs.Group = func(rows []harness.Row, load harness.Workload) { clearing(func() { group(rows, load) }) }
	return obs
}
