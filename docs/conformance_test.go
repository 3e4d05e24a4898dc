// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	testFunc    = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	rowTest     = regexp.MustCompile(`^Test([A-Z]{2,4})(\d\d)(?:_|$)`)
	rowID       = regexp.MustCompile(`^[A-Z]{2,4}-\d\d$`)
	namedTest   = regexp.MustCompile("`(Test\\w+)`")
	legalStates = regexp.MustCompile(`^(yes|differs|no)\b`)
)

// docs/conformance.md and the tests know of each other: a row that weft has, has a test of its
// name, and a test with the name of a row has that row; every test that the page names exists.
func TestConformancePage(t *testing.T) {
	exists := map[string]bool{}
	ofRow := map[string][]string{}
	for _, dir := range []string{"../deps", "../internal/chain", "../task", "../task/internal/*"} {
		files, err := filepath.Glob(dir + "/*_test.go")
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				exists[m[1]] = true
				if r := rowTest.FindStringSubmatch(m[1]); r != nil {
					id := r[1] + "-" + r[2]
					ofRow[id] = append(ofRow[id], m[1])
				}
			}
		}
	}
	text, err := os.ReadFile("conformance.md")
	require.NoError(t, err)
	rows := map[string]bool{}
	for i, line := range strings.Split(string(text), "\n") {
		for _, m := range namedTest.FindAllStringSubmatch(line, -1) {
			assert.True(t, exists[m[1]], "line %d: there is no %s in deps, internal/chain, task or its parts", i+1, m[1])
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		id, state := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[3])
		if !rowID.MatchString(id) {
			continue
		}
		assert.False(t, rows[id], "line %d: %s comes twice", i+1, id)
		rows[id] = true
		assert.Regexp(t, legalStates, state, "line %d", i+1)
		if state == "no" {
			assert.Empty(t, ofRow[id], "line %d: %s is said not to be there, but is tested", i+1, id)
		} else {
			assert.NotEmpty(t, ofRow[id], "line %d: %s has no test of its name", i+1, id)
		}
	}
	for id, tests := range ofRow {
		assert.True(t, rows[id], "%v test %s, which is no row of the page", tests, id)
	}
	assert.Greater(t, len(rows), 60)
}
