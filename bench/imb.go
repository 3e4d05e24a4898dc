// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weft/bench/internal/imb"
)

const imbName = "imb"

const imbUsage = `usage: go run ./bench imb [options] [benchmark...]

Measures messages between ranks and prints the figures in the layout of the Intel MPI Benchmarks. A benchmark is one of
` + "PingPong, PingPing, Sendrecv, Exchange, Uniband, Biband; Barrier, Bcast, Reduce, Allreduce, Scan, Allgather, Alltoall, Gather,\n" +
	`Scatter; the nonblocking collectives, with an I before the name, measured alone and together with computation; and

  TestLoop  PingPong that receives by a loop of Test; ProbeLoop: PingPong that learns of a message by a loop of Iprobe
  Asleep    a message and its answer, whose receiver sleeps in Recv; OnDone: whose receiver answers in a callback (medians)
  Overlap   an exchange of messages of 1 MiB together with computation
  Progress  a message of 1 MiB to a rank that has posted its receive and computes
  Idle      processor time, in microseconds, of a process that waits for a message for a second
  Start     from the command that starts the ranks to their first barrier

or of the sets P2P, Coll (the default is these two), NBC, Loops, Extra and all. Contents are checked before a row is measured; wrong
contents make the row FAILED and the exit status 1.

-fabric says what connects the ranks: inproc (goroutines of this process), shm or tcp (processes that weft run starts),
mpi-openmpi or mpi-mpich (processes that the library's mpirun starts). A program that has been started as one of several ranks,
by weft run or mpirun, measures with those.

-peers measures Open MPI and MPICH too, with bench/peers/mpi/imb.c, which makes the same operations, in turns with weft (-rounds), and
prints medians, ratios and the goals.

`

// imbOptions is the command line of the command imb.
type imbOptions struct {
	imb.Options
	names   []string
	ranks   []int
	fabrics []string
	peers   bool
	rounds  int
	json    string
	lines   bool // report rows as lines: another run of this command started this process
}

