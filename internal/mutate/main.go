// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Mutate measures the tests of weft: it makes small changes to the code, one at a time (mutants),
// and checks whether a test fails.
//
// A seed determines which mutants are drawn, at random, from all sites where an operator can change
// the code: conditions, boundaries, arithmetic, statements that are dropped or swapped, atomic
// operations made plain, unlocks and wake-ups left out, errors lost, data not forced to disk. A
// mutant is killed if a test fails: first tests of its own package, then explorations, then tests
// of packages that depend on it. Tests of planted bugs do not count. A mutant is discarded if it
// does not compile, or if the compiler makes the same code from it.
//
// The working tree is not changed: a mutant is an overlay for the compiler. Its tests run in a
// cell, in which they cannot remove files or kill processes outside. docs/mutation.md says how
// mutants are judged.
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

// measured are the packages to mutate unless others are named.
var measured = []string{
	"./deps", "./internal/chain", "./internal/order", "./task", "./task/internal/...", "./comm", "./comm/internal/...", "./rma", "./nam", "./nam/internal/store", "./tampi", "./internal/event", "./internal/launch",
	"./internal/fabric", "./internal/fabric/inproc", "./internal/fabric/shm", "./internal/fabric/tcp", "./internal/progress", "./internal/shmem",
}

const usage = `usage: go run ./internal/mutate [options] [package ...]

Makes small changes to the code of the packages, one at a time, and checks whether a test fails. Prints a table, and
every change that no test noticed. Without packages: deps, task, comm, rma, nam, tampi, and the packages below them.

Tests of mutants run in namespaces of Linux, in which they can write temporary files only. Without namespaces,
nothing is measured, and the exit status is 3.

A run that was stopped continues when it is called again with the same -out.

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

// exitNoCell is the exit status if tests of mutants cannot be confined.
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

// kindsOf parses a list of operators; an empty list means all.
func kindsOf(list string) ([]string, error) {
	if list == "" {
		return operators, nil
	}
	kinds := strings.Split(list, ",")
	for i, k := range kinds {
		kinds[i] = strings.TrimSpace(k)
		if !slices.Contains(operators, kinds[i]) {
			return nil, fmt.Errorf("-operators: unknown operator %q; legal are %s", kinds[i], strings.Join(operators, ", "))
		}
	}
	return kinds, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var o options
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() { fmt.Fprint(f.Output(), usage); f.PrintDefaults() }
	f.Uint64Var(&o.seed, "seed", 0, "seed `N` of the random mutants; 0 chooses a seed, and prints it")
	f.IntVar(&o.n, "n", 300, "make about `N` mutants, spread over the packages: more for large ones, and for small ones an equal share of N, up to 24")
	f.StringVar(&o.kinds, "operators", "", "only the kinds of changes in the `LIST`, separated by commas: "+strings.Join(operators, ", "))
	f.StringVar(&o.out, "out", "", "keep results in the `DIRECTORY`, and continue from results that it has; without it, results are only printed")
	f.StringVar(&o.changed, "changed", "", "mutate only files that differ from the git `REVISION`; tests of dependants are not run")
	f.DurationVar(&o.limit, "limit", 0, "stop after the `DURATION`; 0 means no limit")
	f.IntVar(&o.jobs, "jobs", 1, "judge `N` mutants at a time; more than half the number of processors disturbs timing")
	f.BoolVar(&o.list, "list", false, "print the mutants, and run no tests")
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
		o.kinds = strings.Join(kinds, ",") // the form that results are compared by
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if data, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(data), "module weft\n") {
		return errors.New("there is no go.mod of weft here; run this command in the root of the repository")
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
		fmt.Fprintln(stdout, "no operator applies to these files of", strings.Join(patterns, ", "))
		return nil
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1 << 32)
	}
	most := o.n // each has at least one mutant
	if r.ownOnly {
		// measuring the coverage of a package takes longer than judging a mutant
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

// changedSince lists the Go files, except tests, that differ from a revision: with slashes,
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

// results is the head of the file of verdicts.
type results struct {
	Seed uint64
	Hash string
	N    int
	Of   string // the packages, and the operators if they were selected
}

// resume reads the verdicts of an earlier call, and returns the file, positioned at its end.
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
		return nil, nil, fmt.Errorf("%s has results of another tree, seed (%d), number (%d) or list of packages and operators (%s); use another directory, or remove the file", file, is.Seed, is.N, is.Of)
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
		r.logf("%s fails without a mutant, or takes too long: it is not used", t)
	}

	known := map[int]*verdict{}
	for _, v := range old {
		known[v.Number] = v
	}
	var verdicts []*verdict
	number := 0
	turns := turnsOf(parts, o)
	// A round draws all mutants that are still needed; the next round replaces those that do not
	// count. So the drawn mutants depend neither on the verdicts of other packages nor on the
	// number of jobs. The parts take turns, so that a run that is stopped has measured some mutants
	// of each.
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

// drawn is a mutant of a round, and its verdict.
type drawn struct {
	m    *mutant
	turn *turn
	v    *verdict // nil: not judged yet
}

// judgeAll judges the mutants of a round that no earlier call has judged, several at a time, and
// writes each verdict to the file at once. If the run is stopped, verdicts in progress are dropped:
// the stop may have caused them.
func (r *runner) judgeAll(ctx context.Context, round []*drawn, x *reach, file io.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.jobs)
	var mu sync.Mutex // guards the file
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

// turn is the state of drawing mutants of a part.
type turn struct {
	part *part
	left int // mutants still needed
	rng  *rand.Rand
}

// turnsOf gives each part its own random numbers, so that its mutants do not depend on the verdicts
// of other parts.
func turnsOf(parts []*part, o *options) []*turn {
	var list []*turn
	for i, quota := range quotas(parts, o.n) {
		list = append(list, &turn{parts[i], quota, rand.New(rand.NewPCG(o.seed, uint64(i+1)))})
	}
	return list
}

// next draws a mutant; nil if there are no more.
func (t *turn) next() *mutant {
	place, ok := t.part.draw(t.rng)
	if !ok {
		t.left = 0
		return nil
	}
	return t.part.mutant(place)
}
