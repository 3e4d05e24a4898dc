// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// runner builds and runs tests.
type runner struct {
	root     string
	tmp      string
	progress io.Writer
	ownOnly  bool // tests of dependants are not run
	hasRace  bool // there is a C compiler for the race detector
	jobs     int  // tests or mutants at a time
	cache    string
	lint     lint
	runs     atomic.Int64 // counts runs of tests: each has its own directory
	plain    sync.Map     // checksums of test binaries without a mutant: [32]byte by package

	mu     sync.Mutex
	broken error // why tests could not be run: then their results are no verdicts; guarded by mu
}

func (r *runner) logf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.progress, "mutate: "+format+"\n", args...)
}

func (r *runner) breaks(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

func (r *runner) brokenBy() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}

// command returns a command that runs in the root, without cgo.
func (r *runner) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	c.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	return c
}

// outcome is the result of a run of tests.
type outcome struct {
	failed bool
	how    string // "fails", "panics", "hangs" or "exits"
	test   string // the first named test
}

// runTests runs a test binary in dir, in a cell in which it can write only temporary files and the
// writable directories. A run that exceeds the limit is killed with all its processes.
func (r *runner) runTests(ctx context.Context, dir string, bin []string, limit time.Duration, args []string, writable ...string) outcome {
	// a short name, since the tests make sockets there
	tmp := filepath.Join(r.tmp, strconv.Itoa(int(r.runs.Add(1))))
	if err := os.Mkdir(tmp, 0o700); err != nil {
		r.breaks(err)
		return outcome{failed: true}
	}
	defer os.RemoveAll(tmp)
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	c := r.command(ctx, bin[0], slices.Concat(bin[1:], args, []string{"-test.timeout", limit.String(), "-test.failfast"})...)
	c.Dir = dir
	c.Env = append(c.Env, "TMPDIR="+tmp, "WEFT_NAM_DIR="+filepath.Join(tmp, "nam"))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = time.Second
	err := inCell(c, r.cache, append(writable, tmp)...)
	if err == nil {
		err = c.Run()
	}
	if err == nil {
		return outcome{}
	}
	x, isExit := errors.AsType[*exec.ExitError](err)
	if (!isExit || x.ExitCode() == noCell) && !errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		r.breaks(fmt.Errorf("%s: %w: %s", bin[len(bin)-1], err, bytes.TrimSpace(out.Bytes())))
	}
	return read(out.String(), ctx.Err() != nil)
}

var errNoCell = errors.New("tests of mutants cannot be confined here")

// tryCell reports whether cells can be made: it runs a harmless command in one.
func (r *runner) tryCell(ctx context.Context) error {
	c := r.command(ctx, "go", "env", "GOOS")
	err := inCell(c, r.cache, r.tmp)
	if err == nil {
		var out []byte
		if out, err = c.CombinedOutput(); err != nil && len(out) > 0 {
			err = errors.New(strings.TrimPrefix(strings.TrimSpace(string(out)), "mutate: "))
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoCell, err)
	}
	return nil
}

var (
	failLine  = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	panicLine = regexp.MustCompile(`(?m)^(panic:|fatal error:)`)
	running   = regexp.MustCompile(`(?m)^\s*running tests:\n\s+(\S+)`)
)

func read(out string, late bool) outcome {
	o := outcome{failed: true, how: "exits"}
	named := failLine
	switch {
	case late || strings.Contains(out, "panic: test timed out"):
		o.how, named = "hangs", running
	case panicLine.MatchString(out):
		o.how = "panics"
	case failLine.MatchString(out):
		o.how = "fails"
	}
	if m := named.FindStringSubmatch(out); m != nil {
		o.test = m[1]
	}
	return o
}

// verdict is the result for a mutant: a line of the file of results.
type verdict struct {
	Number         int
	Package, File  string
	Line           int
	Operator, Diff string
	// "killed"; "survived"; "invalid": it does not compile; "same": the compiler makes the same
	// code
	State string
	// "tests", "explorations", "the race detector", "lint mode" or "dependants"
	By      string
	Test    string        // the test that failed, if known
	How     string        // outcome.how
	Took    time.Duration // time for judging it
	Covered int           // number of tests of its package that run its lines
}

// counts reports whether a test could notice the mutant.
func (v *verdict) counts() bool { return v.State == "killed" || v.State == "survived" }

func (v *verdict) String() string {
	s := fmt.Sprintf("%d: %s:%d %s: %s", v.Number, v.File, v.Line, v.Operator, v.State)
	if v.State == "killed" {
		s += fmt.Sprintf(" by %s: %s %s", v.By, cmp.Or(v.Test, "a test"), v.How)
	}
	return s + fmt.Sprintf(" (%v)", v.Took.Round(time.Second/10))
}

var errInvalid = errors.New("does not compile")

