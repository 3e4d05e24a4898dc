// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/race"
)

const modulePath = "weft"

// law is the import law: for each part of the repository, the other parts that it may import. A
// part includes the packages below its path. Imports only point down: docs/architecture.md draws
// them.
var law = map[string][]string{
	"internal/xatomic": {},
	"internal/explore": {"internal/xatomic"}, // only tests use it
	"internal/soak":    {},                   // only tests use it
	"internal/env":     {},
	"internal/names":   {},
	"internal/event":   {"internal/env", "internal/names", "internal/waits"},
	// internal/xatomic only in builds for exploration
	"internal/fabric": {"internal/env", "internal/lobby", "internal/shmem", "internal/keepalive", "internal/waits", "internal/xatomic"},
	// the test suite for fabrics: only tests use it
	"internal/fabric/fabrictest": {"internal/leaktest", "internal/soak", "internal/fabric", "internal/progress"},
	"internal/progress":          {"internal/fabric", "internal/processors", "internal/xatomic"},
	"internal/launch":            {"internal/env", "internal/lobby", "internal/keepalive", "internal/waits"},
	"internal/lobby":             {},
	"internal/keepalive":         {"internal/env"},
	"internal/histogram":         {"internal/env"},
	"internal/vec":               {},
	"internal/processors":        {"internal/env"},
	"internal/boot":              {"internal/env", "internal/fabric", "internal/launch"},
	"internal/race":              {},
	"internal/stream":            {},
	"internal/vet":               {}, // it refers to packages by name only
	"internal/shmem":             {},
	"internal/leaktest":          {}, // the tests of all parts may import it
	"internal/mutate":            {}, // a program for developers
	"internal/friend":            {"internal/event"},
	"internal/chain":             {"internal/names", "internal/race", "internal/xatomic"},
	"internal/addrmap":           {},
	"internal/order":             {"internal/addrmap", "internal/chain"},
	"internal/waits":             {},
	"deps":                       {"internal/chain"},
	"task":                       {"internal/friend", "trace", "internal/xatomic", "internal/env", "internal/event", "internal/processors", "internal/race", "internal/waits", "internal/chain", "deps", "task/internal/say", "task/internal/audit", "task/internal/lint", "task/internal/guests", "task/internal/pool", "task/internal/probe", "task/internal/record", "task/internal/sched", "task/internal/stuck", "task/internal/watchdog"},
	"task/internal/probe":        {"internal/event", "internal/race", "internal/chain", "task/internal/audit", "task/internal/lint", "task/internal/record", "task/internal/watchdog"},
	"task/internal/lint":         {"internal/env", "internal/race", "internal/waits", "internal/chain", "internal/order"},
	"task/internal/record":       {"internal/event", "internal/chain"},
	"task/internal/sched":        {"internal/race", "internal/xatomic", "internal/chain"},
	"task/internal/stuck":        {"internal/waits", "internal/xatomic", "task/internal/say", "task/internal/sched", "task/internal/watchdog"},
	"task/internal/pool":         {"internal/xatomic", "internal/chain"},
	"task/internal/guests":       {"internal/race", "task/internal/sched"},
	"task/internal/say":          {},
	"task/internal/audit":        {"internal/xatomic", "internal/addrmap", "internal/chain", "internal/order", "task/internal/say"},
	"task/internal/watchdog":     {"internal/xatomic", "internal/waits", "internal/chain", "internal/order", "task/internal/say"},
	"comm/internal/callback":     {"internal/xatomic"},
	"comm/internal/coll":         {"comm/internal/mem", "internal/names", "internal/vec", "internal/xatomic"},
	"comm/internal/consensus":    {},
	"comm/internal/deadlock":     {},
	"comm/internal/wire":         {"comm/internal/consensus", "comm/internal/match", "comm/internal/mem", "internal/fabric"},
	"comm/internal/count":        {"internal/env", "internal/histogram"},
	"comm/internal/match":        {},
	"comm/internal/smcoll":       {"comm/internal/coll", "comm/internal/mem", "internal/processors", "internal/race", "internal/shmem", "internal/xatomic"},
	"comm/internal/mem":          {"internal/processors", "internal/stream"},
	"comm":                       {"comm/internal/consensus", "comm/internal/callback", "comm/internal/coll", "comm/internal/count", "comm/internal/match", "comm/internal/smcoll", "comm/internal/mem", "comm/internal/deadlock", "comm/internal/wire", "internal/boot", "internal/friend", "trace", "internal/xatomic", "internal/env", "internal/event", "internal/fabric", "internal/launch", "internal/processors", "internal/progress", "internal/shmem", "internal/waits"},
	"rma":                        {"internal/friend", "internal/xatomic", "internal/event", "comm"},
	"nam":                        {"internal/env", "internal/friend", "internal/shmem", "internal/xatomic", "internal/event", "internal/waits", "comm", "rma"},
	"tampi":                      {"internal/friend", "internal/xatomic", "internal/event", "internal/race", "comm", "task"},
	"trace":                      {"internal/event"},
	"observe":                    {"trace", "internal/env", "internal/event", "internal/order"},
	"examples/heat":              public,
	"bench":                      public,
	"cmd/weft":                   append([]string{"internal/env", "internal/event", "internal/launch", "internal/race", "internal/vet"}, public...),
	"docs":                       public, // the programs of the guide, which are tests
	".":                          {},     // the package comment and these tests
}

