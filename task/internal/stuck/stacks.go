// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package stuck

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"weft/internal/waits"
)

// Code is the range of program counters of a function.
type Code struct{ lo, hi uintptr }

// CodeAt returns the code of the function that begins at a program counter.
func CodeAt(pc uintptr) Code {
	f := runtime.FuncForPC(pc)
	c := Code{f.Entry(), f.Entry() + 1}
	for g := f; g != nil && g.Entry() == f.Entry(); c.hi++ {
		g = runtime.FuncForPC(c.hi)
	}
	return c
}

// Bounds returns the first program counter, and the one after the last.
func (c Code) Bounds() (lo, hi uintptr) { return c.lo, c.hi }
func (c Code) name() string             { return runtime.FuncForPC(c.lo).Name() }

// allBlocked reports whether no body of this process runs on a processor or waits for one: each
// goroutine that runs a body is parked by Go's scheduler, or in a system call. c is the function
// that calls bodies. It is recognised by its program counters, so its name does not matter.
func (c Code) allBlocked() bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return false // more goroutines exist by now, so some goroutine runs
	}
	for i := range records[:n] {
		pcs := records[i].Stack()
		runsBody := len(pcs) == len(records[i].Stack0) || // a body may be further down the stack
			slices.ContainsFunc(pcs, func(pc uintptr) bool { return c.lo < pc && pc <= c.hi })
		if runsBody && !blockedAt(pcs[0]) {
			return false
		}
	}
	return true
}

// blockedAt reports whether a goroutine whose innermost return address is pc does not run. Go parks
// every waiting goroutine in gopark; the other functions are system calls.
func blockedAt(pc uintptr) bool {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return f.Function == "runtime.gopark" || strings.HasPrefix(f.Function, "syscall.") ||
		strings.HasPrefix(f.Function, "internal/runtime/syscall")
}

// maxBlockedFrames is how many functions of each stack a report has, starting where the body
// blocks. The body itself follows.
const maxBlockedFrames = 4

// bodies are the stacks of goroutines that run bodies, as text of Go's runtime. They are only for
// reports.
type bodies [][]string

// bodyStacks returns the lines of each goroutine that runs a body. The line of the function that
// calls bodies begins with calls.
func bodyStacks(calls string) (list bodies) {
	for _, g := range waits.Texts(64 << 20) {
		if strings.Contains(g, calls) {
			list = append(list, waits.Lines(g))
		}
	}
	return list
}

// take removes the stack of a body from l and returns it, without the frames below the body. It is
// the stack with a line that begins with call, which has the address of the task. If the compiler
// has not kept that address, it is a stack that runs the same function, fn.
func (l bodies) take(call, fn, calls string) []string {
	for _, want := range [...]struct {
		begin string
		up    int // lines above the line of the call of the innermost body
	}{{call, 0}, {fn + "(", 2}} {
		for i, lines := range l {
			k := 3
			for k < len(lines) && !strings.HasPrefix(lines[k], calls) {
				k += 2
			}
			if k < len(lines) && strings.HasPrefix(lines[k-want.up], want.begin) {
				l[i] = nil
				return lines[:k]
			}
		}
	}
	return nil
}

// writeStack writes what a goroutine waits in: its state, and the functions of the program, from
// the function that blocks down to the body. It leaves out functions of Go's runtime.
func writeStack(b *strings.Builder, lines []string) {
	if len(lines) == 0 {
		b.WriteByte('\n')
		return
	}
	state := lines[0]
	if i, j := strings.IndexByte(state, '['), strings.LastIndexByte(state, ']'); i >= 0 && j > i {
		state = state[i : j+1]
	}
	fmt.Fprintf(b, ", %s\n", state)
	n := 0
	for k := 1; k+1 < len(lines); k += 2 {
		body := k+3 >= len(lines)
		if strings.HasPrefix(lines[k], "runtime.") || strings.HasPrefix(lines[k], "internal/") || n >= maxBlockedFrames && !body {
			continue
		}
		at, _, _ := strings.Cut(strings.TrimSpace(lines[k+1]), " +")
		fmt.Fprintf(b, "    %s\n        %s\n", lines[k], at)
		n++
	}
}
