// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"weft/internal/leaktest"
)

func TestMain(m *testing.M) {
	if isCell() {
		cell()
	}
	os.Exit(leaktest.Main(m))
}

const head = `package p
import "sync/atomic"
type mutex struct{}
func (*mutex) Lock() {}
func (*mutex) Unlock() {}
type osFile struct{}
func (*osFile) Sync() error { return nil }
var (n int; s string; mu mutex; word atomic.Uint32; ptr atomic.Pointer[int]; ready = make(chan int, 1); file *osFile)
func wakeAll() {}
func body(a, b int, err error) error {
`

// sitesIn returns the changed bodies, by operator.
func sitesIn(t *testing.T, body string) map[string][]string {
	t.Helper()
	src := head + body + "\n}\n"
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "p.go", src, parser.ParseComments)
	require.NoError(t, err, src)
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	p, err := (&types.Config{Importer: importer.ForCompiler(fset, "source", nil)}).Check("p", fset, []*ast.File{f}, info)
	require.NoError(t, err, src)
	by := map[string][]string{}
	for _, s := range sitesOf(&packages.Package{Fset: fset, Types: p, TypesInfo: info}, f, []byte(src)) {
		if s.begin < len(head) {
			continue
		}
		out := src[len(head):s.begin] + s.text + src[s.end:]
		by[s.operator] = append(by[s.operator], strings.TrimSuffix(out, "\n}\n"))
		m := (&part{}).mutant(location{s, "p.go", []byte(src), f})
		_, err := parser.ParseFile(token.NewFileSet(), "p.go", m.src, 0)
		require.NoError(t, err, "%s", m.src)
		require.NotEmpty(t, m.Diff)
	}
	return by
}

