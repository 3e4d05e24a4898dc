// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/bench/internal/harness"
)

// options is the command line of the main command. The other commands embed measuring and add
// options.
type options struct {
	measuring
	list     bool
	patterns bool
	run      *regexp.Regexp
	quick    bool
}

// measuring holds the options that all measuring commands share.
type measuring struct {
	args       []string // as given, for the Markdown file
	reps       int
	workers    []int
	peers      bool
	only       []string
	minTime    time.Duration
	budget     time.Duration
	json       string
	markdown   string
	cpuProfile string
	top        int

	workerList, onlyList string // as given
}

const usage = `usage: go run ./bench [options]
       go run ./bench taskbench [options]    one graph of Task Bench
       go run ./bench metg [options]         its minimum effective task granularity
       go run ./bench imb [options]          messages, in the layout of the Intel MPI Benchmarks
       go run ./bench watching [options]     what statistics, a profile and a timeline cost
       go run ./bench plot [options] FILE... plots of rows that were written with -json

Measures weft and its peers in turns (peer, weft, peer, weft, …) and prints, for every row, the median, minimum and maximum of
its samples, and weft's median over the peer's. One unrecorded sample of each warms up. Every sample checks its
answer; a wrong answer makes the row FAILED and the exit status 1.

GOMAXPROCS is set to the row's number of workers, so a worker is a thread that runs Go code, for every peer alike.

`

// declare adds the options to a flag set.
func (o *measuring) declare(fs *flag.FlagSet) {
	fs.IntVar(&o.reps, "reps", 5, "samples per row: `N` of at least 1")
	fs.StringVar(&o.workerList, "workers", "", "comma-separated `LIST` of worker counts (default 1 and the number of processors, here "+defaultWorkers()+")")
	fs.BoolVar(&o.peers, "peers", false, "also measure peers that need other tools: libgomp (gcc), libomp (clang), tbb (g++)")
	fs.StringVar(&o.onlyList, "only", "", "measure only the peers in the comma-separated `LIST`, e.g. weft,channels")
	fs.DurationVar(&o.minTime, "mintime", 100*time.Millisecond, "repeat short programs within a sample for at least this `DURATION`")
	fs.DurationVar(&o.budget, "budget", 20*time.Second, "a row whose samples took this `DURATION` takes no more; 0 means no limit")
	fs.StringVar(&o.json, "json", "", "also write the rows to `FILE` as a JSON array; - is standard output, and the table goes to standard error")
	fs.StringVar(&o.markdown, "markdown", "", "also write the rows to `FILE` as a Markdown table, with a line about the machine")
	fs.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of weft's samples, and of nothing else, to `FILE`")
	fs.IntVar(&o.top, "top", 0, "print the `N` functions with the most flat time in weft's samples, and the time per package")
}

// check validates the parsed options and fills in defaults.
func (o *measuring) check() error {
	var errs []error
	if o.workerList == "" {
		o.workerList = defaultWorkers()
	}
	var err error
	if o.workers, err = parseWorkers(o.workerList); err != nil {
		errs = append(errs, fmt.Errorf("-workers: %w", err))
	}
	if o.onlyList != "" {
		o.only = strings.Split(o.onlyList, ",")
	}
	if o.reps < 1 {
		errs = append(errs, fmt.Errorf("-reps %d: at least 1 is needed", o.reps))
	}
	if o.top < 0 {
		errs = append(errs, fmt.Errorf("-top %d: 0 or more is needed", o.top))
	}
	if o.minTime < 0 || o.budget < 0 {
		errs = append(errs, errors.New("-mintime and -budget: a duration must not be negative"))
	}
	for _, f := range []struct{ option, file string }{{"-json", o.json}, {"-markdown", o.markdown}, {"-cpuprofile", o.cpuProfile}} {
		if err := canWrite(f.file); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.option, err))
		}
	}
	return errors.Join(errs...)
}

// canWrite returns an error if the file cannot be written: otherwise minutes of measuring would be
// lost at the end. It leaves the file unchanged.
func canWrite(file string) error {
	if file == "" || file == "-" {
		return nil
	}
	_, err := os.Lstat(file)
	isNew := errors.Is(err, fs.ErrNotExist)
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	err = f.Close()
	if isNew {
		err = errors.Join(err, os.Remove(file))
	}
	return err
}

// config returns what to measure, without the choices of the main command.
func (o *measuring) config() harness.Config {
	return harness.Config{Workers: o.workers, Reps: o.reps, Extra: o.peers, Only: o.only, MinTime: o.minTime, Budget: o.budget}
}

// parse parses the arguments of a command. With -h it prints usage, then the list of options.
func parse(fs *flag.FlagSet, args []string, usage string, stderr io.Writer) error {
	fs.SetOutput(io.Discard) // flag would print the whole usage after every mistake
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stderr, usage)
		fs.SetOutput(stderr)
		fs.PrintDefaults()
		return err
	case err != nil:
		return fmt.Errorf("%w (-h lists the options)", err)
	}
	return nil
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{measuring: measuring{args: args}}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	var run string
	o.declare(fs)
	fs.BoolVar(&o.list, "list", false, "print the workloads with their sizes and peers, and exit")
	fs.BoolVar(&o.patterns, "patterns", false, "add metg/PATTERN for more patterns of Task Bench; without it there is only metg/stencil_1d")
	fs.StringVar(&run, "run", "", "measure the workloads whose name matches `REGEXP` (default all)")
	fs.BoolVar(&o.quick, "quick", false, "tiny sizes, and unless they are given -reps 2 and -mintime 1ms: does everything work and check? The figures mean nothing")
	if err := parse(fs, args, usage, stderr); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.quick && !given["reps"] {
		o.reps = 2
	}
	if o.quick && !given["mintime"] {
		o.minTime = time.Millisecond
	}

	var errs []error
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: a command must come first, one of %s; -h lists the options", fs.Arg(0), commandNames()))
	}
	var err error
	if o.run, err = regexp.Compile(run); err != nil {
		errs = append(errs, fmt.Errorf("-run: %w", err))
	}
	errs = append(errs, o.check())
	return o, errors.Join(errs...)
}

func defaultWorkers() string {
	if n := runtime.NumCPU(); n > 1 {
		return "1," + strconv.Itoa(n)
	}
	return "1"
}

const maxWorkers = 1024 // more than any machine has; catches a typing error

func parseWorkers(list string) ([]int, error) {
	var out []int
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 || n > maxWorkers {
			return nil, fmt.Errorf("%q is not a number from 1 to %d; write for example 1,2", item, maxWorkers)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out, nil
}

// checkAgainst returns an error for options that select nothing.
func (o *options) checkAgainst(loads []harness.Workload) error {
	var names []string
	for _, w := range loads {
		names = append(names, w.Name)
	}
	if !slices.ContainsFunc(names, o.run.MatchString) {
		return fmt.Errorf("-run %q matches none of %s", o.run, strings.Join(names, ", "))
	}
	return o.checkPeers(loads)
}

// checkPeers returns an error for the name of a peer that no workload has.
func (o *measuring) checkPeers(loads []harness.Workload) error {
	var peers []string
	for _, w := range loads {
		for _, p := range w.Peers {
			if !slices.Contains(peers, p.Name) {
				peers = append(peers, p.Name)
			}
		}
	}
	for _, name := range o.only {
		if !slices.Contains(peers, name) {
			return fmt.Errorf("-only: no peer %q; there are %s", name, strings.Join(peers, ", "))
		}
	}
	return nil
}

func (o *options) config() harness.Config {
	cfg := o.measuring.config()
	cfg.Run, cfg.Quick = o.run, o.quick
	return cfg
}
