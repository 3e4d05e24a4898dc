// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"weft/bench/internal/harness"
	"weft/bench/internal/taskbench"
)

func main() {
	// SIGTERM as well: the built programs in the temporary directory must be removed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(bench(ctx, os.Args[1:], nil, os.Stdout, os.Stderr))
}

// bench is the program. It measures the workloads in extra after the built-in ones; tests pass
// theirs here.
func bench(ctx context.Context, args []string, extra []harness.Workload, stdout, stderr io.Writer) int {
	b := newBuiltin()
	defer b.close()
	status, err := exitUsage, error(nil)
	if len(args) > 0 && args[0] == imbName {
		status, err = messages(ctx, args[1:], stdout, stderr)
	} else if len(args) > 0 && args[0] == watchingName {
		status, err = watch(ctx, args[1:], stdout, stderr)
	} else if len(args) > 0 && args[0] == plotName {
		status, err = drawPlots(args[1:], stdout, stderr)
	} else if name, rest, ok := findCommand(args); ok {
		status, err = graphs(ctx, b, name, args, rest, stdout, stderr)
	} else {
		status, err = rows(ctx, b, args, extra, stdout, stderr)
	}
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
	}
	return status
}

// A command runs graphs of Task Bench.
type command struct {
	name     string
	usage    string
	declare  func(fs *flag.FlagSet, o *graphOptions)
	workload func(b *builtin, e taskbench.Experiment) (harness.Workload, error)
	report   func(rec *record, sweeps bool) details
}

var commands = []command{{
	name:  "taskbench",
	usage: taskbenchUsage,
	declare: func(fs *flag.FlagSet, o *graphOptions) {
		fs.Int64Var(&o.Iterations, "iter", 1000, "iterations of the kernel in each task: `N` of at least 0")
	},
	workload: func(b *builtin, e taskbench.Experiment) (harness.Workload, error) {
		return taskbench.Run(b.kit, e)
	},
	report: func(rec *record, _ bool) details { return details{write: rec.runs} },
}, {
	name:  "metg",
	usage: metgUsage,
	declare: func(fs *flag.FlagSet, o *graphOptions) {
		fs.DurationVar(&o.Grains.Start, "grain", taskbench.DefaultStart, "begin the search with tasks of about this `DURATION`")
		fs.DurationVar(&o.Grains.Limit, "maxgrain", taskbench.DefaultLimit, "give up when tasks of this `DURATION` are not efficient enough either")
		fs.BoolVar(&o.sweeps, "sweeps", false, "also print every grain size that was measured, and write rows metg/PATTERN/efficiency to the -json file: the efficiency in %, with the granularity in ns as their size")
	},
	workload: func(b *builtin, e taskbench.Experiment) (harness.Workload, error) {
		return taskbench.METG(b.kit, e)
	},
	report: func(rec *record, sweeps bool) details {
		if !sweeps {
			return details{}
		}
		return details{rec.sweeps, rec.efficiencies}
	},
}}

func commandNames() string {
	var names []string
	for _, c := range commands {
		names = append(names, c.name)
	}
	return strings.Join(append(names, imbName, watchingName, plotName), ", ")
}

// findCommand returns the command that the first argument names, and the other arguments.
func findCommand(args []string) (c *command, rest []string, ok bool) {
	if len(args) == 0 {
		return nil, args, false
	}
	i := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if i < 0 {
		return nil, args, false
	}
	return &commands[i], args[1:], true
}