func TestOperators(t *testing.T) {
	for _, row := range []struct {
		body string
		want map[string][]string
	}{
		{"if a == b { return nil }; return nil", map[string][]string{"condition": {"if a != b { return nil }; return nil"}}},
		{"if a < b { return nil }; return nil", map[string][]string{
			"boundary": {"if a <= b { return nil }; return nil", "if a >= b { return nil }; return nil"},
		}},
		{"for a > 1 { break }; return nil", map[string][]string{
			"boundary": {"for a >= 1 { break }; return nil", "for a <= 1 { break }; return nil",
				"for a > (1+1) { break }; return nil", "for a > (1-1) { break }; return nil"},
			"drop": {"for a > 1 { {} }; return nil"},
		}},
		{"if !(a == b) && a < b { n++ }; return nil", map[string][]string{
			"condition": {
				"if !(!(a == b) && a < b) { n++ }; return nil", "if !(a == b) { n++ }; return nil", "if a < b { n++ }; return nil",
				"if !(a == b) || a < b { n++ }; return nil", "if (a == b) && a < b { n++ }; return nil", "if !(a != b) && a < b { n++ }; return nil",
			},
			"boundary":   {"if !(a == b) && a <= b { n++ }; return nil", "if !(a == b) && a >= b { n++ }; return nil"},
			"arithmetic": {"if !(a == b) && a < b { n-- }; return nil"},
			"drop":       {"if !(a == b) && a < b { {} }; return nil"},
		}},
		{"n = a\nreturn nil", map[string][]string{"drop": {"_ = a\nreturn nil"}}},
		{"n, s = a, s\nreturn nil", nil},
		{"n += a\nreturn nil", map[string][]string{"drop": {"{}\nreturn nil"}, "arithmetic": {"n -= a\nreturn nil"}}},
		{"s += s\nreturn nil", map[string][]string{"drop": {"{}\nreturn nil"}}},
		{"n++\nreturn nil", map[string][]string{"drop": {"{}\nreturn nil"}, "arithmetic": {"n--\nreturn nil"}}},
		{"println(a,\nb)\nreturn nil", map[string][]string{"drop": {"{\n}\nreturn nil"}}},
		{"mu.Lock()\nmu.Unlock()\nreturn nil", map[string][]string{
			"drop": {"{}\nmu.Unlock()\nreturn nil"}, "unlock": {"mu.Lock()\n{}\nreturn nil"}, "swap": {"mu.Unlock()\nmu.Lock()\nreturn nil"},
		}},
		{"mu.Lock()\ndefer mu.Unlock()\nreturn nil", map[string][]string{
			"drop": {"{}\ndefer mu.Unlock()\nreturn nil"}, "unlock": {"mu.Lock()\n{}\nreturn nil"},
		}},
		{"defer mu.Unlock()\nreturn nil", map[string][]string{"unlock": {"{}\nreturn nil"}}},
		{"wakeAll()\nreturn nil", map[string][]string{"wake": {"{}\nreturn nil"}}},
		{"ready <- a\nreturn nil", map[string][]string{"wake": {"{}\nreturn nil"}}},
		{"close(ready)\nreturn nil", map[string][]string{"wake": {"{}\nreturn nil"}}},
		{"return err", map[string][]string{"error path": {"return error(nil)"}}},
		{"if err != nil { n = 1 }; return nil", map[string][]string{
			"condition":  {"if err == nil { n = 1 }; return nil"},
			"error path": {"if false && err != nil { n = 1 }; return nil"},
			"drop":       {"if err != nil { _ = 1 }; return nil"},
		}},
		{"return file.Sync()", map[string][]string{"force": {"return error(nil)"}, "error path": {"return error(nil)"}}},
		{"word.Store(1)\nreturn nil", map[string][]string{
			"drop": {"{}\nreturn nil"}, "atomic": {"func(v uint32) { *(*uint32)(unsafe.Pointer(&word)) = v }(1)\nreturn nil"},
		}},
		{"_ = ptr.CompareAndSwap(nil, &n)\nreturn nil", map[string][]string{
			"atomic": {"_ = func(old, v *int) bool { p := (**int)(unsafe.Pointer(&ptr)); is := *p == old; if is { *p = v }; return is }(nil, &n)\nreturn nil"},
		}},
		{"_ = word.Add(2)\nreturn nil", map[string][]string{
			"atomic": {"_ = func(d uint32) uint32 { p := (*uint32)(unsafe.Pointer(&word)); *p += d; return *p }(2)\nreturn nil"},
		}},
	} {
		got := sitesIn(t, row.body)
		if row.want == nil {
			row.want = map[string][]string{}
		}
		require.Equal(t, row.want, got, row.body)
	}
}

