// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package bind

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxProcessor bounds numbers of processors. It guards against misprints.
const maxProcessor = 1<<16 - 1

// Set is numbers of processors, each once, in their order.
type Set []int

// String returns the set as the kernel writes it: 0-3,8.
func (s Set) String() string {
	var b strings.Builder
	for i := 0; i < len(s); {
		j := i
		for j+1 < len(s) && s[j+1] == s[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(s[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(s[j]))
		}
		i = j + 1
	}
	return b.String()
}

// ParseSet reads what String writes.
func ParseSet(text string) (Set, error) { return parseSet(text, ",") }

func parseSet(text, separator string) (Set, error) {
	var s Set
	for part := range strings.SplitSeq(text, separator) {
		low, high, isRange := strings.Cut(part, "-")
		first, err := strconv.ParseUint(low, 10, 16)
		last := first
		if err == nil && isRange {
			last, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || last < first {
			return nil, fmt.Errorf("%q is not a processor, such as 3, nor a range of them, such as 0-3; they are 0 to %d", part, maxProcessor)
		}
		for cpu := first; cpu <= last; cpu++ {
			s = append(s, int(cpu))
		}
	}
	slices.Sort(s)
	return slices.Compact(s), nil
}