// asMutants are the build flags of mutants' tests, and of the tests that show which tests fail
// without a mutant.
var asMutants = []string{"-vet=off", "-ldflags=-s -w -buildid="}

// build builds the test binary of a package with the mutant. flags are flags of the go command, or
// linting for lint mode.
func (r *runner) build(ctx context.Context, m *mutant, dir, path, bin string, flags ...string) error {
	overlay := filepath.Join(dir, "overlay.json")
	file := filepath.Join(dir, "mutant.go")
	data, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(r.root, filepath.FromSlash(m.File)): file}})
	if err = errors.Join(err, os.WriteFile(file, m.src, 0o600), os.WriteFile(overlay, data, 0o600)); err != nil {
		return err
	}
	args := slices.Concat([]string{"test", "-c", "-overlay", overlay}, asMutants, []string{"-o", bin}, flags, []string{path})
	if slices.Contains(flags, linting) {
		args = slices.DeleteFunc(args, func(a string) bool { return a == linting })
		return r.made(r.command(ctx, r.lint.weft, slices.Concat(asLint, []string{"go"}, args)...), true)
	}
	return r.made(r.command(ctx, "go", args...), slices.Contains(flags, "-race"))
}

// made runs a command that builds tests. Its error is errInvalid, unless the disk is full.
func (r *runner) made(c *exec.Cmd, race bool) error {
	if race {
		c.Env = append(c.Env, "CGO_ENABLED=1")
	}
	if out, err := c.CombinedOutput(); bytes.Contains(out, []byte("no space left on device")) {
		return fmt.Errorf("go test -c: %s", out)
	} else if err != nil {
		return fmt.Errorf("%w: %s", errInvalid, out)
	}
	return nil
}

// isSame reports whether the compiler makes the same code from the mutant and the original. It
// compares the test binaries of a package whose tests run the changed lines: the linker leaves out
// code that no test can reach.
func (r *runner) isSame(ctx context.Context, m *mutant, path, bin string) (bool, error) {
	plain, err := r.plainSum(ctx, m, path)
	if err != nil {
		return false, err
	}
	is, err := sumOf(bin)
	return is == plain, err
}

// plainSum returns the checksum of a package's test binary without the mutant, which is built once.
func (r *runner) plainSum(ctx context.Context, m *mutant, path string) (is [32]byte, err error) {
	if is, ok := r.plain.Load(path); ok {
		return is.([32]byte), nil
	}
	dir, err := os.MkdirTemp(r.tmp, "plain")
	if err != nil {
		return is, err
	}
	defer os.RemoveAll(dir)
	plain := *m
	if plain.src, err = os.ReadFile(filepath.Join(r.root, filepath.FromSlash(m.File))); err != nil {
		return is, err
	}
	bin := filepath.Join(dir, "test.exe")
	if err := r.build(ctx, &plain, dir, path, bin); err != nil {
		return is, err
	}
	if is, err = sumOf(bin); err == nil {
		r.plain.Store(path, is)
	}
	return is, err
}

func sumOf(file string) ([32]byte, error) {
	data, err := os.ReadFile(file)
	return sha256.Sum256(data), err
}

// dependantTime bounds the time for tests of one dependant, dependantsTime for all of them, and
// raceTime for tests with the race detector. All are times of the tests without a mutant and
// without the race detector.
const (
	dependantTime  = 20 * time.Second
	dependantsTime = 2 * time.Minute
	raceTime       = 15 * time.Second
)

