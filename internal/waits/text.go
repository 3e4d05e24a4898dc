// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Goroutine is a goroutine as Go's runtime prints it. It is for reports: no decision depends on it.
type Goroutine struct {
	ID      uint64
	State   string  // "chan receive"
	Head    string  // "goroutine 7 [chan receive, 2 minutes]"
	Frames  []Frame // the innermost first, without that of the go statement
	Creator Frame
}

// Frame is a call on a stack.
type Frame struct{ Func, At string }

// Reading stacks stops the program. So maxText limits their bytes, and maxGoroutines their number.
const (
	maxText       = 16 << 20
	maxGoroutines = 5000
)

// Goroutines returns all goroutines; none if there are more than 5000, which no one would read.
func Goroutines() []Goroutine {
	if runtime.NumGoroutine() > maxGoroutines {
		return nil
	}
	var all []Goroutine
	for _, text := range Texts(maxText) {
		all = append(all, parse(text))
	}
	return all
}

// Texts returns the text that Go's runtime prints for each goroutine, up to about most bytes in
// all.
func Texts(most int) []string {
	for size := 64 << 10; ; size *= 2 {
		buf := make([]byte, size)
		if n := runtime.Stack(buf, true); n < size || n >= most {
			return strings.Split(string(bytes.TrimSpace(buf[:n])), "\n\n")
		}
	}
}

// ID returns the number of the calling goroutine.
func ID() uint64 {
	var buf [64]byte
	return parse(string(buf[:runtime.Stack(buf[:], false)])).ID
}

// Lines returns the lines of a goroutine's text: its head, and two for each call. It drops the line
// "...N frames elided...", which stands for the middle of a deep stack.
func Lines(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return strings.HasPrefix(l, "...") })
}

func parse(text string) (g Goroutine) {
	lines := Lines(text)
	g.Head = strings.TrimSuffix(lines[0], ":")
	rest, ok := strings.CutPrefix(g.Head, "goroutine ")
	if !ok {
		return g
	}
	number, rest, _ := strings.Cut(rest, " ")
	g.ID, _ = strconv.ParseUint(number, 10, 64)
	// There may be more before the bracket, as "gp=0x... m=nil", and more in it.
	if i := strings.IndexByte(rest, '['); i >= 0 {
		g.State, _, _ = strings.Cut(rest[i+1:], "]")
		g.State, _, _ = strings.Cut(g.State, ",")
		g.State, _, _ = strings.Cut(g.State, " (") // "(scan)", "(durable)"
	}
	for i := 1; i+1 < len(lines); i += 2 {
		name := lines[i]
		at, _, _ := strings.Cut(strings.TrimSpace(lines[i+1]), " +")
		if by, ok := strings.CutPrefix(name, "created by "); ok {
			by, _, _ = strings.Cut(by, " in goroutine")
			g.Creator = Frame{by, at}
			break
		}
		if k := strings.LastIndexByte(name, '('); k > 0 {
			name = name[:k]
		}
		g.Frames = append(g.Frames, Frame{name, at})
	}
	return g
}

// module is the prefix of the paths of weft's packages.
var module = strings.TrimSuffix(reflect.TypeFor[Counter]().PkgPath(), "internal/waits")

// parts are the packages that a program calls and the packages below these.
var parts = []string{"comm", "task", "tampi", "rma", "nam", "deps", "trace", "observe", "internal"}

// Ours reports whether a function is one of weft's packages, and not one of their tests.
func (f Frame) Ours() bool {
	file, _, _ := strings.Cut(f.At, ":")
	return ours(f.Func) && !strings.HasSuffix(file, "_test.go")
}

func ours(name string) bool {
	rest, ok := strings.CutPrefix(name, module)
	return ok && slices.ContainsFunc(parts, func(p string) bool {
		after, ok := strings.CutPrefix(rest, p)
		return ok && (after[0] == '.' || after[0] == '/')
	})
}

// isRuntime reports whether a function belongs to Go's runtime, or to sync, through which other
// functions wait.
func isRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "internal/sync.")
}

// Call returns the call of weft's in which a goroutine waits: the function's name and the position
// of the call. It returns false if the goroutine does not wait in such a call.
func (g *Goroutine) Call() (Frame, bool) {
	call := ""
	for _, f := range g.Frames {
		switch {
		case f.Ours():
			call = f.Func
		case call == "" && isRuntime(f.Func):
		case call == "":
			return Frame{}, false
		case strings.HasPrefix(f.Func, "sync."): // a WaitGroup's, which has started the goroutine
		default:
			return Frame{method(call), f.At}, true
		}
	}
	return Frame{"the end of its function", ""}, call != ""
}

// method returns the name of a function without its package and receiver.
func method(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	if _, m, ok := strings.Cut(name, ")."); ok && strings.HasPrefix(name, "(") {
		return m
	}
	return name
}

