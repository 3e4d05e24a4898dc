// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/bench/internal/harness"
)

// options is the command line.
type options struct {
	args       []string // as given, for the record
	list       bool
	run        *regexp.Regexp
	reps       int
	workers    []int
	peers      bool
	only       []string
	quick      bool
	minTime    time.Duration
	budget     time.Duration
	json       string
	markdown   string
	cpuProfile string
	top        int
}

const usage = `usage: go run ./bench [options]

Measures weft and its peers in turn (peer, weft, peer, weft, …) and prints, for every row, the median, minimum and maximum of
its samples, and weft's median over the peer's. One unrecorded sample of each warms up. Every sample checks its
answer; a wrong answer makes the row FAILED and the exit status 1.

GOMAXPROCS is set to the row's number of workers, so a worker is a thread that runs Go code, for every peer alike.

`

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{args: args}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // flag would print the whole usage after every mistake
	var run, workers, only string
	fs.BoolVar(&o.list, "list", false, "print the workloads with their sizes and peers, and stop")
	fs.StringVar(&run, "run", "", "measure the workloads whose name matches `REGEXP` (default all)")
	fs.IntVar(&o.reps, "reps", 5, "samples per row: `N` of at least 1 (with -quick: 2)")
	fs.StringVar(&workers, "workers", "", "comma-separated `LIST` of worker counts (default 1 and the number of processors, here "+defaultWorkers()+")")
	fs.BoolVar(&o.peers, "peers", false, "also measure peers that need other tools: libgomp (gcc), libomp (clang), tbb (g++)")
	fs.StringVar(&only, "only", "", "measure only the peers in the comma-separated `LIST`, e.g. weft,channels")
	fs.BoolVar(&o.quick, "quick", false, "tiny sizes: does everything work and check? The figures mean nothing")
	fs.DurationVar(&o.minTime, "mintime", 100*time.Millisecond, "repeat short programs within a sample for at least this `DURATION` (with -quick: 1ms)")
	fs.DurationVar(&o.budget, "budget", 20*time.Second, "a row whose samples have taken this `DURATION` takes no more; 0 means no limit")
	fs.StringVar(&o.json, "json", "", "also write the rows to `FILE` as a JSON array; - is standard output, and the table goes to standard error")
	fs.StringVar(&o.markdown, "markdown", "", "also write the rows to `FILE` as a Markdown table, with a line about the machine")
	fs.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of weft's samples, and of nothing else, to `FILE`")
	fs.IntVar(&o.top, "top", 0, "print the `N` functions with the most flat time in weft's samples, and the time per package")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, usage)
			fs.SetOutput(stderr)
			fs.PrintDefaults()
			return nil, err
		}
		return nil, fmt.Errorf("%w (-h lists the options)", err)
	}

	var errs []error
	if fs.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: there are only options (-h lists them)", fs.Arg(0)))
	}
	var err error
	if o.run, err = regexp.Compile(run); err != nil {
		errs = append(errs, fmt.Errorf("-run: %w", err))
	}
	if workers == "" {
		workers = defaultWorkers()
	}
	if o.workers, err = parseWorkers(workers); err != nil {
		errs = append(errs, fmt.Errorf("-workers: %w", err))
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if o.quick && !given["reps"] {
		o.reps = 2
	}
	if o.quick && !given["mintime"] {
		o.minTime = time.Millisecond
	}
	if o.reps < 1 {
		errs = append(errs, fmt.Errorf("-reps %d: at least 1 is needed", o.reps))
	}
	if o.top < 0 {
		errs = append(errs, fmt.Errorf("-top %d: a number of functions is needed", o.top))
	}
	if o.minTime < 0 || o.budget < 0 {
		errs = append(errs, errors.New("-mintime and -budget: a duration must not be negative"))
	}
	return o, errors.Join(errs...)
}

func defaultWorkers() string {
	if n := runtime.NumCPU(); n > 1 {
		return "1," + strconv.Itoa(n)
	}
	return "1"
}

const maxWorkers = 1024 // more than any machine this runs on; catches a slip of the finger

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

// checkAgainst reports options that select nothing.
func (o *options) checkAgainst(loads []harness.Workload) error {
	var names, peers []string
	matched := false
	for _, w := range loads {
		names = append(names, w.Name)
		matched = matched || o.run.MatchString(w.Name)
		for _, p := range w.Peers {
			if !slices.Contains(peers, p.Name) {
				peers = append(peers, p.Name)
			}
		}
	}
	if !matched {
		return fmt.Errorf("-run %q matches none of %s", o.run, strings.Join(names, ", "))
	}
	for _, name := range o.only {
		if !slices.Contains(peers, name) {
			return fmt.Errorf("-only: no peer %q; there are %s", name, strings.Join(peers, ", "))
		}
	}
	return nil
}

func (o *options) config() harness.Config {
	return harness.Config{
		Run: o.run, Workers: o.workers, Reps: o.reps, Extra: o.peers, Only: o.only,
		Quick: o.quick, MinTime: o.minTime, Budget: o.budget,
	}
}
