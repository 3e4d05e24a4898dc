// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"weft/bench/internal/cpuprof"
	"weft/bench/internal/harness"
	"weft/bench/internal/heat"
	"weft/bench/internal/msg"
	"weft/bench/internal/native"
	"weft/bench/internal/taskbench"
	"weft/bench/internal/tasks"
	"weft/bench/internal/wake"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1 // a check failed, a peer failed, or the run was interrupted
	exitUsage  = 2
)

//go:embed peers
var peers embed.FS

// rows is the main command. It returns exitUsage with an error that it finds before it measures.
func rows(ctx context.Context, b *builtin, args []string, extra []harness.Workload, stdout, stderr io.Writer) (int, error) {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return exitUsage, err
	}
	loads := slices.Concat(b.workloads(opts.patterns), extra)
	if err := opts.checkAgainst(loads); err != nil {
		return exitUsage, err
	}
	if opts.list {
		list(stdout, loads)
		return exitOK, nil
	}
	return measure(ctx, &opts.measuring, opts.config(), b, loads, details{}, stdout, stderr)
}

// builtin holds the programs that the built-in workloads build.
type builtin struct {
	kit  *native.Kit
	heat *heat.Program
}

func newBuiltin() *builtin {
	sources, err := fs.Sub(peers, "peers")
	if err != nil {
		panic(err) // the name is not a path
	}
	return &builtin{kit: native.NewKit(sources), heat: new(heat.Program)}
}

// workloads returns the rows of the main command.
func (b *builtin) workloads(patterns bool) []harness.Workload {
	return slices.Concat(tasks.Workloads(b.kit), taskbench.Rows(b.kit, patterns), wake.Workloads(), msg.Workloads(), heat.Workloads(b.heat))
}

// close removes the programs. It ignores errors: the programs lie in the temporary directory.
func (b *builtin) close() {
	_ = b.kit.Close()
	_ = b.heat.Close()
}

// profileOurs returns a function that profiles weft's samples and nothing else: those of this
// process, and of the heat processes.
func (b *builtin) profileOurs(c *cpuprof.Collector) func(peer string, sample func()) {
	return func(peer string, sample func()) {
		if peer != harness.Ours {
			sample()
			return
		}
		b.heat.Profile = c.Add
		c.Around(sample)
		b.heat.Profile = nil
	}
}

// details is what a command writes besides its rows. Both functions may be nil.
type details struct {
	write func(w io.Writer, markdown bool) error // writes tables that follow the rows
	rows  func() []harness.Row                   // returns more rows for the -json file
}

// measure measures and writes all outputs.
func measure(ctx context.Context, opts *measuring, cfg harness.Config, b *builtin, loads []harness.Workload, more details, stdout, stderr io.Writer) (int, error) {
	if err := checkOutputs(opts.json, opts.markdown, opts.cpuProfile); err != nil {
		return exitUsage, err
	}
	var prof *cpuprof.Collector
	if opts.cpuProfile != "" || opts.top > 0 {
		prof = new(cpuprof.Collector)
		cfg.Sampled = b.profileOurs(prof)
	}
	plan := harness.NewPlan(loads, cfg)
	tableTo := stdout
	if opts.json == standardOutput {
		tableTo = stderr
	}
	fmt.Fprintf(tableTo, "%s; medians of %d, workers = GOMAXPROCS\n\n", machine(), cfg.Reps)
	rep, runErr := plan.Run(ctx, observe(plan, tableTo, stderr))

	outcomes := harness.Outcomes(rep.Rows, loads)
	if len(outcomes) > 0 {
		fmt.Fprintf(tableTo, "\nweft and the best of its rivals, in this run:\n\n")
		_ = harness.WriteOutcomes(tableTo, outcomes)
	}
	if more.write == nil {
		more.write = func(io.Writer, bool) error { return nil }
	}
	_ = more.write(tableTo, false)

	status := exitOK
	if rep.Failed || runErr != nil {
		status = exitFailed
	}
	var errs []error
	if runErr != nil {
		errs = append(errs, fmt.Errorf("stopped early: %w", runErr))
	}
	if opts.json != "" {
		all := rep.Rows
		if more.rows != nil {
			all = append(all, more.rows()...)
		}
		errs = append(errs, writeJSON(opts.json, stdout, all))
	}
	if opts.markdown != "" {
		errs = append(errs, writeFile(opts.markdown, func(w io.Writer) error {
			fmt.Fprintf(w, "%s; `go run ./bench %s`\n\n", machine(), strings.Join(opts.args, " "))
			if len(outcomes) > 0 {
				if err := harness.WriteOutcomesMarkdown(w, outcomes); err != nil {
					return err
				}
				fmt.Fprintln(w)
			}
			if err := harness.WriteMarkdown(w, rep.Rows); err != nil {
				return err
			}
			return more.write(w, true)
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
	if name == standardOutput {
		return harness.WriteJSON(stdout, rows)
	}
	return writeFile(name, func(w io.Writer) error { return harness.WriteJSON(w, rows) })
}

func writeProfile(c *cpuprof.Collector, opts *measuring, stdout io.Writer) error {
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
