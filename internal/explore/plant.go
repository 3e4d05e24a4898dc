//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// A Bug is a mistake that is planted in the code of a package, to verify that an exploration finds
// it. The test builds a copy. The package itself marks the code that the mistake replaces by a
// comment //bug:NAME at the end of the line on which a statement begins. If there are two marks of
// one NAME, the marked code extends from the first statement to the second, in one block. Marked
// code does not overlap; several bugs may have the same mark.
type Bug struct {
	Name string
	File string // of the package
	At   string // the NAME of a mark in it
	New  string // the statements that replace those at the mark
	// declares variables that the replaced statements declare by :=, if they are used later
	Decl string
	// the test that must fail, or TEST/SUBTEST; a subtest may need larger bounds
	Test string
}

// FindBugs builds the package in the current directory with all bugs, each of which a flag of the
// copy switches on. It requires that the test of each bug finds it, by a schedule. With no bug
// switched on, all these tests pass, with -short.
func FindBugs(t *testing.T, pkg string, bugs []Bug) {
	t.Helper()
	binary := buildBugs(t, pkg, bugs)
	run := func(bug string, flags ...string) (string, error) {
		cmd := exec.Command(binary, append(flags, "-test.timeout", "120s", "-planted.bug", bug)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	var tests []string
	for _, b := range bugs {
		top, _, _ := strings.Cut(b.Test, "/")
		tests = append(tests, "^"+top+"$")
	}
	// Short, since the tests also run separately.
	if out, err := run("none", "-test.short", "-test.run", strings.Join(tests, "|")); err != nil {
		t.Fatalf("without a bug: %v\n%s", err, out)
	}
	found := regexp.MustCompile(`order (\d+): (.*)`)
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			flags := []string{"-test.run", "^" + strings.ReplaceAll(b.Test, "/", "$/^") + "$"}
			if strings.Contains(b.Test, "/") {
				flags = append(flags, "-explore.big")
			}
			out, err := run(b.Name, flags...)
			m := found.FindStringSubmatch(out)
			switch {
			case err == nil:
				t.Fatalf("not found by %s", b.Test)
			case m == nil || !strings.Contains(out, "script: "):
				t.Fatalf("%s fails without a schedule:\n%s", b.Test, out)
			}
			t.Logf("order %s: %s", m[1], m[2])
		})
	}
}

func buildBugs(t *testing.T, pkg string, bugs []Bug) string {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	must(t, err)
	replace := map[string]string{}
	write := func(name, text string) {
		at := filepath.Join(dir, name)
		must(t, os.WriteFile(at, []byte(text), 0o600))
		replace[filepath.Join(here, name)] = at
	}
	for file, text := range plant(t, bugs) {
		write(file, text)
	}
	write("planted_bug.go", fmt.Sprintf("package %s\n\nimport \"flag\"\n\nvar plantedBug string\n\nfunc init() { flag.StringVar(&plantedBug, \"planted.bug\", \"\", \"\") }\n", pkg))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	must(t, err)
	list := filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(list, overlay, 0o600))
	binary := filepath.Join(dir, "bugs.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-tags", "explore", "-overlay", list, "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the package with the bugs does not compile: %v\n%s", err, out)
	}
	return binary
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// plant returns the files with the bugs in them.
func plant(t *testing.T, bugs []Bug) map[string]string {
	t.Helper()
	at := map[string]map[string][]Bug{} // by file and mark
	for _, b := range bugs {
		if at[b.File] == nil {
			at[b.File] = map[string][]Bug{}
		}
		at[b.File][b.At] = append(at[b.File][b.At], b)
	}
	sources, err := filepath.Glob("*.go")
	must(t, err)
	files := map[string]string{}
	for _, file := range sources {
		bugs := at[file]
		text, marked := markedStmts(t, file)
		if len(bugs)+len(marked) == 0 {
			continue
		}
		delete(at, file)
		var marks []string
		for mark, list := range bugs {
			if _, ok := marked[mark]; !ok {
				t.Fatalf("bug %q: %s has no statement with the mark //bug:%s", list[0].Name, file, mark)
			}
		}
		for mark := range marked {
			if bugs[mark] == nil {
				t.Fatalf("%s has the mark //bug:%s, and no bug is planted there", file, mark)
			}
			marks = append(marks, mark)
		}
		// From the end of the file to its beginning, so that earlier offsets stay valid.
		sort.Slice(marks, func(i, j int) bool { return marked[marks[i]].lo > marked[marks[j]].lo })
		for _, mark := range marks {
			p := marked[mark]
			var s strings.Builder
			old := text[p.lo:p.hi]
			if d := bugs[mark][0].Decl; d != "" {
				s.WriteString(d + "\n")
				old = strings.ReplaceAll(old, ":=", "=")
			}
			for _, b := range bugs[mark] {
				fmt.Fprintf(&s, "if plantedBug == %q {\n%s\n} else ", b.Name, b.New)
			}
			fmt.Fprintf(&s, "{\n%s\n}\n", old)
			text = text[:p.lo] + s.String() + text[p.hi:]
		}
		files[file] = text
	}
	for file, bugs := range at {
		t.Fatalf("%d bugs are to be planted in %s, which does not exist", len(bugs), file)
	}
	return files
}

// stmtRange is the offsets [lo, hi) of some statements of one block in the file.
type stmtRange struct{ lo, hi int }

var markAtEnd = regexp.MustCompile(`(?m)//bug:(\S+)$`)

// markedStmts returns the text of a file, and the statements that are marked in it, by their marks.
func markedStmts(t *testing.T, file string) (text string, marked map[string]stmtRange) {
	t.Helper()
	fset := token.NewFileSet()
	b, err := os.ReadFile(file)
	must(t, err)
	f, err := parser.ParseFile(fset, file, b, parser.SkipObjectResolution)
	must(t, err)
	byLine := map[int]string{}
	for i, line := range strings.Split(string(b), "\n") {
		if m := markAtEnd.FindStringSubmatch(line); m != nil {
			byLine[i+1] = m[1]
		}
	}
	marked = map[string]stmtRange{}
	ast.Inspect(f, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		case *ast.CommClause:
			list = n.Body
		}
		here := map[string]bool{}
		for _, s := range list {
			pos, end := fset.Position(s.Pos()), fset.Position(s.End())
			mark, ok := byLine[pos.Line]
			if !ok {
				continue
			}
			if p, seen := marked[mark]; here[mark] {
				marked[mark] = stmtRange{p.lo, end.Offset}
			} else if seen {
				t.Fatalf("%s: the marks //bug:%s are not in one block", pos, mark)
			} else {
				here[mark] = true
				marked[mark] = stmtRange{pos.Offset, end.Offset}
			}
			delete(byLine, pos.Line)
		}
		return true
	})
	for line, mark := range byLine {
		t.Fatalf("%s:%d: no statement begins where the mark //bug:%s is", file, line, mark)
	}
	return string(b), marked
}
