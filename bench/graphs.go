// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"weft/bench/internal/harness"
	"weft/bench/internal/taskbench"
)

const aboutGraphs = `A graph has -steps rows of -width tasks. The task (step, point) depends on points of the row before, as -type says, checks that
its inputs are exactly their outputs, and makes iterations of the -kernel. A wrong or missing dependence is a wrong answer: the row
is FAILED and the exit status 1. The creation of the tasks is part of the time.

`

const taskbenchUsage = `usage: go run ./bench taskbench [options]

Runs one graph of Task Bench on weft and its peers with -iter iterations in each task, and prints the time per task, tasks
per second and the efficiency: the rate of iterations over the peak, the rate of the same kernel without a graph.

` + aboutGraphs

const metgUsage = `usage: go run ./bench metg [options]

Finds the minimum effective task granularity, METG(50 %), of weft and its peers: the smallest workers × time / tasks at which
the rate of iterations is still half of the peak, the rate of the same kernel without a graph. Each sample is a whole
search: double or halve the iterations until the efficiency is lost, then bisect.

` + aboutGraphs

// graphOptions is the command line of a command that runs graphs.
type graphOptions struct {
	measuring
	taskbench.Experiment
	patterns []taskbench.Pattern
	sweeps   bool
}

func parseGraphs(c *command, args, rest []string, stderr io.Writer) (*graphOptions, error) {
	o := &graphOptions{measuring: measuring{args: args}}
	fs := flag.NewFlagSet("bench "+c.name, flag.ContinueOnError)
	var types, kernel, reference string
	o.declare(fs)
	fs.StringVar(&types, "type", string(taskbench.Stencil1D), "comma-separated `LIST` of patterns, or all: "+join2(taskbench.Patterns()))
	fs.IntVar(&o.Width, "width", 16, "points of a step: `N`")
	fs.IntVar(&o.Steps, "steps", 1000, "rows of tasks: `N`")
	fs.IntVar(&o.Radix, "radix", 0, "nearest, spread, random_nearest: dependences of a task: `N`, 0 for the default, 3")
	fs.IntVar(&o.Period, "period", 0, "spread, random_nearest: `N` sets of dependences that take turns, 0 for the default, 3")
	fs.Float64Var(&o.Fraction, "fraction", 0, "random_nearest: share `F` of the nearest points, 0 for the default, 0.25")
	fs.StringVar(&kernel, "kernel", string(taskbench.Compute), "`NAME` of what tasks do: "+join2(taskbench.Kinds()))
	fs.Float64Var(&o.Imbalance, "imbalance", 0, "imbalanced: iterations vary by this part `F` of them, 0 for the default, 1")
	fs.IntVar(&o.Scratch, "scratch", 0, "memory: `BYTES` of memory per output, 0 for the default, 256 KiB")
	fs.StringVar(&reference, "peak", string(taskbench.OwnPeak), "`PEAK` that efficiencies are relative to: "+join2(taskbench.References())+" (of all systems that are measured)")
	c.declare(fs, o)
	if err := parse(fs, rest, c.usage, stderr); err != nil {
		return nil, err
	}
	var errs []error
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: there are only options (-h lists them)", fs.Arg(0)))
	}
	errs = append(errs, o.check())
	var err error
	if o.patterns, err = taskbench.ParsePatterns(types); err != nil {
		errs = append(errs, fmt.Errorf("-type: %w", err))
	}
	if o.Kind, err = taskbench.ParseKind(kernel); err != nil {
		errs = append(errs, fmt.Errorf("-kernel: %w", err))
	}
	o.Reference = taskbench.Reference(reference)
	return o, errors.Join(errs...)
}

func join2[T ~string](list []T) string { return strings.ReplaceAll(join(list), " ", ", ") }

// graphs runs a command. It returns exitUsage with an error that it finds before it measures.
func graphs(ctx context.Context, b *builtin, c *command, args, rest []string, stdout, stderr io.Writer) (int, error) {
	o, err := parseGraphs(c, args, rest, stderr)
	if err != nil {
		return exitUsage, err
	}
	rec := &record{quiet: isTerminal(stderr), stderr: stderr}
	o.Report = rec.add
	var loads []harness.Workload
	for _, p := range o.patterns {
		o.Pattern = p
		w, err := c.workload(b, o.Experiment)
		if err != nil {
			return exitUsage, err
		}
		loads = append(loads, w)
	}
	if err := o.checkPeers(loads); err != nil {
		return exitUsage, err
	}
	return measure(ctx, &o.measuring, o.config(), b, loads, c.report(rec, o.sweeps), stdout, stderr)
}
