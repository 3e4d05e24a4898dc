// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// test is one top-level test, as it behaves without a mutant.
type test struct {
	Package string
	Tags    string // build tags; explorations are separate tests of the same package
	Name    string
	Took    time.Duration
}

// exploring is the tag of explorations.
const exploring = "explore"

// reach says which tests run which lines. It lacks lines that run only in child processes of a
// test: a profile covers one process.
type reach struct {
	Hash  string // hash of the tree and the parts
	Tests []test
	Lines map[string]map[int][]int // by file, with slashes, and line: indices of Tests
	Unfit []string                 // tests that fail alone or take too long: they are not used
}

// testTime bounds a test, alone and without a mutant; exploreTime bounds an exploration.
const (
	testTime    = 2 * time.Minute
	exploreTime = 5 * time.Minute
)

// isTest reports whether a listed name is that of a test that may kill a mutant. Tests of planted
// bugs may not: they check known bugs only.
func isTest(name string) bool {
	return (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Example") || strings.HasPrefix(name, "Fuzz")) && !strings.HasPrefix(name, "TestPlanted")
}

// goPackage is the output of go list for a package.
type goPackage struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
	Deps                      []string
	TestImports, XTestImports []string
}

// testedBy returns the packages whose tests depend on any of the parts, first those of the parts
// themselves.
func (r *runner) testedBy(ctx context.Context, parts []*part) ([]goPackage, error) {
	out, err := r.command(ctx, "go", "list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles,Deps,TestImports,XTestImports", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]goPackage{}
	var order []string
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all[p.ImportPath] = p
		order = append(order, p.ImportPath)
	}
	isPart := func(path string) bool {
		return slices.ContainsFunc(parts, func(p *part) bool { return p.path == path })
	}
	sees := func(path string) bool { return isPart(path) || slices.ContainsFunc(all[path].Deps, isPart) }
	var own, others []goPackage
	for _, path := range order {
		switch p := all[path]; {
		case len(p.TestGoFiles)+len(p.XTestGoFiles) == 0:
		case isPart(path):
			own = append(own, p)
		case !r.ownOnly && slices.ContainsFunc(slices.Concat([]string{path}, p.TestImports, p.XTestImports), sees):
			others = append(others, p)
		}
	}
	return append(own, others...), nil
}

// hashOfTree returns a hash of all source files that tests can depend on.
func hashOfTree(root string) (string, error) {
	h := sha256.New()
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && p != root:
			return filepath.SkipDir
		case !d.Type().IsRegular() || !slices.Contains([]string{".go", ".s", ".mod", ".sum"}, filepath.Ext(p)):
			return nil
		}
		data, err := os.ReadFile(p)
		fmt.Fprintf(h, "%s %d\n", p, len(data))
		h.Write(data)
		return err
	})
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// reachOf measures which tests run which lines of the parts, or reads the result of an earlier call
// for the same tree and parts from a file.
func (r *runner) reachOf(ctx context.Context, parts []*part, file string) (*reach, error) {
	hash, err := hashOfTree(r.root)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		hash += " " + p.path
	}
	if r.ownOnly {
		hash += " without dependants"
	}
	if f, err := os.Open(file); err == nil {
		old := new(reach)
		err := gob.NewDecoder(f).Decode(old)
		f.Close()
		if err == nil && old.Hash == hash {
			return old, nil
		}
	}
	list, err := r.testedBy(ctx, parts)
	if err != nil {
		return nil, err
	}
	x := &reach{Hash: hash, Lines: map[string]map[int][]int{}}
	for i, p := range list {
		r.logf("coverage of the tests of %s (%d of %d)", p.ImportPath, i+1, len(list))
		if err := r.coverage(ctx, x, p, parts, ""); err != nil {
			return nil, err
		}
	}
	for _, p := range list {
		if !slices.ContainsFunc(parts, func(q *part) bool { return q.path == p.ImportPath }) || !hasInTests(p.Dir, "func TestExplore") {
			continue
		}
		r.logf("coverage of the explorations of %s", p.ImportPath)
		if err := r.coverage(ctx, x, p, parts, exploring); err != nil {
			return nil, err
		}
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	return x, errors.Join(gob.NewEncoder(f).Encode(x), f.Close())
}

