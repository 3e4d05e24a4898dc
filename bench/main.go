// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"weft/bench/internal/cpuprof"
	"weft/bench/internal/harness"
	"weft/bench/internal/msg"
	"weft/bench/internal/tasks"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // a check failed, a peer failed, or the run was interrupted
	exitUsage  = 2
)

//go:embed peers/libgomp.c
var libgompSource string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once
	os.Exit(bench(ctx, os.Args[1:], nil, os.Stdout, os.Stderr))
}

// bench is the program. Workloads in extra are measured after the built-in ones; tests plant theirs here.
func bench(ctx context.Context, args []string, extra []harness.Workload, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}

	loads, closeLoads := workloads()
	defer closeLoads()
	loads = append(loads, extra...)
	if err := opts.checkAgainst(loads); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		return exitUsage
	}
	if opts.list {
		list(stdout, loads)
		return exitOK
	}

	status, err := measure(ctx, opts, loads, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
	}
	return status
}

// workloads returns the built-in workloads, and a function that removes what they have built.
func workloads() ([]harness.Workload, func()) {
	gomp := tasks.NewLibgomp(libgompSource)
	loads := slices.Concat(tasks.Workloads(gomp), msg.Workloads())
	return loads, func() { _ = gomp.Close() }
}

func measure(ctx context.Context, opts *options, loads []harness.Workload, stdout, stderr io.Writer) (int, error) {
	cfg := opts.config()
	var prof *cpuprof.Collector
	if opts.cpuProfile != "" || opts.top > 0 {
		prof = new(cpuprof.Collector)
		cfg.Sampled = func(peer string, sample func()) {
			if peer == harness.Ours {
				prof.Around(sample)
			} else {
				sample()
			}
		}
	}
	plan := harness.NewPlan(loads, cfg)
	tableTo := stdout
	if opts.json == "-" {
		tableTo = stderr
	}
	fmt.Fprintf(tableTo, "%s; medians of %d, workers = GOMAXPROCS\n\n", machine(), cfg.Reps)
	rep, runErr := plan.Run(ctx, observe(plan, tableTo, stderr))

	status := exitOK
	if rep.Failed || runErr != nil {
		status = exitFailed
	}
	var errs []error
	if runErr != nil {
		errs = append(errs, fmt.Errorf("stopped early: %w", runErr))
	}
	if opts.json != "" {
		errs = append(errs, writeJSON(opts.json, stdout, rep.Rows))
	}
	if opts.markdown != "" {
		errs = append(errs, writeFile(opts.markdown, func(w io.Writer) error {
			fmt.Fprintf(w, "%s; `go run ./bench %s`\n\n", machine(), strings.Join(opts.args, " "))
			return harness.WriteMarkdown(w, rep.Rows)
		}))
	}
	if prof != nil {
		errs = append(errs, writeProfile(prof, opts, stdout))
	}
	err := errors.Join(errs...)
	if err != nil {
		status = exitFailed
	}
	return status, err
}

func writeJSON(name string, stdout io.Writer, rows []harness.Row) error {
	if name == "-" {
		return harness.WriteJSON(stdout, rows)
	}
	return writeFile(name, func(w io.Writer) error { return harness.WriteJSON(w, rows) })
}

func writeProfile(c *cpuprof.Collector, opts *options, stdout io.Writer) error {
	p, err := c.Profile()
	if errors.Is(err, cpuprof.ErrEmpty) {
		return errors.New("no CPU samples of weft: run longer (-reps, -mintime), and let weft be among the peers (-only)")
	}
	if err != nil {
		return err
	}
	if opts.cpuProfile != "" {
		if err := writeFile(opts.cpuProfile, p.Write); err != nil {
			return err
		}
	}
	if opts.top > 0 {
		fmt.Fprintln(stdout)
		return cpuprof.Top(stdout, p, opts.top)
	}
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
