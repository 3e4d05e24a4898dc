// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each label is one line of the table, whatever its text, and the columns are aligned.
func TestTableOfOddLabels(t *testing.T) {
	s := &Stats{}
	for _, l := range []string{"block", "two\nlines", "tab\tbed", " ", "bad\xff", "esc\x1b[31m", "größe", strings.Repeat("long ", 100) + "end"} {
		s.Labels = append(s.Labels, LabelStats{Label: l, Tasks: 1, Failed: 1})
	}
	lines := strings.Split(s.String(), "\n")
	require.Len(t, lines, 1+len(s.Labels)+1+len(s.Labels)+1)
	for _, l := range lines[:1+len(s.Labels)] {
		require.Len(t, []rune(l), len([]rune(lines[0])))
	}
	table := s.String()
	for _, want := range []string{"  block  ", `"two\nlines"`, `"tab\tbed"`, `" "`, `"bad\xff"`, `"esc\x1b[31m"`, " größe ", "long … long", "long end ", `"two\nlines": 1 failed, 0 skipped.`} {
		require.Contains(t, table, want)
	}
}