// Foreign reports whether a goroutine is the program's, and not in a wait of weft's.
func (g *Goroutine) Foreign() bool {
	var names []string
	if !slices.Contains(acting, g.State) {
		names = append(names, "runtime.gopark") // the text omits it
	}
	inner, library, program := true, false, false
	for _, f := range g.Frames {
		if inner && !isRuntime(f.Func) {
			if f.Ours() {
				return false
			}
			inner = false
		}
		library, program = library || f.Ours(), program || f.own()
		if f.Func != goexit {
			names = append(names, f.Func)
		}
	}
	// A goroutine of weft's that is in a call of the standard library, such as a fabric's reader,
	// is not the program's.
	return (program || !library) && bystander(names) == ""
}

// maxActing is how many goroutines Acting names.
const maxActing = 8

// Acting describes the goroutines of the program that may act, a line each.
func Acting() (lines []string) {
	for _, g := range Goroutines() {
		if !g.Foreign() {
			continue
		}
		if len(lines) == maxActing {
			return append(lines, "and more")
		}
		lines = append(lines, g.String())
	}
	return lines
}

// acting are the states in which a goroutine does not wait.
var acting = []string{"running", "runnable", "syscall", "copystack", "preempted", ""}

// own reports whether a function is the program's. Packages of the standard library have no dot in
// the first part of their path.
func (f Frame) own() bool {
	if f.Ours() || strings.HasPrefix(f.Func, ants) { // ants runs weft's slots
		return false
	}
	first, rest, deep := strings.Cut(f.Func, "/")
	return strings.HasPrefix(f.Func, "main.") || strings.HasPrefix(f.Func, module) || deep && rest != "" && strings.Contains(first, ".")
}

// String returns the goroutine as a line: its head, and its innermost call in the program or, if
// there is none, its outermost call.
func (g *Goroutine) String() string {
	where := ""
	for _, f := range g.Frames {
		where = " " + f.Func + " at " + f.At
		if f.own() {
			return g.Head + where
		}
	}
	if g.Creator.own() { // the program has started it with a function of another package
		where += ", started by " + g.Creator.Func + " at " + g.Creator.At
	}
	return g.Head + where
}

// Bystander describes a goroutine with this stack if it is a bystander: neither weft's nor the
// program's, and one that only waits for other goroutines or for news from outside. It returns ""
// for any other goroutine. It recognises bystanders by functions of the standard library and of
// package ants, not by any of weft's. If a new version of these packages renames the functions, a
// deadlock becomes a suspicion instead of a certainty, and TestBystanders fails.
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

// bystander is Bystander for the names of the functions, the innermost first.
func bystander(names []string) string {
	n := len(names)
	if n == 0 {
		// the runtime keeps a goroutine for such a thread
		return "a thread of C's that has called Go, and is in C"
	}
	// names[n-1] is the function of the go statement.
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
	k := slices.IndexFunc(names, func(name string) bool { return !strings.HasPrefix(name, "runtime.") })
	switch {
	case k < 0:
		return ""
	case strings.HasPrefix(names[k], "testing."):
		return "waits for tests"
	case strings.HasPrefix(names[k], ants) && strings.HasPrefix(names[n-1], ants):
		// a goroutine that waits for the pool's end began with another function
		return "waits for work for a pool"
	}
	return ""
}

// goexit is the outermost function of all goroutines.
const goexit = "runtime.goexit"

const ants = "github.com/panjf2000/ants/v2."

// Dump has the goroutines of the process as they were a moment ago. Listing them stops the program,
// for longer the more there are. So runs that one context ends, each of which reports its waits,
// share one list. Any goroutine may use it.
type Dump struct {
	fresh time.Duration
	list  func() []Goroutine

	mu   sync.Mutex
	all  map[uint64]*Goroutine // guarded by mu: by number; nil: there is no fresh list
	made int                   // guarded by mu: lists so far
}

// NewDump returns a Dump that shares a list for the time fresh. list is [Goroutines], or a test's
// replacement.
func NewDump(fresh time.Duration, list func() []Goroutine) *Dump {
	return &Dump{fresh: fresh, list: list}
}

// Shared returns all goroutines by number, from a list that is at most about the time fresh old.
func (d *Dump) Shared() map[uint64]*Goroutine {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = d.Now()
		d.made++
		n := d.made
		time.AfterFunc(d.fresh, func() { d.forget(n) })
	}
	return d.all
}

// forget drops list number n, unless there is a later list.
func (d *Dump) forget(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made == n {
		d.all = nil
	}
}

// Now returns all goroutines by number, as they are now.
func (d *Dump) Now() map[uint64]*Goroutine {
	all := map[uint64]*Goroutine{}
	for _, g := range d.list() {
		all[g.ID] = &g
	}
	return all
}
