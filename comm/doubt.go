// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "strings"

const (
	// doubtsUntil is how many looks that are not certain go before the log has what they have found: a quarter of a minute.
	doubtsUntil = 3
	// maxDoubts bounds the goroutines that it names.
	maxDoubts = 8
)

// look is survey for who wants to be certain.
func (s *stalls) look() *stall { return s.survey().certain() }

// certain returns a stall that is one whatever the rest of the program does, else nil.
func (s *stall) certain() *stall {
	if s == nil || len(s.doubts) > 0 {
		return nil
	}
	return s
}

// doubt enters a goroutine that waits, and may act when its wait is over: what it waits for may be a time, or come from outside.
func (s *stall) doubt(g string) {
	switch n := len(s.doubts); {
	case n == maxDoubts:
		s.doubts = append(s.doubts, "and more")
	case n < maxDoubts:
		s.doubts = append(s.doubts, summary(g))
	}
}

// summary is a goroutine in a line: its head, and where it waits, in the program if that can be told from the standard library, whose packages have no dot in
// the first part of their path.
func summary(g string) string {
	lines := strings.Split(g, "\n")
	text := strings.TrimSuffix(lines[0], ":")
	place := ""
	for i := 1; i+1 < len(lines); i += 2 {
		name := lines[i]
		if k := strings.LastIndexByte(name, '('); k > 0 {
			name = name[:k]
		}
		at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +")
		own := ownFrame(name)
		if own || place == "" {
			place = " " + name + " at " + at
		}
		if own {
			break
		}
	}
	return text + place
}

// ownFrame says whether a function is the program's.
func ownFrame(name string) bool {
	first, rest, deep := strings.Cut(name, "/")
	switch {
	case strings.HasPrefix(name, "main."), strings.HasPrefix(name, "weft/"):
		return true
	case !deep:
		return false
	}
	return strings.Contains(first, ".") && rest != ""
}

// idle says whether a goroutine's state is one in which it waits.
func idle(state string) bool {
	switch state {
	case "running", "runnable", "syscall", "copystack", "preempted", "":
		return false
	}
	return true
}
