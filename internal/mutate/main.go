// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Mutate measures the tests of weft: it makes small changes to the code, mutants, one at a time,
// and looks whether a test fails.
//
// A mutant is drawn by lot, by a seed, from all places where one of some operators can change
// the code: conditions, boundaries and arithmetic, statements that are dropped or swapped,
// atomics made plain, unlocks and wake-ups left out, errors that get lost, data that is not
// forced to a disk. It is killed if a test fails, of its own package first, then of the
// explorations, then of packages that depend on it; tests of planted bugs do not count. It is
// left out if it does not compile, or if the compiler makes the same code of it.
//
// The tree is not changed: a mutant is laid over it when it is compiled. Its tests run in a cell,
// where it can remove no file and kill no process of others. docs/mutation.md says how mutants are
// judged.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// measured are the packages that mutants are made of unless others are named.
var measured = []string{
	"./deps", "./internal/chain", "./internal/order", "./task", "./task/internal/...", "./comm", "./comm/internal/...", "./rma", "./nam", "./nam/internal/store", "./tampi", "./internal/event", "./internal/launch",
	"./internal/fabric", "./internal/fabric/inproc", "./internal/fabric/shm", "./internal/fabric/tcp", "./internal/progress", "./internal/shmem",
}

const usage = `usage: go run ./internal/mutate [options] [package ...]

Makes small changes to the code of the packages, one at a time, and looks whether the tests notice. Prints a table, and
every change that nothing noticed. Without packages: deps, task, comm, rma, nam, tampi, and what they are made of.

Tests of mutants run in namespaces of Linux, in which they can write to temporary files only. Where there are none, nothing
is measured, and the exit status is 3.

A run that is stopped goes on where it was when it is called again with the same -out.

`

type options struct {
	seed    uint64
	n       int
	kinds   string
	out     string
	changed string
	limit   time.Duration
	jobs    int
	list    bool
}

// exitNoCell is the exit status where tests of mutants cannot be confined.
const exitNoCell = 3

func main() {
	if isCell() {
		cell()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errNoCell):
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(exitNoCell)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// kindsOf reads a list of operators; all of them if it is empty.
func kindsOf(list string) ([]string, error) {
	if list == "" {
		return operators, nil
	}
	kinds := strings.Split(list, ",")
	for i, k := range kinds {
		kinds[i] = strings.TrimSpace(k)
		if !slices.Contains(operators, kinds[i]) {
			return nil, fmt.Errorf("-operators: %q is none; there are %s", kinds[i], strings.Join(operators, ", "))
		}
	}
	return kinds, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(f.Output(), usage); f.PrintDefaults() }
	f.Uint64Var(&o.seed, "seed", 0, "draw by the seed `N`; 0 draws a seed, and prints it")
	f.IntVar(&o.n, "n", 300, "make about `N` mutants, spread over the packages: large ones have more, small ones an equal share of N, but no more than 24")
	f.StringVar(&o.kinds, "operators", "", "only changes of the kinds in the `LIST`, with commas: "+strings.Join(operators, ", "))
	f.StringVar(&o.out, "out", "", "keep results in the `DIRECTORY`, and go on with those that are there; without it they are printed only")
	f.StringVar(&o.changed, "changed", "", "only of files that differ from the git `REVISION`; dependants are not run")
	f.DurationVar(&o.limit, "limit", 0, "stop after the `DURATION`; 0 means no limit")
	f.IntVar(&o.jobs, "jobs", 1, "judge `N` mutants at a time; more than half the processors disturb each other")
	f.BoolVar(&o.list, "list", false, "print the mutants, and run nothing")
	if err := f.Parse(args); err != nil {
		return err
	}
	if o.n < 1 || o.jobs < 1 || o.limit < 0 {
		return errors.New("-n and -jobs are at least 1, and -limit is not negative")
	}
	kinds, err := kindsOf(o.kinds)
	if err != nil {
		return err
	}
	if o.kinds != "" {
		o.kinds = strings.Join(kinds, ",") // as results are named by
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if data, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(data), "module weft\n") {
		return errors.New("there is no go.mod of weft here; run it in the root of the repository")
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := &runner{root: root, tmp: tmp, progress: stderr, ownOnly: o.changed != "", jobs: o.jobs}
	out, err := r.command(ctx, "go", "env", "GOCACHE", "CC").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	cache, cc, _ := strings.Cut(string(out), "\n")
	_, err = exec.LookPath(strings.TrimSpace(cc))
	r.cache, r.hasRace = cache, err == nil
	patterns, only := f.Args(), []string(nil)
	if len(patterns) == 0 {
		patterns = measured
	}
	if o.changed != "" {
		if only, err = r.changedSince(ctx, o.changed); err != nil {
			return err
		}
		if len(only) == 0 {
			fmt.Fprintf(stdout, "no Go file of the code differs from %s\n", o.changed)
			return nil
		}
	}
	parts, err := load(root, patterns, only, kinds)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		fmt.Fprintln(stdout, "there is nothing to change in these files of", strings.Join(patterns, ", "))
		return nil
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	most := o.n // each has at least one mutant
	if r.ownOnly {
		// to find out which tests run which lines takes longer than a mutant does
		most = (o.n + 1) / 2
	}
	if len(parts) > most {
		rand.New(rand.NewPCG(o.seed, 0)).Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		parts = parts[:most]
	}
	if o.out == "" {
		o.out = tmp
	} else if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	if o.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.limit)
		defer cancel()
	}
	return r.measure(ctx, &o, parts, stdout)
}

