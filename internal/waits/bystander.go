// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"runtime"
	"strings"
)

// Bystander says what a goroutine with this stack is, of those that are neither ours nor the program's and only wait for others
// or for news from outside; "" if it is none. It knows them by functions of the standard library and of package ants, not by any
// of ours. Where a new version of these has other names, they are not recognised, and a deadlock is a suspicion instead of
// a certainty; TestBystanders fails then.
func Bystander(pcs []uintptr) string {
	var room [32]string
	names := room[:0]
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function != goexit && f.Function != "" {
			names = append(names, f.Function)
		}
		if !more {
			return bystander(names)
		}
	}
}

// bystander is Bystander of the names of the functions, the innermost first.
func bystander(names []string) string {
	n := len(names)
	if n == 0 {
		return "a thread of C's that has called Go, and is in C" // the runtime keeps a goroutine for it
	}
	// The function that the goroutine was started with.
	switch first := names[n-1]; {
	case first == "os/signal.loop":
		return "waits for signals"
	case strings.HasPrefix(first, "os/signal.NotifyContext."):
		return "waits for a signal, to end a context"
	case first == "runtime/pprof.profileWriter":
		return "writes a CPU profile"
	}
	if names[0] != "runtime.gopark" {
		return "" // it does not wait
	}
	// The function that waits.
	k := 0
	for k < n && strings.HasPrefix(names[k], "runtime.") {
		k++
	}
	switch {
	case k == n:
		return ""
	case strings.HasPrefix(names[k], "testing."):
		return "waits for tests"
	case strings.HasPrefix(names[k], ants) && strings.HasPrefix(names[n-1], ants): // not who waits for a pool's end
		return "waits for work for a pool"
	}
	return ""
}

// goexit is what all goroutines begin with.
const goexit = "runtime.goexit"

const ants = "github.com/panjf2000/ants/v2."