func parseIMB(args []string, stderr io.Writer) (*imbOptions, error) {
	o := new(imbOptions)
	fs := flag.NewFlagSet("bench imb", flag.ContinueOnError)
	var (
		n, npmin, sync                       int
		msglen, msglog, fabrics, bench, list string
		seconds                              float64
	)
	fs.IntVar(&n, "n", 0, "greatest number of ranks: `N` (default 2; that of this process, if it was started as one of several ranks)")
	fs.IntVar(&npmin, "npmin", 0, "measure with `N` ranks, twice as many, and so on, up to -n (default that of -n)")
	fs.StringVar(&msglen, "msglen", "", "comma-separated `LIST` of sizes in bytes, or followed by K or M: 8,64K,1M")
	fs.StringVar(&msglog, "msglog", "0:22", "sizes 0 and the powers of 2 from `MIN:MAX`, or up to MAX")
	fs.Int64Var(&o.Iter, "iter", 1000, "repetitions of an operation: `N` at most")
	fs.Int64Var(&o.Volume, "vol", 40<<20, "stop the repetitions of large operations after so many `BYTES`, in messages of one rank")
	fs.Float64Var(&seconds, "time", 2, "stop the repetitions of slow operations after so many `SECONDS`")
	fs.IntVar(&sync, "sync", 1, "`1`: a barrier after every collective, outside of the time; 0: none")
	fs.StringVar(&fabrics, "fabric", "inproc", "comma-separated `LIST` of what connects ranks: "+strings.Join(imb.Fabrics(), ", "))
	fs.BoolVar(&o.peers, "peers", false, "also measure Open MPI and MPICH where they are installed")
	fs.IntVar(&o.rounds, "rounds", 3, "with -peers, or several fabrics: `N` rounds, each with a sample of every row")
	fs.StringVar(&o.json, "json", "", "write rows to `FILE` as a JSON array; - is standard output, and tables go to standard error")
	fs.BoolVar(&o.lines, "lines", false, "report each row at once as a line of JSON; only with ranks of this process, or of the job that it belongs to")
	fs.StringVar(&bench, "bench", "", "`NAME` of a benchmark, in place of an argument")
	fs.StringVar(&list, "sizes", "", "-msglen by another name: `LIST`")
	var names []string
	for rest := args; ; rest = fs.Args()[1:] { // options may follow benchmarks
		if err := parse(fs, rest, imbUsage, stderr); err != nil {
			return nil, err
		}
		if fs.NArg() == 0 {
			break
		}
		names = append(names, fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var errs []error
	if bench != "" {
		names = append(names, bench)
	}
	var err error
	if o.names, err = imb.Find(names); err != nil {
		errs = append(errs, err)
	}
	if list != "" {
		msglen = list
	}
	if msglen != "" {
		o.Sizes, err = parseSizes(msglen)
	} else {
		o.Sizes, err = parseMsglog(msglog)
	}
	if err != nil {
		errs = append(errs, err)
	}
	if n == 0 && !imb.Launched() {
		n = 2
	}
	switch {
	case n < 0 || n > maxWorkers || npmin < 0 || npmin > n:
		errs = append(errs, fmt.Errorf("-n %d -npmin %d: legal are 1 to %d ranks, and -npmin at most -n", n, npmin, maxWorkers))
	case npmin == 0:
		o.ranks = []int{n}
	default:
		for k := npmin; k < n; k *= 2 {
			o.ranks = append(o.ranks, k)
		}
		o.ranks = append(o.ranks, n)
	}
	for f := range strings.SplitSeq(fabrics, ",") {
		if f = strings.TrimSpace(f); !slices.Contains(imb.Fabrics(), f) {
			errs = append(errs, fmt.Errorf("-fabric: no fabric %q; there are %s", f, strings.Join(imb.Fabrics(), ", ")))
		}
		o.fabrics = append(o.fabrics, f)
	}
	if imb.Launched() || o.lines {
		for _, name := range []string{"fabric", "npmin", "peers", "rounds", "json"} {
			switch {
			case !given[name]:
			case imb.Launched():
				errs = append(errs, fmt.Errorf("-%s: this process has been started as one of several ranks, and measures with all of them only", name))
			case name != "fabric" || fabrics != "inproc":
				errs = append(errs, fmt.Errorf("-%s: with -lines, this process measures with -n ranks of its own only", name))
			}
		}
	}
	if o.Iter < 1 || o.Volume < 1 || o.rounds < 1 || !(seconds > 0) || seconds > 1e6 {
		errs = append(errs, errors.New("-iter, -vol, -time and -rounds must be more than 0"))
	}
	if err := canWrite(o.json); err != nil {
		errs = append(errs, fmt.Errorf("-json: %w", err))
	}
	if o.Sync = sync == 1; sync != 0 && sync != 1 {
		errs = append(errs, fmt.Errorf("-sync %d: it must be 0 or 1", sync))
	}
	o.Time = time.Duration(math.Min(seconds, 1e6) * float64(time.Second))
	return o, errors.Join(errs...)
}

func parseSizes(list string) ([]int64, error) {
	var sizes []int64
	for item := range strings.SplitSeq(list, ",") {
		text, factor := strings.TrimSpace(item), int64(1)
		for suffix, f := range map[string]int64{"K": 1 << 10, "M": 1 << 20} {
			if s, ok := strings.CutSuffix(text, suffix); ok {
				text, factor = s, f
			}
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v < 0 || v > maxSize/factor {
			return nil, fmt.Errorf("-msglen: %q is not a size from 0 to %d; write for example 8,64K,1M", item, maxSize)
		}
		sizes = append(sizes, v*factor)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes), nil
}

const maxSize = 1 << 30 // the peers count bytes in a C int

func parseMsglog(text string) ([]int64, error) {
	low, high := 0, 0
	first, second, both := strings.Cut(text, ":")
	var err error
	if !both {
		first, second = "0", first
	}
	if low, err = strconv.Atoi(first); err == nil {
		high, err = strconv.Atoi(second)
	}
	if err != nil || low < 0 || high < low || high > 30 {
		return nil, fmt.Errorf("-msglog %q: it must be MIN:MAX or MAX, from 0 to 30", text)
	}
	sizes := []int64{0}
	for k := low; k <= high; k++ {
		sizes = append(sizes, 1<<k)
	}
	return sizes, nil
}

// messages runs the command. It returns exitUsage with an error that it finds before it measures.
func messages(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	o, err := parseIMB(args, stderr)
	if err != nil {
		return exitUsage, err
	}
	if imb.Launched() || o.lines {
		return measureHere(ctx, o, stdout)
	}
	return compare(ctx, o, stdout, stderr)
}

// measureHere measures with the ranks of the job that this process belongs to.
func measureHere(ctx context.Context, o *imbOptions, stdout io.Writer) (int, error) {
	table, failed := imb.NewTable(stdout), false
	report := func(r imb.Row) error { table.Row(r); return nil }
	if o.lines {
		report = imb.Report(stdout)
	}
	err := imb.Here(ctx, o.ranks[len(o.ranks)-1], o.names, o.Options, func(r imb.Row) error {
		failed = failed || r.Err() != nil
		return report(r)
	})
	if err != nil || failed {
		return exitFailed, err
	}
	return exitOK, nil
}

// compare measures one fabric, or several peers in turns.
func compare(ctx context.Context, o *imbOptions, stdout, stderr io.Writer) (int, error) {
	if err := checkOutputs(o.json); err != nil {
		return exitUsage, err
	}
	source, err := peers.ReadFile("peers/mpi/imb.c")
	if err != nil {
		panic(err) // it is embedded
	}
	self, err := imb.SelfPath()
	if err != nil {
		return exitFailed, err
	}
	run := &imb.Runner{Source: source, Self: []string{self, imbName, "-lines"}, Stderr: stderr}
	defer func() { _ = run.Close() }() // it is in the temporary directory
	chosen := o.choose()
	tables := stdout
	if o.json == standardOutput {
		tables = stderr
	}
	alone := len(chosen) == 1
	fmt.Fprintf(tables, "# %s\n", machine())
	result, table := imb.NewComparison(chosen, runtime.GOMAXPROCS(0)), imb.NewTable(tables)
	skipped, rounds := map[string]bool{}, o.rounds
	if alone {
		rounds = 1
	}
	var errs []error
	for _, n := range o.ranks {
		for _, name := range o.names {
			if need := imb.Need(name); n < need {
				fmt.Fprintf(stderr, "bench: %s: skipped with %d ranks: it needs %d\n", name, n, need)
				continue
			}
			for range rounds {
				for i := range chosen {
					p := &chosen[len(chosen)-1-i] // the others first, then weft
					if skipped[p.Name] || ctx.Err() != nil || !p.Ours && imb.OursOnly(name) {
						continue
					}
					if !alone {
						fmt.Fprintf(stderr, "bench: %s, %d ranks, %s\n", name, n, p.Name)
					}
					err := run.Run(ctx, p, n, name, o.Options, func(r imb.Row) {
						result.Add(p.Name, r)
						if alone {
							table.Row(r)
						}
					})
					switch {
					case imb.Skipped(err):
						skipped[p.Name] = true
						fmt.Fprintf(stderr, "bench: peer %s: %v\n", p.Name, err)
					case err != nil:
						errs = append(errs, fmt.Errorf("%s, %d ranks, %s: %w", name, n, p.Name, err))
						skipped[p.Name] = true // the error would be the same again
					}
				}
			}
		}
	}
	if !alone {
		errs = append(errs, result.Write(tables), result.WriteGoals(tables))
	}
	if len(result.Rows()) == 0 && ctx.Err() == nil {
		errs = append(errs, errors.New("nothing was measured"))
	}
	if o.json != "" {
		errs = append(errs, writeJSON(o.json, stdout, result.Rows()))
	}
	err = errors.Join(append(errs, context.Cause(ctx))...)
	if err != nil || result.Failed() {
		return exitFailed, err
	}
	return exitOK, nil
}

// choose returns the peers to measure, those of weft first.
func (o *imbOptions) choose() []imb.Peer {
	var chosen []imb.Peer
	classes := map[string]bool{}
	for _, p := range imb.Peers() {
		if fabric := strings.TrimPrefix(p.Name, "weft-"); p.Ours && slices.Contains(o.fabrics, fabric) {
			chosen = append(chosen, p)
			classes[p.Class] = true
		}
	}
	if !o.peers {
		return chosen
	}
	for _, p := range imb.Peers() {
		if !p.Ours && (classes[p.Class] || p.Class == "shm" && classes["mpi"]) {
			chosen = append(chosen, p)
		}
	}
	return chosen
}
