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

// columns counts the cells in a row of a table.
func columns(row string) int {
	row = strings.ReplaceAll(codeSpan.ReplaceAllString(row, ""), `\|`, "")
	return strings.Count(row, "|") - 1
}

// Rows are part of a table, and have as many cells as its head. Viewers show a row without a table
// as plain text, and drop cells beyond the head's.
func TestTablesAreWhole(t *testing.T) {
	rows := 0
	for _, p := range pages(t) {
		head := "" // head of the table that contains the previous line
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
