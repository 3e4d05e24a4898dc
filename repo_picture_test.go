// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var updatePicture = flag.Bool("update-picture", false, "write the picture and the imports in docs/architecture.md instead of comparing")

// programs is the node of the picture for all parts with a main package.
const programs = "programs"

var programParts = []string{"bench", "cmd/weft", "examples/heat"}

// importsOfParts returns the imports of each part, without tests.
func importsOfParts(t *testing.T) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for part := range law {
		all[part] = map[string]bool{}
	}
	for _, f := range goFiles(t) {
		for _, imp := range f.imports() {
			dir, ours := strings.CutPrefix(imp, modulePath+"/")
			if to := partOf(dir); ours && !f.test && to != f.part {
				all[f.part][to] = true
			}
		}
	}
	return all
}

// picture draws the parts below the programs, with an arrow for each import that does not follow
// from others.
func picture(imports map[string]map[string]bool) string {
	edges := map[string]map[string]bool{programs: {}}
	for from, tos := range imports {
		if slices.Contains(programParts, from) {
			maps.Copy(edges[programs], tos)
		} else {
			edges[from] = tos
		}
	}
	below := map[string]map[string]bool{} // all parts below a part
	var walk func(part string) map[string]bool
	walk = func(part string) map[string]bool {
		if below[part] == nil {
			below[part] = map[string]bool{}
			for to := range edges[part] {
				below[part][to] = true
				maps.Copy(below[part], walk(to))
			}
		}
		return below[part]
	}
	id := strings.NewReplacer("/", "_", ".", "_")
	var b strings.Builder
	b.WriteString("```mermaid\nflowchart TD\n")
	fmt.Fprintf(&b, "    %s[\"%s\"]\n", programs, strings.Join(programParts, " · "))
	shown := slices.Sorted(maps.Keys(walk(programs)))
	for _, part := range shown {
		fmt.Fprintf(&b, "    %s[\"%s\"]\n", id.Replace(part), part)
	}
	for _, from := range append([]string{programs}, shown...) {
		for _, to := range slices.Sorted(maps.Keys(edges[from])) {
			follows := false
			for other := range edges[from] {
				follows = follows || other != to && walk(other)[to]
			}
			if !follows {
				fmt.Fprintf(&b, "    %s --> %s\n", id.Replace(from), id.Replace(to))
			}
		}
	}
	b.WriteString("```\n")
	return b.String()
}

var (
	pictures = regexp.MustCompile("(?s)```mermaid\n.*?```\n")
	partRow  = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*) \\| ([^|]*) \\|$")
)

// The picture of the packages, and the imports in the table next to it, equal the imports in the
// code.
func TestPictureOfImports(t *testing.T) {
	const file = "docs/architecture.md"
	imports := importsOfParts(t)
	is := read(t, file)
	require.Len(t, pictures.FindAllString(is, -1), 1, "%s has one picture", file)
	want := pictures.ReplaceAllLiteralString(is, picture(imports))
	rows := map[string]bool{}
	want = partRow.ReplaceAllStringFunc(want, func(row string) string {
		m := partRow.FindStringSubmatch(row)
		rows[m[1]] = true
		list := strings.Join(slices.Sorted(maps.Keys(imports[m[1]])), ", ")
		if list == "" {
			list = "–"
		}
		return fmt.Sprintf("| `%s` | %s | %s |", m[1], m[2], list)
	})
	for part := range law {
		assert.True(t, part == "." || rows[part], "%s: the table has no row for %s", file, part)
	}
	if *updatePicture {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		return
	}
	assert.Equal(t, want, is, "%s: go test . -run TestPictureOfImports -update-picture", file)
}