// public lists the packages for users.
var public = []string{"deps", "task", "comm", "rma", "nam", "tampi", "trace", "observe"}

// testsMayAlsoImport lists additional imports of a part's tests.
var testsMayAlsoImport = map[string][]string{
	// the table that docs/environment.md explains; what a build for lint mode leaves out
	".": {"internal/env", "internal/race"},
	// what it binds; ranks as on several nodes, and as processes
	"tampi": {"deps", "rma", "trace", "internal/fabric", "internal/launch", "internal/soak", "internal/explore"},
	// ranks as processes
	"rma":                    {"trace", "internal/fabric", "internal/launch", "internal/soak", "internal/explore"},
	"nam":                    {"trace", "internal/fabric", "internal/launch"},
	"examples/heat":          {"internal/fabric", "internal/launch", "internal/event", "internal/soak"},
	"internal/chain":         {"internal/explore", "internal/order"}, // the oracle
	"task":                   {"internal/explore", "internal/order", "internal/soak"},
	"task/internal/sched":    {"internal/explore"},
	"task/internal/stuck":    {"internal/chain"}, // the nodes that a scheduler queues
	"internal/fabric":        {"internal/explore", "internal/progress", "internal/fabric/fabrictest"},
	"internal/progress":      {"internal/explore"},
	"internal/boot":          {"internal/progress"},
	"comm":                   {"internal/explore", "internal/soak", "internal/vec"},
	"comm/internal/callback": {"internal/explore"},
	"comm/internal/smcoll":   {"internal/explore"},
	"cmd/weft":               {"internal/fabric"},               // whether the build has MPI
	"observe":                {"deps", "task", "tampi", "comm"}, // what it observes
	"trace":                  {"deps", "task", "tampi", "comm"}, // what it records
}

// thirdParty lists the modules that code may import, with the reason and the parts that do. A
// change that adds a module must argue for it.
var thirdParty = map[string]struct {
	why string
	by  []string // tests of all parts may import testify
}{
	"github.com/panjf2000/ants/v2":        {"spare goroutines for tasks that block; a peer of the benchmarks", []string{"task", "bench"}},
	"go.uber.org/atomic":                  {"atomic values that sync/atomic lacks: Float64, Duration, Error, String", []string{"task", "comm", "nam"}},
	"go.etcd.io/bbolt":                    {"metadata of network-attached memory", []string{"nam"}},
	"go.uber.org/goleak":                  {"tests find leaked goroutines", []string{"internal/leaktest"}},
	"golang.org/x/sync":                   {"errgroup: a peer of the benchmarks; judges mutants concurrently", []string{"bench", "internal/mutate"}},
	"golang.org/x/sys":                    {"system calls that syscall lacks; features of the processor", []string{"nam", "examples/heat", "bench", "task/internal/sched", "internal/fabric", "internal/progress", "internal/shmem", "internal/launch", "internal/mutate", "internal/vec"}},
	"golang.org/x/tools":                  {"analyzers for go vet, and loading of packages: only for programs and the tests of the repository", []string{"internal/vet", "internal/mutate", "cmd/weft", "."}},
	"golang.org/x/term":                   {"whether the output is a terminal", []string{"examples/heat", "bench", "cmd/weft"}},
	"github.com/schollz/progressbar/v3":   {"progress of programs on a terminal", []string{"examples/heat", "bench", "cmd/weft"}},
	"github.com/spf13/cobra":              {"command lines with subcommands", []string{"cmd/weft"}},
	"github.com/google/pprof":             {"CPU profiles, read and written", []string{"observe", "bench", "examples/heat"}},
	"gonum.org/v1/plot":                   {"plots of the benchmarks' figures, as SVG", []string{"bench"}},
	"github.com/stretchr/testify":         {"assertions of tests", nil},
	"github.com/stretchr/testify/require": {"part of testify", nil},
}