// A module with one function that is tested and one that is not: mutants of the first are killed,
// and those of the second survive. A second call takes all verdicts from the first.
func TestMeasure(t *testing.T) {
	newCells(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":               "module weft\n\ngo 1.26\n",
		"deps/deps.go":         "package deps\n\nfunc Max(a, b int) int {\n\tif a > b {\n\t\treturn a\n\t}\n\treturn b\n}\n\nfunc Untested(a int) int {\n\tif a == 7 {\n\t\treturn 1\n\t}\n\treturn 0\n}\n\nfunc Explored(a int) int {\n\tif a == 3 {\n\t\treturn 1\n\t}\n\treturn 0\n}\n",
		"deps/explore_test.go": "//go:build explore\n\npackage deps\n\nimport \"testing\"\n\nfunc TestExploreAll(t *testing.T) { if Explored(3) != 1 || Explored(2)+Explored(4) != 0 { t.Fatal(3) } }\n",
		"deps/max_test.go":     "package deps\n\nimport \"testing\"\n\nfunc TestMax(t *testing.T) {\n\tfor a := range 4 {\n\t\tif Max(a, 2) < a || Max(a, 2) < 2 || Max(a, 2) != max(a, 2) {\n\t\t\tt.Fatal(a)\n\t\t}\n\t}\n}\n\nfunc TestExplored(t *testing.T) { t.Log(Explored(len(t.Name()))) }\n\nfunc TestUnmeasured(t *testing.T) { if testing.CoverMode() != \"\" { t.Fatal(7) } }\n\nfunc TestUnfit(t *testing.T) { t.Fatal(7) }\n\nfunc TestPlanted(t *testing.T) { if Untested(7) != 1 || Untested(6) != 0 { t.Fatal(7) } }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	args := []string{"-seed", "1", "-n", "100", "-out", filepath.Join(dir, "out"), "./deps"}
	var first, second, progress bytes.Buffer
	require.NoError(t, run(t.Context(), args, &first, &progress), "%s", &progress)
	require.NoError(t, run(t.Context(), args, &second, &progress))
	require.Equal(t, first.String(), second.String())
	// Sites of a > b: >=, which makes no difference, and <=. Sites of a == 7: !=, 8 and 6; no test
	// that counts notices them. Sites of a == 3: the same, and the exploration notices them.
	require.Contains(t, first.String(), "| weft/deps | 8 | 1 | 3 | 0 | 0 | 0 | 4 | 50 % | 0 |", "%s\n%s", &first, &progress)
	require.Contains(t, first.String(), "deps/deps.go:4, boundary, run by 1 tests of its package:\n\n    -\tif a > b {\n    +\tif a >= b {\n")
	require.Contains(t, first.String(), "deps/deps.go:11, ")
	// A test that fails without a mutant is not used. A test that fails only while coverage is
	// measured is used.
	require.Contains(t, progress.String(), "weft/deps TestUnfit fails without a mutant")
	require.NotContains(t, progress.String(), "TestUnmeasured fails without a mutant")
	// A run that was stopped continues: mutants that it had judged are not judged again.
	file := filepath.Join(dir, "out", "results.json")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	require.NoError(t, os.WriteFile(file, bytes.Join(slices.Concat(lines[:3], lines[5:]), nil), 0o600))
	var resumed, judged bytes.Buffer
	require.NoError(t, run(t.Context(), args, &resumed, &judged))
	require.Equal(t, first.String(), resumed.String())
	require.Equal(t, 2, strings.Count(judged.String(), "deps/deps.go:"), &judged)
	// Two at a time: the same mutants, the same verdicts.
	var third bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-jobs", "2", "-seed", "1", "-n", "100", "./deps"}, &third, &progress))
	require.Equal(t, first.String(), third.String())
	// Some operators only.
	var listed bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-list", "-operators", "boundary, drop", "./deps"}, &listed, &progress))
	require.Equal(t, strings.Count(listed.String(), "deps/deps.go:"), strings.Count(listed.String(), " boundary\n"), &listed)
	require.Contains(t, listed.String(), "deps/deps.go:4 boundary\n-\tif a > b {\n+\tif a >= b {\n")
	args[1] = "2"
	require.ErrorContains(t, run(t.Context(), args, &first, &progress), "another tree, seed (1)")
}

// Large parts get more mutants. A small part gets an equal share, up to enough. No part gets more
// than it has sites.
func TestQuotas(t *testing.T) {
	parts := []*part{{lines: 10000, left: 5000}, {lines: 100, left: 100}, {lines: 100, left: 7}}
	for n, want := range map[int][]int{3: {3, 1, 1}, 30: {25, 10, 7}, 120: {100, 24, 7}, 1200: {1000, 100, 7}} {
		require.Equal(t, want, quotas(parts, n), "%d mutants", n)
	}
}

func TestMistakes(t *testing.T) {
	var out, progress bytes.Buffer
	require.ErrorContains(t, run(t.Context(), []string{"-n", "0"}, &out, &progress), "-n and -jobs are at least 1")
	require.ErrorContains(t, run(t.Context(), []string{"-jobs", "0"}, &out, &progress), "-n and -jobs are at least 1")
	require.ErrorContains(t, run(t.Context(), nil, &out, &progress), "no go.mod of weft here")
	require.ErrorContains(t, run(t.Context(), []string{"-operators", "drop,swop"}, &out, &progress), `unknown operator "swop"; legal are condition, boundary, `)
	require.NotErrorIs(t, run(t.Context(), []string{"-n", "x"}, &out, &progress), nil)
}

// newCells returns a runner whose commands can be confined.
func newCells(t *testing.T) *runner {
	t.Helper()
	r := &runner{root: t.TempDir(), tmp: t.TempDir(), cache: t.TempDir(), progress: t.Output()}
	if err := r.tryCell(t.Context()); err != nil {
		t.Skip(err)
	}
	return r
}

// Tests that cannot be run give no verdict.
func TestBroken(t *testing.T) {
	r := newCells(t)
	r.runTests(t.Context(), t.TempDir(), []string{filepath.Join(r.tmp, "missing")}, time.Minute, nil)
	require.ErrorContains(t, r.broken, "missing: no such file")
	r = &runner{tmp: filepath.Join(r.tmp, "no directory")}
	r.runTests(t.Context(), t.TempDir(), []string{"x"}, time.Minute, nil)
	require.ErrorIs(t, r.broken, os.ErrNotExist)
}

// A command in a cell changes only the writable directories, reaches no process outside, and leaves
// no process behind.
func TestCell(t *testing.T) {
	r := newCells(t)
	outside, inside := t.TempDir(), t.TempDir()
	kept := filepath.Join(outside, "kept")
	require.NoError(t, os.WriteFile(kept, []byte("kept"), 0o600))
	other := exec.Command("sleep", "1000")
	require.NoError(t, other.Start())
	defer func() { other.Process.Kill(); other.Wait() }()
	for _, row := range []struct {
		script string
		status int
		out    string
	}{
		{"echo $1", 0, "a b\n"},
		{"exit 7", 7, ""},
		{"kill -9 $$", 128 + 9, ""},
		{"cd " + inside + " && echo new >new && cat new", 0, "new\n"},
		{"cat " + kept + " && ! echo new >" + kept + " && ! rm -r " + outside + " && ! rm /etc/passwd", 0, "kept"},
		{"! kill -9 " + strconv.Itoa(other.Process.Pid), 0, ""},
		{"cd " + r.cache + " && echo new >new && cat new && ls -A /dev/shm", 0, "new\n.upper\n.work\n"},
		// the sleeping process keeps the pipe open
		{"cat /proc/mounts >/dev/null && sleep 1000 & echo over", 0, "over\n"},
	} {
		var out bytes.Buffer
		c := exec.CommandContext(t.Context(), "sh", "-c", row.script, "sh", "a b")
		c.Stdout = &out
		c.WaitDelay = time.Minute
		require.NoError(t, inCell(c, r.cache, inside))
		err := c.Run()
		status := 0
		if x := new(exec.ExitError); errors.As(err, &x) {
			status = x.ExitCode()
		} else {
			require.NoError(t, err, row.script)
		}
		require.Equal(t, row.status, status, row.script)
		require.Equal(t, row.out, out.String(), row.script)
	}
	require.FileExists(t, filepath.Join(inside, "new"))
	require.NoFileExists(t, filepath.Join(r.cache, "new"))
	require.FileExists(t, kept)
	require.NoError(t, other.Process.Signal(syscall.Signal(0)))
	c := exec.Command("sh")
	require.NoError(t, inCell(c, r.cache, filepath.Join(outside, "missing")))
	out, err := c.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "no cell for tests: mount of "+filepath.Join(outside, "missing"))
}

func TestRead(t *testing.T) {
	require.Equal(t, outcome{true, "fails", "TestA"}, read("--- FAIL: TestA (0.00s)\nFAIL\n", false))
	require.Equal(t, outcome{true, "panics", "TestA"}, read("--- FAIL: TestA (0.00s)\npanic: x\n", false))
	require.Equal(t, outcome{true, "hangs", "TestB"}, read("panic: test timed out after 1s\n\trunning tests:\n\t\tTestB (1s)\n", false))
	require.Equal(t, outcome{true, "exits", ""}, read("", false))
	require.Equal(t, outcome{true, "hangs", ""}, read("", true))
}
