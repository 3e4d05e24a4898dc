// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	tableRule = regexp.MustCompile(`^\|( *:?-+:? *\|)+$`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
)

// columns counts the cells of a table's row.
func columns(row string) int {
	row = strings.ReplaceAll(codeSpan.ReplaceAllString(row, ""), `\|`, "")
	return strings.Count(row, "|") - 1
}

// A row that stands apart from its table is shown as plain text, and a cell beyond the head's is
// not shown at all.
func TestTablesAreWhole(t *testing.T) {
	rows := 0
	for _, p := range pages(t) {
		head := "" // of the table that the line before belongs to
		for i, line := range p.prose {
			switch {
			case !strings.HasPrefix(line, "|"):
				head = ""
				continue
			case head == "":
				head = line
				if assert.Less(t, i+1, len(p.prose), "%s:%d", p.path, i+1) {
					assert.Regexp(t, tableRule, p.prose[i+1], "%s:%d: a row without a table", p.path, i+1)
				}
			}
			assert.Equal(t, columns(head), columns(line), "%s:%d: cells of a row, and of the table's head", p.path, i+1)
			rows++
		}
	}
	assert.Greater(t, rows, 100)
}