// coverage runs the tests of p one by one; with the tag exploring, the explorations.
func (r *runner) coverage(ctx context.Context, x *reach, p goPackage, parts []*part, tags string) error {
	dir, err := os.MkdirTemp(r.tmp, "cover")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "test.exe")
	var paths []string
	for _, q := range parts {
		paths = append(paths, q.path)
	}
	control := filepath.Join(dir, "control.exe")
	for _, flags := range [][]string{
		{"-cover", "-covermode=set", "-coverpkg=" + strings.Join(paths, ","), "-o", bin},
		slices.Concat([]string{"-o", control}, asMutants),
	} {
		build := r.command(ctx, "go", slices.Concat([]string{"test", "-c", "-tags", tags}, flags, []string{p.ImportPath})...)
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("the tests of %s do not build: %w\n%s", p.ImportPath, err, out)
		}
	}
	names, err := r.list(ctx, p.Dir, []string{bin})
	if err != nil {
		return err
	}
	limit := testTime
	if tags == exploring {
		limit = exploreTime
		names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "TestExplore") })
	}
	found := make([]covered, len(names))
	var g errgroup.Group
	g.SetLimit(r.jobs)
	for i, name := range names {
		g.Go(func() (err error) {
			// Whether a test may be used is decided in the build of mutants. Measuring the coverage
			// may make the test fail; then its lines are unknown.
			args := append(argsOf(p.ImportPath, tags), "-test.run", "^"+regexp.QuoteMeta(name)+"$")
			c := &found[i]
			began := time.Now()
			c.unfit = r.runTests(ctx, p.Dir, []string{control}, limit, args).failed
			c.took = time.Since(began)
			profile := filepath.Join(dir, strconv.Itoa(i))
			r.runTests(ctx, p.Dir, []string{bin}, limit, append(args, "-test.coverprofile", profile), dir)
			if err := errors.Join(ctx.Err(), r.brokenBy()); err != nil {
				return err
			}
			if c.lines, err = readProfile(profile); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, c := range found {
		if c.unfit {
			x.Unfit = append(x.Unfit, p.ImportPath+" "+names[i])
			continue
		}
		id := len(x.Tests)
		x.Tests = append(x.Tests, test{p.ImportPath, tags, names[i], c.took})
		for f, set := range c.lines {
			f = strings.TrimPrefix(f, "weft/")
			if x.Lines[f] == nil {
				x.Lines[f] = map[int][]int{}
			}
			for l := range set {
				x.Lines[f][l] = append(x.Lines[f][l], id)
			}
		}
	}
	return nil
}

// covered is the result of a test without a mutant.
type covered struct {
	unfit bool
	took  time.Duration
	lines map[string]map[int]bool
}

// list returns the names of the tests in a binary.
func (r *runner) list(ctx context.Context, dir string, bin []string) ([]string, error) {
	c := r.command(ctx, bin[0], slices.Concat(bin[1:], []string{"-test.list", "."})...)
	c.Dir = dir
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: -test.list: %w", dir, err)
	}
	var names []string
	for l := range strings.Lines(string(out)) {
		if l = strings.TrimSpace(l); isTest(l) {
			names = append(names, l)
		}
	}
	return names, nil
}

// readProfile returns the lines that have run according to a profile, by file.
func readProfile(file string) (map[string]map[int]bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := map[string]map[int]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		// weft/deps/deps.go:10.2,12.3 2 1
		name, rest, ok := strings.Cut(s.Text(), ":")
		var from, fromColumn, to, toColumn, statements, count int
		if !ok || name == "mode" {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &from, &fromColumn, &to, &toColumn, &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if count == 0 {
			continue
		}
		if lines[name] == nil {
			lines[name] = map[int]bool{}
		}
		for l := from; l <= to; l++ {
			lines[name][l] = true
		}
	}
	return lines, nil
}

// argsOf returns additional arguments for the tests of a package.
func argsOf(path, tags string) []string {
	if tags == exploring && path == "weft/internal/chain" { // without it, they take many minutes
		return []string{"-test.short"}
	}
	return nil
}

// covering returns the tests with some tags that run one of m's lines, by package, the fastest
// first.
func (x *reach) covering(m *mutant, tags string) map[string][]test {
	ids := map[int]bool{}
	for l := m.Lines[0]; l <= m.Lines[1]; l++ {
		for _, id := range x.Lines[m.File][l] {
			ids[id] = true
		}
	}
	by := map[string][]test{}
	for id := range ids {
		if t := x.Tests[id]; t.Tags == tags {
			by[t.Package] = append(by[t.Package], t)
		}
	}
	for _, list := range by {
		byTime(list)
	}
	return by
}

// of returns all tests of a package except explorations, the fastest first.
func (x *reach) of(path string) []test {
	var list []test
	for _, t := range x.Tests {
		if t.Package == path && t.Tags == "" {
			list = append(list, t)
		}
	}
	byTime(list)
	return list
}

func byTime(list []test) {
	slices.SortFunc(list, func(a, b test) int { return cmp.Or(cmp.Compare(a.Took, b.Took), cmp.Compare(a.Name, b.Name)) })
}