// changedSince lists the Go files that are not tests and differ from a revision, with slashes,
// relative to the root.
func (r *runner) changedSince(ctx context.Context, revision string) ([]string, error) {
	out, err := r.command(ctx, "git", "diff", "--name-only", "--diff-filter=d", revision, "--").Output()
	if err != nil {
		if x, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("git diff %s: %s", revision, strings.TrimSpace(string(x.Stderr)))
		}
		return nil, err
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(f string) bool {
		return !strings.HasSuffix(f, ".go") || strings.HasSuffix(f, "_test.go")
	}), nil
}

// results are the file of verdicts.
type results struct {
	Seed uint64
	Hash string
	N    int
	Of   string // the packages, and the operators if there are not all
}

// resume reads the verdicts of an earlier call, and returns the file, at its end.
func resume(file string, want results) (*os.File, []*verdict, error) {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(f)
	var is results
	if err := d.Decode(&is); errors.Is(err, io.EOF) {
		return f, nil, json.NewEncoder(f).Encode(want)
	} else if err != nil || is != want {
		f.Close()
		return nil, nil, fmt.Errorf("%s has the results of another tree, seed (%d), number (%d) or list of packages and operators (%s); name another directory, or remove it", file, is.Seed, is.N, is.Of)
	}
	var list []*verdict
	for {
		v := new(verdict)
		if err := d.Decode(v); errors.Is(err, io.EOF) {
			return f, list, nil
		} else if err != nil {
			f.Close()
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, v)
	}
}

// measure judges mutants of all parts.
func (r *runner) measure(ctx context.Context, o *options, parts []*part, stdout io.Writer) error {
	r.logf("seed %d", o.seed)
	if o.list {
		for _, t := range turnsOf(parts, o) {
			for range t.left {
				if m := t.next(); m != nil {
					fmt.Fprintf(stdout, "%s:%d %s\n%s", m.File, m.Line, m.Operator, m.Diff)
				}
			}
		}
		return nil
	}
	var paths []string
	for _, p := range parts {
		paths = append(paths, p.path)
	}
	if err := r.tryCell(ctx); err != nil {
		return err
	}
	hash, err := hashOfTree(r.root)
	if err != nil {
		return err
	}
	file, old, err := resume(filepath.Join(o.out, "results.json"), results{o.seed, hash, o.n, strings.TrimSpace(strings.Join(paths, " ") + " " + o.kinds)})
	if err != nil {
		return err
	}
	defer file.Close()
	x, err := r.reachOf(ctx, parts, filepath.Join(o.out, "reach.gob"))
	if ctx.Err() != nil {
		fmt.Fprintln(stdout, "No mutant has been made: the run was stopped.")
		return nil
	}
	if err != nil {
		return err
	}
	for _, t := range x.Unfit {
		r.logf("%s fails by itself, or takes too long: it kills nothing", t)
	}

	known := map[int]*verdict{}
	for _, v := range old {
		known[v.Number] = v
	}
	var verdicts []*verdict
	number := 0
	turns := turnsOf(parts, o)
	// A round is all that is left, and the next one what comes in place of those that do not count:
	// so what is drawn does not depend on what becomes of others, nor on the number of jobs. The
	// parts take turns, so that a run that is stopped has measured something of each.
	for len(turns) > 0 && ctx.Err() == nil {
		var round []*drawn
		for k, more := 0, true; more; k++ {
			more = false
			for _, t := range turns {
				if k >= t.left {
					continue
				}
				if m := t.next(); m != nil {
					more = true
					number++
					m.Number = number
					round = append(round, &drawn{m: m, turn: t, v: known[number]})
				}
			}
		}
		if err := r.judgeAll(ctx, round, x, file); err != nil {
			return err
		}
		for _, d := range round {
			if d.v == nil { // the run was stopped
				continue
			}
			if d.v.Package != d.m.Package {
				return fmt.Errorf("%s: mutant %d is of another package", file.Name(), d.m.Number)
			}
			verdicts = append(verdicts, d.v)
			if d.v.counts() {
				d.turn.left--
			}
		}
		turns = slices.DeleteFunc(turns, func(t *turn) bool { return t.left == 0 })
	}
	if ctx.Err() != nil {
		fmt.Fprintf(stdout, "Not all mutants have been made: the run was stopped.\n\n")
	}
	report(stdout, o.seed, verdicts)
	return nil
}

// drawn is a mutant of a round, and what became of it.
type drawn struct {
	m    *mutant
	turn *turn
	v    *verdict // nil: nobody has judged it
}

// judgeAll judges those of a round that no earlier call has judged, some at a time, and writes
// each verdict to the file when it is known. A run that is stopped leaves out verdicts, since
// what they say would be due to that.
func (r *runner) judgeAll(ctx context.Context, round []*drawn, x *reach, file io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	var mu sync.Mutex // of the file
	for _, d := range round {
		if d.v != nil {
			continue
		}
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			v, err := r.judge(ctx, d.m, d.turn.part, x)
			if ctx.Err() != nil {
				return nil
			}
			if err = errors.Join(err, r.brokenBy()); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			d.v = v
			r.logf("%v", v)
			return json.NewEncoder(file).Encode(v)
		})
	}
	return g.Wait()
}

// turn is how a part is drawn from.
type turn struct {
	part *part
	left int // that shall count
	rng  *rand.Rand
}

// turnsOf gives each part numbers of its own: what it draws does not depend on what becomes of
// others' mutants.
func turnsOf(parts []*part, o *options) []*turn {
	var list []*turn
	for i, quota := range quotas(parts, o.n) {
		list = append(list, &turn{parts[i], quota, rand.New(rand.NewPCG(o.seed, uint64(i+1)))})
	}
	return list
}

// next draws a mutant; nil means that there are no more.
func (t *turn) next() *mutant {
	place, ok := t.part.draw(t.rng)
	if !ok {
		t.left = 0
		return nil
	}
	return t.part.mutant(place)
}