// goFile is a parsed file of the repository.
type goFile struct {
	path string // with slashes, relative to the root
	part string // key of law
	test bool
	ast  *ast.File
}

func (f *goFile) imports() []string {
	var list []string
	for _, s := range f.ast.Imports {
		p, _ := strconv.Unquote(s.Path.Value) // the parser has checked it
		list = append(list, p)
	}
	return list
}

// textFiles lists the files of the repository that match, with slashes, relative to the root.
func textFiles(t *testing.T, match func(string) bool) []string {
	t.Helper()
	var list []string
	require.NoError(t, filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "shared"):
			return filepath.SkipDir
		case d.Type().IsRegular() && match(filepath.ToSlash(p)):
			list = append(list, filepath.ToSlash(p))
		}
		return nil
	}))
	require.NotEmpty(t, list)
	return list
}

func isText(p string) bool {
	return slices.Contains([]string{".go", ".s", ".c", ".cpp", ".h", ".md", ".mod", ".sh", ".golden", ".script", ".txt", ".conf"}, path.Ext(p)) || p == ".ci/run"
}

func isSource(p string) bool {
	return slices.Contains([]string{".go", ".s", ".c", ".cpp", ".h", ".sh"}, path.Ext(p)) || p == ".ci/run"
}

func goFiles(t *testing.T) []*goFile {
	t.Helper()
	var files []*goFile
	for _, p := range textFiles(t, func(p string) bool { return path.Ext(p) == ".go" && !strings.Contains(p, "testdata/") }) {
		f, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, &goFile{p, partOf(path.Dir(p)), strings.HasSuffix(p, "_test.go"), f})
	}
	return files
}

// partOf returns the part that a directory belongs to; "" if law has none.
func partOf(dir string) string {
	for d := dir; d != "."; d = path.Dir(d) {
		if _, ok := law[d]; ok {
			return d
		}
	}
	if dir == "." {
		return "."
	}
	return ""
}

func TestImportLaw(t *testing.T) {
	for _, f := range goFiles(t) {
		if !assert.NotEmpty(t, f.part, "%s: the import law has no line for this directory", f.path) {
			continue
		}
		for _, imp := range f.imports() {
			dir, ours := strings.CutPrefix(imp, modulePath+"/")
			if !ours {
				continue
			}
			to := partOf(dir)
			legal := to == f.part || f.test && to == "internal/leaktest" || slices.Contains(law[f.part], to) || f.test && slices.Contains(testsMayAlsoImport[f.part], to)
			assert.True(t, legal, "%s imports %s; %s may import only %v", f.path, imp, f.part, law[f.part])
		}
	}
}

// A build for lint mode leaves the task runtime out of the race detector: also the packages that
// only the runtime imports, such as its observers.
func TestLintModeLeavesOutTheRuntime(t *testing.T) {
	for part := range law {
		if part == "task" || strings.HasPrefix(part, "task/") {
			assert.Contains(t, race.Packages, modulePath+"/"+part, "internal/race.Packages lacks %s", part)
		}
	}
}

func TestThirdPartyModules(t *testing.T) {
	for _, f := range goFiles(t) {
		for _, imp := range f.imports() {
			first, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(first, ".") {
				continue // ours or the standard library's
			}
			module := imp
			for module != "." && thirdParty[module].why == "" {
				module = path.Dir(module)
			}
			if !assert.NotEqual(t, ".", module, "%s imports %s, which is not on the list of third-party modules", f.path, imp) {
				continue
			}
			if strings.HasPrefix(module, "github.com/stretchr/testify") {
				// Packages named ...test are test suites for other packages.
				assert.True(t, f.test || strings.HasSuffix(f.ast.Name.Name, "test"), "%s imports %s outside of a test", f.path, imp)
				continue
			}
			assert.Contains(t, thirdParty[module].by, f.part, "%s imports %s", f.path, imp)
		}
	}
	mod, err := os.ReadFile("go.mod")
	require.NoError(t, err)
	for line := range strings.Lines(string(mod)) {
		words := strings.Fields(line)
		if len(words) == 2 && strings.Contains(words[0], ".") {
			assert.NotEmpty(t, thirdParty[words[0]].why, "go.mod requires %s directly, which is not on the list", words[0])
		}
	}
	assert.NotContains(t, string(mod), "toolchain", "tools are pinned outside go.mod")
	assert.NotContains(t, string(mod), "\ntool", "tools are pinned outside go.mod")
}

