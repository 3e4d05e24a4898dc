// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"weft/bench/internal/watching"
)

const watchingName = "watching"

const watchingUsage = `usage: go run ./bench watching [options]

Measures what it costs to observe the tasks of task/blocks, which do no work: statistics, a sampled profile, and a timeline, each compared
with a program that observes nothing; and that program compared with a program that is built without the probe of tasks. Each is a process
of its own. In a round each runs once, in random order, and a ratio is of two processes in one round. The interval contains the true median
in nineteen of twenty cases. The command needs the go command and weft's source.

`

// watch runs the command watching.
func watch(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	fs := flag.NewFlagSet(watchingName, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		_, _ = fmt.Fprint(stderr, watchingUsage)
		fs.PrintDefaults()
	}
	o := watching.Options{Args: func(way string, d time.Duration) []string {
		return []string{watchingName, "-time", d.String(), "-way", way}
	}}
	fs.IntVar(&o.Pairs, "pairs", 20, "`N` rounds, each with one of every pair")
	fs.DurationVar(&o.Time, "time", 300*time.Millisecond, "each process measures for this `DURATION`")
	way := fs.String("way", "", "measure only this `WAY`, in this process, and write the result as JSON")
	if err := fs.Parse(args); err != nil {
		return exitUsage, err
	}
	if fs.NArg() > 0 || o.Pairs < 1 || o.Time <= 0 {
		return exitUsage, fmt.Errorf("%s: -pairs is %d, -time %v, and there are arguments %q; legal are positive numbers and times, and no arguments", watchingName, o.Pairs, o.Time, fs.Args())
	}
	if *way != "" {
		return watchOne(ctx, *way, o.Time, stdout)
	}
	p, err := watching.Build(ctx)
	if err != nil {
		return exitFailed, err
	}
	defer func() { _ = p.Close() }()
	_, _ = fmt.Fprintf(stdout, "%s; medians of %d, workers = GOMAXPROCS\n\n", machine(), o.Pairs)
	rounds, err := p.Measure(ctx, o, func(n int) { _, _ = fmt.Fprintf(stderr, "\r%d of %d rounds", n, o.Pairs) })
	_, _ = fmt.Fprintln(stderr)
	if err != nil {
		return exitFailed, err
	}
	return exitOK, watching.Write(stdout, watching.Rows(rounds))
}

// watchOne measures a way in this process.
func watchOne(ctx context.Context, name string, d time.Duration, stdout io.Writer) (int, error) {
	ways := watching.Ways()
	i := slices.IndexFunc(ways, func(w watching.Way) bool { return w.Name == name })
	if i < 0 {
		var names []string
		for _, w := range ways {
			names = append(names, w.Name)
		}
		return exitUsage, fmt.Errorf("%s: -way is %q; legal are %q", watchingName, name, names)
	}
	r, err := ways[i].Measure(ctx, d)
	if err != nil {
		return exitFailed, err
	}
	return exitOK, json.NewEncoder(stdout).Encode(r)
}
