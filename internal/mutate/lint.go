// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// lintTests are the tests of code that is only in programs built for lint mode. "weft lint" builds
// and runs them. Their coverage is not measured.
var lintTests = []struct{ path, dir, prefix string }{
	{"weft/tampi/internal/linttest", "tampi/internal/linttest", "Test"},
	{"weft/task", "task", "TestLint"},
}

// linting stands for the tags of tests in lint mode.
const linting = "weftlint"

var asLint = []string{"lint", "--self"}

// lintTime bounds all tests of lint mode together, without a mutant.
const lintTime = 5 * time.Minute

// lint is the tests of lint mode.
type lint struct {
	once  sync.Once
	weft  string // file of the program weft, set before tests
	tests []test
	err   error
}

// words returns the command that runs a test binary.
func (r *runner) words(bin, tags string) []string {
	if tags == linting {
		return slices.Concat([]string{r.lint.weft}, asLint, []string{bin})
	}
	return []string{bin}
}

// lintList returns the tests of lint mode that may kill m: all of them if m is in a package that
// lint mode uses. Without tests of dependants (ownOnly), only mutants of the package for lint mode
// have any.
func (r *runner) lintList(ctx context.Context, m *mutant) ([]test, error) {
	isPart := slices.Contains([]string{"weft/task", "weft/task/internal/lint", "weft/internal/chain", "weft/tampi"}, m.Package)
	if !r.hasRace || !isPart || r.ownOnly && m.Package != "weft/task/internal/lint" {
		return nil, nil
	}
	r.lint.once.Do(func() { r.lint.tests, r.lint.err = r.findLint(ctx) })
	return r.lint.tests, r.lint.err
}

// findLint builds the program weft and the tests of lint mode, and measures how long the tests
// take.
func (r *runner) findLint(ctx context.Context) (list []test, err error) {
	if _, err := os.Stat(filepath.Join(r.root, lintTests[0].dir)); errors.Is(err, fs.ErrNotExist) {
		// the tree is a module of a test of this program
		return nil, nil
	}
	r.lint.weft = filepath.Join(r.tmp, "weft.exe")
	if out, err := r.command(ctx, "go", "build", "-o", r.lint.weft, "./cmd/weft").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build ./cmd/weft: %w: %s", err, out)
	}
	bin := filepath.Join(r.tmp, "lint.exe")
	for _, p := range lintTests {
		dir := filepath.Join(r.root, p.dir)
		if err := r.made(r.command(ctx, r.lint.weft, slices.Concat(asLint, []string{"go", "test", "-c"}, asMutants, []string{"-o", bin, p.path})...), true); err != nil {
			return nil, err
		}
		names, err := r.list(ctx, dir, r.words(bin, linting))
		if err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, p.prefix) })
		began := time.Now()
		if o := r.runTests(ctx, dir, r.words(bin, linting), lintTime, []string{"-test.run", "^" + p.prefix}); o.failed {
			r.logf("the tests of lint mode in %s are not used, since one %s without a mutant: %s", p.path, o.how, o.test)
			continue
		}
		for _, n := range names {
			list = append(list, test{Package: p.path, Tags: linting, Name: n, Took: time.Since(began) / time.Duration(len(names))})
		}
	}
	return list, nil
}
