// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package histogram

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Write prints the histogram: a header and a row for each bin. Labels are right-aligned to the largest of them; two blanks, and the
// count. The header names the types of connections, as the user wrote them, if not all are counted.
func (s *Settings) Write(w io.Writer, counts []uint64) error {
	n := s.Bins()
	if len(counts) != n {
		panic(fmt.Sprintf("histogram: %d counts for %d bins", len(counts), n))
	}
	width := len(strconv.FormatUint(s.Limit(n-1), 10))
	var b strings.Builder
	fmt.Fprintf(&b, "%*s  freq", width, "bin")
	if len(s.Types) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(s.Types, ","))
	}
	b.WriteByte('\n')
	for i, count := range counts {
		fmt.Fprintf(&b, "%*d  %d\n", width, s.Limit(i), count)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
