// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"cmp"
	"flag"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/internal/env"
)

// page is a Markdown file without its code blocks.
type page struct {
	path     string
	prose    []string // lines; lines of code blocks are empty
	code     []string // lines of code blocks
	headings []heading
}

type heading struct {
	level        int
	text, anchor string
}

var headingLine = regexp.MustCompile(`^(#{1,6}) +(.+?) *$`)

func pages(t *testing.T) map[string]*page {
	t.Helper()
	all := map[string]*page{}
	for _, p := range textFiles(t, func(p string) bool { return path.Ext(p) == ".md" }) {
		pg := &page{path: p}
		fenced := false
		seen := map[string]int{}
		for _, line := range strings.Split(read(t, p), "\n") {
			switch {
			case strings.HasPrefix(strings.TrimSpace(line), "```"):
				fenced = !fenced
				line = ""
			case fenced:
				pg.code = append(pg.code, line)
				line = ""
			}
			pg.prose = append(pg.prose, line)
			if m := headingLine.FindStringSubmatch(line); m != nil {
				a := anchor(m[2])
				if n := seen[a]; n > 0 {
					seen[a]++
					a += "-" + strconv.Itoa(n)
				} else {
					seen[a] = 1
				}
				pg.headings = append(pg.headings, heading{len(m[1]), m[2], a})
			}
		}
		assert.False(t, fenced, "%s: a code block is not closed", p)
		all[p] = pg
	}
	return all
}

// anchor returns the anchor of a heading: lower case, punctuation dropped, blanks replaced by
// dashes.
func anchor(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

func TestHeadings(t *testing.T) {
	for p, pg := range pages(t) {
		if !assert.NotEmpty(t, pg.headings, "%s has no heading", p) {
			continue
		}
		assert.Equal(t, 1, pg.headings[0].level, "%s: the first heading is the title", p)
		for i, h := range pg.headings[1:] {
			assert.Greater(t, h.level, 1, "%s: %q: a page has one title", p, h.text)
			assert.LessOrEqual(t, h.level, pg.headings[i].level+1, "%s: %q skips a level", p, h.text)
		}
	}
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	localRun   = regexp.MustCompile(`\bgo (?:run|test|build|vet)(?: -\S+)* \./([\w./-]*)`)
)

// Every link leads to an existing file or heading.
func TestLinks(t *testing.T) {
	all := pages(t)
	for p, pg := range all {
		for i, line := range pg.prose {
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
				target, fragment, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
					continue
				}
				to := p
				if target != "" {
					to = path.Join(path.Dir(p), target)
					_, err := os.Stat(filepath.FromSlash(to))
					if !assert.NoError(t, err, "%s:%d: link to %s", p, i+1, m[1]) {
						continue
					}
				}
				if fragment == "" {
					continue
				}
				if assert.Contains(t, all, to, "%s:%d: link to %s: not a page", p, i+1, m[1]) {
					found := slices.ContainsFunc(all[to].headings, func(h heading) bool { return h.anchor == fragment })
					assert.True(t, found, "%s:%d: link to %s: no such heading", p, i+1, m[1])
				}
			}
		}
		for _, line := range slices.Concat(pg.prose, pg.code) {
			for _, m := range localRun.FindAllStringSubmatch(line, -1) {
				dir := strings.TrimSuffix(strings.TrimSuffix(m[1], "..."), "/")
				assert.DirExists(t, filepath.Join(".", filepath.FromSlash(dir)), "%s: %s", p, m[0])
			}
		}
	}
}