// The tests of each package fail if they leave goroutines behind.
func TestPackagesCheckForLeaks(t *testing.T) {
	checks := map[string]bool{}
	for _, f := range goFiles(t) {
		if dir := path.Dir(f.path); f.test {
			checks[dir] = checks[dir] || strings.Contains(read(t, f.path), "leaktest."+"Main(") || dir == "internal/leaktest"
		}
	}
	for dir, does := range checks {
		assert.True(t, does, "%s: the package needs a TestMain that calls leaktest.Main", dir)
	}
}

// Each package has one package comment, which begins as godoc requires.
func TestPackageComments(t *testing.T) {
	comments, names := map[string][]string{}, map[string]string{}
	for _, f := range goFiles(t) {
		dir := path.Dir(f.path)
		if f.test {
			assert.Nil(t, f.ast.Doc, "%s: the package comment belongs to the package, not to a test", f.path)
			continue
		}
		names[dir] = f.ast.Name.Name
		if f.ast.Doc != nil {
			comments[dir] = append(comments[dir], f.path)
			if strings.Count(f.ast.Doc.Text(), "\n") > 24 {
				assert.Equal(t, "doc.go", path.Base(f.path), "%s: a long package comment belongs in doc.go", f.path)
			}
			if name := f.ast.Name.Name; name != "main" {
				assert.True(t, strings.HasPrefix(f.ast.Doc.Text(), "Package "+name+" "), "%s: a package comment begins with Package %s", f.path, name)
			}
		}
	}
	for dir := range names {
		assert.Len(t, comments[dir], 1, "%s: a package has exactly one package comment", dir)
	}
}

func TestLicenceHeaders(t *testing.T) {
	want := []string{"SPDX-FileCopyrightText: The weft authors", "SPDX-License-Identifier: Apache-2.0"}
	for _, p := range textFiles(t, isSource) {
		text := read(t, p)
		for strings.HasPrefix(text, "#!") || strings.HasPrefix(text, "//go:build ") || strings.HasPrefix(text, "\n") {
			_, text, _ = strings.Cut(text, "\n")
		}
		lines := strings.SplitN(text, "\n", 3)
		for i, w := range want {
			require.Less(t, i, len(lines), p)
			assert.Equal(t, w, strings.TrimLeft(lines[i], "/#* "), "%s: the licence header", p)
		}
	}
}

// File names show what the files contain: unsafe code and code for one system are in files of their
// own.
func TestFileNames(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.test && slices.Contains(f.imports(), "unsafe") {
			assert.True(t, strings.HasSuffix(f.path, "_unsafe.go"), "%s imports unsafe: its name must end in _unsafe.go", f.path)
		}
		if base, ok := strings.CutSuffix(f.path, "_linux.go"); ok {
			assert.FileExists(t, base+"_unsupported.go", "%s: other systems need a file, too", f.path)
		}
		assert.LessOrEqual(t, strings.Count(read(t, f.path), "\n"), 600, "%s: split it", f.path)
	}
}

// forbidden lists texts that must not be in the repository. The expressions do not match
// themselves.
var forbidden = []struct{ what, expr string }{
	{"a path of a developer's machine", `(^|[^\w.])/(work|home|root|Users)/`},
	{"unfinished work", `\b(TO[D]O|FIX[M]E|HA[C]K|X[X]X)\b`},
	{"unfinished work", `(?i)\bnot (yet )?implem[e]nted`},
}

func TestForbiddenText(t *testing.T) {
	for _, rule := range forbidden {
		re := regexp.MustCompile(rule.expr)
		for _, p := range textFiles(t, isText) {
			for i, line := range strings.Split(read(t, p), "\n") {
				assert.False(t, re.MatchString(line), "%s:%d: %s: %s", p, i+1, rule.what, line)
			}
		}
	}
}

func read(t *testing.T, p string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(p))
	require.NoError(t, err)
	return string(b)
}

// Of is inlined: otherwise a message between goroutines costs 5 % more.
func TestInlined(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-m", "./comm").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "can inline Of[go.shape.uint8]")
}
