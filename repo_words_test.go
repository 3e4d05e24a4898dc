// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package weft_test

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

// width is the number of columns that comments and prose have; a tab is four.
const width = 100

// comment finds the comment of a line of source, and its text. A line that only holds part of a
// string may look the same.
var comment = map[string]*regexp.Regexp{
	"go": regexp.MustCompile(`(?:^|\s)//(.*)$`),
	"c":  regexp.MustCompile(`(?:^|\s)//(.*)$|(?:^\s*|\s/)\* (.*)$`),
	"sh": regexp.MustCompile(`(?:^|\s)#(.*)$`),
}

// exempt are the comments that cannot be wrapped, or are tables, code or output: directives, marks
// of tests, whatever a tab or several blanks set apart, and addresses.
var exempt = regexp.MustCompile(`^(go:|bug:|\+| want | vet: | weft: |\t|  )|//bug:|://`)

// Comments and prose end at column 100. Code, tables and what programs print need not.
func TestWidth(t *testing.T) {
	long := func(line string) bool {
		return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > width
	}
	for _, p := range textFiles(t, isText) {
		kind := map[string]string{".go": "go", ".s": "go", ".c": "c", ".cpp": "c", ".h": "c", ".sh": "sh"}[path.Ext(p)]
		if p == ".ci/run" {
			kind = "sh"
		}
		if kind == "" {
			continue
		}
		for i, line := range strings.Split(read(t, p), "\n") {
			m := comment[kind].FindStringSubmatch(line)
			if m == nil || !long(line) || exempt.MatchString(m[1]+m[len(m)-1]) || quoted(line, m[0]) {
				continue
			}
			assert.Fail(t, "a comment is wider than 100 columns", "%s:%d: %s", p, i+1, line)
		}
	}
	for p, pg := range pages(t) {
		for i, line := range pg.prose {
			if long(line) && !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "![") {
				// What one cannot break: a code span, and a link's target.
				rest := link.ReplaceAllString(inlineCode.ReplaceAllString(line, ""), "")
				assert.False(t, strings.Contains(strings.TrimSpace(rest), " "), "%s:%d: prose is wider than 100 columns: %s", p, i+1, line)
			}
		}
	}
}

// quoted reports whether the comment of a line is part of a string: an odd number of quotation
// marks stands before it.
func quoted(line, comment string) bool {
	before := strings.TrimSuffix(line, comment)
	return strings.Count(before, `"`)%2 == 1 || strings.Count(before, "`")%2 == 1
}