// The files that docs/architecture.md names for a change exist.
func TestFilesOfChanges(t *testing.T) {
	const page = "docs/architecture.md"
	_, section, found := strings.Cut(read(t, page), "\n## Where do I change it?\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	changes := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(line, "`") {
			continue
		}
		changes++
		assert.Regexp(t, "`[^`]+\\.go`", cells[2], "%s: %s", page, line)
		for _, code := range inlineCode.FindAllString(line, -1) {
			if name := strings.Trim(code, "`"); strings.Contains(name, "/") {
				_, err := os.Stat(filepath.FromSlash(name))
				assert.NoError(t, err, "%s: %s", page, line)
			}
		}
	}
	assert.Equal(t, 10, changes)
}

// names matches the strings in code that docs/environment.md must explain: environment variables,
// info keys and their values.
var names = regexp.MustCompile(`^(WEFT|PSP)_[A-Z0-9_]*[A-Z0-9]$|^(psnam|weft)_[a-z0-9_]*[a-z0-9]$`)

func TestEnvironmentIsDocumented(t *testing.T) {
	inCode := map[string]string{}
	for _, f := range goFiles(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if s, err := strconv.Unquote(l.Value); err == nil && names.MatchString(s) {
					inCode[s] = f.path
				}
			}
			return true
		})
	}
	require.NotEmpty(t, inCode)

	documented := map[string]bool{}
	for _, code := range inlineCode.FindAllString(read(t, "docs/environment.md"), -1) {
		if s := strings.Trim(code, "`"); names.MatchString(s) {
			documented[s] = true
		}
	}
	for s, file := range inCode {
		assert.True(t, documented[s], "docs/environment.md does not explain %s, which %s uses", s, file)
	}
	for s := range documented {
		assert.Contains(t, inCode, s, "docs/environment.md explains %s, which no code uses", s)
	}
}

// In the library, only internal/env reads the environment; it has the table of all variables.
// Programs, and parts for developers only, may read it, too.
func TestEnvironmentIsReadInOnePlace(t *testing.T) {
	may := []string{"cmd/weft", "bench", "examples/heat", "internal/env", "internal/leaktest", "internal/mutate"}
	reads := []string{"Getenv", "LookupEnv", "Environ", "ExpandEnv"}
	for _, f := range goFiles(t) {
		if f.test || slices.Contains(may, f.part) || strings.HasSuffix(f.ast.Name.Name, "test") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && (x.Name == "os" || x.Name == "syscall" || x.Name == "unix") {
					assert.NotContains(t, reads, s.Sel.Name, "%s reads the environment: a variable is a row of internal/env.Table", f.path)
				}
			}
			return true
		})
	}
}

var updateEnvironment = flag.Bool("update-environment", false, "write the tables of docs/environment.md instead of comparing")

// The tables of variables in docs/environment.md equal the table of internal/env.
func TestEnvironmentPage(t *testing.T) {
	const file = "docs/environment.md"
	row := func(cells ...string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	tables := []string{
		row("variable", "values", "default", "meaning", "read by") + strings.Repeat("|---", 5) + "|\n",
		row("variable", "values", "meaning", "read by") + strings.Repeat("|---", 4) + "|\n",
		row("variable", "values", "default", "meaning", "read by") + strings.Repeat("|---", 5) + "|\n",
	}
	for _, v := range env.Table {
		meaning := cmp.Or(v.More, v.Meaning)
		switch {
		case v.Set:
			tables[1] += row("`"+v.Name+"`", v.Values, meaning, v.Reader)
		case strings.HasPrefix(v.Name, "PSP_"):
			tables[2] += row("`"+v.Name+"`", v.Values, cmp.Or(v.Default, "none"), meaning, v.Reader)
		default:
			tables[0] += row("`"+v.Name+"`", v.Values, cmp.Or(v.Default, "none"), meaning, v.Reader)
		}
	}
	is := read(t, file)
	want := regexp.MustCompile(`(?m)^\| variable \|(.*\n\|)+.*\n`).ReplaceAllStringFunc(is, func(string) string {
		table := tables[0]
		tables = tables[1:]
		return table
	})
	require.Empty(t, tables)
	if *updateEnvironment {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, is, "%s: go test . -run TestEnvironmentPage -update-environment", file)
}