// judge runs tests until one kills m: those of its package that run its lines; if the package's
// tests start processes, whose coverage is unknown, all others of its package; its explorations;
// its tests with the race detector; those of lint mode; the tests of dependants that run its lines.
// An error is an error of the machine.
func (r *runner) judge(ctx context.Context, m *mutant, p *part, x *reach) (*verdict, error) {
	began := time.Now()
	dir, err := os.MkdirTemp(r.tmp, "mutant")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	v := &verdict{Number: m.Number, Package: m.Package, File: m.File, Line: m.Line, Operator: m.Operator, Diff: m.Diff, State: "survived"}
	defer func() { v.Took = time.Since(began) }()
	bin := filepath.Join(dir, "test.exe")
	if err := r.build(ctx, m, dir, p.path, bin); errors.Is(err, errInvalid) {
		v.State = "invalid"
		return v, nil
	} else if err != nil {
		return nil, err
	}
	kill := func(by string, o outcome) bool {
		if o.failed {
			v.State, v.By, v.How, v.Test = "killed", by, o.how, o.test
		}
		return o.failed
	}

	// others runs tests in another build, in which a mutant may not compile.
	others := func(by, path, at string, list []test, flags ...string) (bool, error) {
		if len(list) == 0 {
			return false, nil
		}
		switch err := r.build(ctx, m, dir, path, bin, flags...); {
		case errors.Is(err, errInvalid):
			return false, nil
		case err != nil:
			return false, err
		}
		return kill(by, r.runTwice(ctx, at, bin, list)), nil
	}

	at := filepath.Join(r.root, filepath.FromSlash(p.dir))
	covering := x.covering(m, "")
	own := covering[p.path]
	v.Covered = len(own)
	if len(own) > 0 {
		if same, err := r.isSame(ctx, m, p.path, bin); err != nil || same {
			v.State = "same"
			return v, err
		}
	}
	lists := batches(own)
	if hasInTests(at, "exec.Command") || hasInTests(at, "os.Executable") {
		rest := slices.DeleteFunc(x.of(p.path), func(t test) bool { return slices.Contains(own, t) })
		lists = append(lists, batches(rest)...)
	}
	for _, list := range lists {
		if kill("tests", r.runTwice(ctx, at, bin, list)) {
			return v, nil
		}
	}

	// A mutant of an atomic operation does not compile in explorations, which use another type of
	// atomics.
	if done, err := others("explorations", p.path, at, x.covering(m, exploring)[p.path], "-tags", exploring); done || err != nil {
		return v, err
	}
	if r.hasRace {
		if done, err := others("the race detector", p.path, at, atMost(own, raceTime), "-race"); done || err != nil {
			return v, err
		}
	}
	list, err := r.lintList(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, l := range lintTests {
		of := slices.DeleteFunc(slices.Clone(list), func(t test) bool { return t.Package != l.path })
		if done, err := others("lint mode", l.path, filepath.Join(r.root, l.dir), of, linting); done || err != nil {
			return v, err
		}
	}
	if r.ownOnly {
		return v, nil
	}

	for _, path := range []string{"weft/comm", "weft/rma"} {
		// their tests run internal packages in child processes, whose coverage is unknown
		if strings.HasPrefix(p.path, "weft/internal/") {
			covering[path] = x.of(path)
		}
	}
	delete(covering, p.path)
	left := dependantsTime
	for _, path := range slices.SortedFunc(maps.Keys(covering), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(covering[b]), len(covering[a])), cmp.Compare(a, b))
	}) {
		list := atMost(covering[path], min(left, dependantTime))
		if len(list) == 0 {
			continue
		}
		for _, t := range list {
			left -= t.Took
		}
		if err := r.build(ctx, m, dir, path, bin); err != nil {
			return nil, err
		}
		if same, err := r.isSame(ctx, m, path, bin); err != nil {
			return nil, err
		} else if same {
			if len(own) == 0 {
				v.State = "same"
			}
			continue
		}
		v.State = "survived"
		at := filepath.Join(r.root, filepath.FromSlash(strings.TrimPrefix(path, "weft/")))
		o := r.runTwice(ctx, at, bin, list)
		if o.test != "" {
			o.test = path + " " + o.test
		}
		if kill("dependants", o) {
			return v, nil
		}
	}
	return v, nil
}

// runTwice runs tests. A failing test must fail once more, alone or with the others: a test that
// fails now and then, or that hung on a busy machine, has not noticed a mutant.
func (r *runner) runTwice(ctx context.Context, dir, bin string, list []test) outcome {
	o := r.runList(ctx, dir, bin, list)
	if !o.failed {
		return o
	}
	if i := slices.IndexFunc(list, func(t test) bool { return t.Name == o.test }); i >= 0 {
		if o := r.runList(ctx, dir, bin, list[i:i+1]); o.failed {
			return o
		}
	}
	return r.runList(ctx, dir, bin, list)
}

// atMost returns the first tests of a list that together take at most limit.
func atMost(list []test, limit time.Duration) []test {
	for i, t := range list {
		if limit -= t.Took; limit < 0 {
			return list[:i]
		}
	}
	return list
}

// batches splits tests into those that together take at most five seconds, and the others: most
// mutants are killed by the first batch.
func batches(list []test) [][]test {
	sum := time.Duration(0)
	for i, t := range list {
		if sum += t.Took; sum > 5*time.Second && i > 0 {
			return [][]test{list[:i], list[i:]}
		}
	}
	if len(list) == 0 {
		return nil
	}
	return [][]test{list}
}

// runList runs tests with known durations.
func (r *runner) runList(ctx context.Context, dir, bin string, list []test) outcome {
	sum := time.Duration(0)
	var names []string
	for _, t := range list {
		sum += t.Took
		names = append(names, regexp.QuoteMeta(t.Name))
	}
	args := append(argsOf(list[0].Package, list[0].Tags), "-test.run", "^("+strings.Join(names, "|")+")$")
	return r.runTests(ctx, dir, r.words(bin, list[0].Tags), 20*time.Second+4*sum, args)
}

// hasInTests reports whether a test file of a directory contains some text.
func hasInTests(dir, text string) bool {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	return slices.ContainsFunc(files, func(f string) bool {
		data, err := os.ReadFile(f)
		return err == nil && bytes.Contains(data, []byte(text))
	})
}
