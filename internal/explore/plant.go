//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// A Bug is a mistake that is planted in the code of a package, to see that an exploration finds
// it. The package itself has no trace of it: the test builds a copy.
type Bug struct {
	Name string
	File string // of the package
	Old  string // statements in it, once; two Bugs may have the same ones, but they must not overlap otherwise
	New  string // what stands there instead
	Decl string // declares what Old declares by :=, if that is used after it
	Test string // the test that is to fail, or TEST/SUBTEST; a subtest may be one with larger bounds
}

// FindBugs builds the package in the current directory with all bugs, each of which a flag of the copy switches on,
// and requires each to be found by its test: by a schedule and in no other way. With no bug switched on, all
// these tests pass, with -short.
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
	// Short, since the tests are run by themselves too.
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
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	write := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, name)] = at
	}
	for file, text := range plant(t, bugs) {
		write(file, text)
	}
	write("planted_bug.go", fmt.Sprintf("package %s\n\nimport \"flag\"\n\nvar plantedBug string\n\nfunc init() { flag.StringVar(&plantedBug, \"planted.bug\", \"\", \"\") }\n", pkg))
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "bugs.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-tags", "explore", "-overlay", list, "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the package with the bugs does not compile: %v\n%s", err, out)
	}
	return binary
}

// plant returns the files with the bugs in them.
func plant(t *testing.T, bugs []Bug) map[string]string {
	t.Helper()
	type place struct{ file, old string }
	at := map[place][]Bug{}
	files := map[string]string{}
	for _, b := range bugs {
		at[place{b.File, b.Old}] = append(at[place{b.File, b.Old}], b)
		if _, ok := files[b.File]; !ok {
			text, err := os.ReadFile(b.File)
			if err != nil {
				t.Fatal(err)
			}
			files[b.File] = string(text)
		}
		if n := strings.Count(files[b.File], b.Old); n != 1 {
			t.Fatalf("bug %q: its place is %d times in %s, must be once:\n%s", b.Name, n, b.File, b.Old)
		}
	}
	for file, text := range files {
		var places []place
		for p := range at {
			if p.file == file {
				places = append(places, p)
			}
		}
		// From the end of the file to its beginning, so that places stay where they are.
		sort.Slice(places, func(i, j int) bool { return strings.Index(text, places[i].old) > strings.Index(text, places[j].old) })
		for _, p := range places {
			i := strings.Index(text, p.old)
			var s strings.Builder
			old := p.old
			if d := at[p][0].Decl; d != "" {
				s.WriteString(d + "\n")
				old = strings.ReplaceAll(old, ":=", "=")
			}
			for _, b := range at[p] {
				fmt.Fprintf(&s, "if plantedBug == %q {\n%s\n} else ", b.Name, b.New)
			}
			fmt.Fprintf(&s, "{\n%s\n}\n", old)
			text = text[:i] + s.String() + text[i+len(p.old):]
		}
		files[file] = text
	}
	return files
}
