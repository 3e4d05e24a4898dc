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

// Some code is there only in programs that are built for lint mode. Its tests are those of one
// package and some of another, which "weft lint" builds and runs. Which lines they run is not
// measured.
var lintTests = []struct{ path, dir, prefix string }{
	{"weft/tampi/internal/linttest", "tampi/internal/linttest", "Test"},
	{"weft/task", "task", "TestLint"},
}

// linting stands for the tags of tests in lint mode.
const linting = "weftlint"

var asLint = []string{"lint", "--self"}

// lintTime bounds all of lint mode's tests without a mutant.
const lintTime = 5 * time.Minute

// lint is what is known of lint mode's tests.
type lint struct {
	once  sync.Once
	weft  string // the program, when tests is known
	tests []test
	err   error
}

// words are those that run a test binary.
func (r *runner) words(bin, tags string) []string {
	if tags == linting {
		return slices.Concat([]string{r.lint.weft}, asLint, []string{bin})
	}
	return []string{bin}
}

// lintList returns the tests of lint mode that may kill m: all, if m is of code that lint mode is
// made of; and if dependants are not asked, only if it is in a file of lint mode.
func (r *runner) lintList(ctx context.Context, m *mutant) ([]test, error) {
	isPart := slices.Contains([]string{"weft/task", "weft/task/internal/lint", "weft/internal/chain", "weft/tampi"}, m.Package)
	if !r.hasRace || !isPart || r.ownOnly && m.Package != "weft/task/internal/lint" {
		return nil, nil
	}
	r.lint.once.Do(func() { r.lint.tests, r.lint.err = r.findLint(ctx) })
	return r.lint.tests, r.lint.err
}

// findLint builds the program and the tests of lint mode, and looks how long these take.
func (r *runner) findLint(ctx context.Context) (list []test, err error) {
	if _, err := os.Stat(filepath.Join(r.root, lintTests[0].dir)); errors.Is(err, fs.ErrNotExist) {
		// another module, of the tests
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
			r.logf("the tests of lint mode in %s kill nothing, since one %s by itself: %s", p.path, o.how, o.test)
			continue
		}
		for _, n := range names {
			list = append(list, test{Package: p.path, Tags: linting, Name: n, Took: time.Since(began) / time.Duration(len(names))})
		}
	}
	return list, nil
}
