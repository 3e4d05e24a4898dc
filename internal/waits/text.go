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

// Goroutine is one in the words of Go's runtime. It is for people: nothing is decided by it.
type Goroutine struct {
	ID      uint64
	State   string  // "chan receive"
	Head    string  // "goroutine 7 [chan receive, 2 minutes]"
	Frames  []Frame // the innermost first; that of the go statement is not among them
	Creator Frame
}

// Frame is a call.
type Frame struct{ Func, At string }

// maxText bounds the stacks that are read, in bytes, and maxGoroutines the goroutines: it stops the
// program.
const (
	maxText       = 16 << 20
	maxGoroutines = 5000
)

// Goroutines returns all goroutines; none if there are too many to be read by anybody.
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

// Texts returns what Go's runtime writes of each goroutine, up to about so many bytes in all.
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

// module is what the paths of our packages begin with.
var module = strings.TrimSuffix(reflect.TypeFor[Counter]().PkgPath(), "internal/waits")

// parts are the packages that a program calls, and those below them.
var parts = []string{"comm", "task", "tampi", "rma", "nam", "deps", "trace", "observe", "internal"}

// Ours reports whether a function is of these packages, and not of a test of them.
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

// isRuntime reports whether a function is of Go's runtime, or of sync, through which others wait.
func isRuntime(name string) bool {
	return strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, "sync.") || strings.HasPrefix(name, "internal/sync.")
}

// Call returns what a goroutine that waits in a call of ours has called, and where; false if it
// does not.
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

// method is the name of a function without its package and receiver.
func method(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, name, _ = strings.Cut(name, ".")
	if _, m, ok := strings.Cut(name, ")."); ok && strings.HasPrefix(name, "(") {
		return m
	}
	return name
}

// Foreign reports whether a goroutine is the program's, and not in a wait of ours.
func (g *Goroutine) Foreign() bool {
	var names []string
	if !slices.Contains(acting, g.State) {
		names = append(names, "runtime.gopark") // which the text leaves out
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
	// Not a reader's, say, which is in a call of the standard library.
	return (program || !library) && bystander(names) == ""
}

// maxActing is how many goroutines Acting names.
const maxActing = 8

// Acting says which goroutines of the program may act, a line each.
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

// own says whether a function is the program's: the standard library's packages have no dot in the
// first part of their path.
func (f Frame) own() bool {
	if f.Ours() || strings.HasPrefix(f.Func, ants) { // that runs our slots
		return false
	}
	first, rest, deep := strings.Cut(f.Func, "/")
	return strings.HasPrefix(f.Func, "main.") || strings.HasPrefix(f.Func, module) || deep && rest != "" && strings.Contains(first, ".")
}

// String is the goroutine in a line: its head, and where it waits, in the program if that can be
// told.
func (g *Goroutine) String() string {
	place := ""
	for _, f := range g.Frames {
		place = " " + f.Func + " at " + f.At
		if f.own() {
			return g.Head + place
		}
	}
	if g.Creator.own() { // the program has started it with a function of another's
		place += ", started by " + g.Creator.Func + " at " + g.Creator.At
	}
	return g.Head + place
}

// Bystander says what a goroutine with this stack is, of those that are neither ours nor the
// program's and only wait for others or for news from outside; "" if it is none. It knows them by
// functions of the standard library and of package ants, not by any of ours. Where a new version of
// these has other names, they are not recognised, and a deadlock is a suspicion instead of a
// certainty; TestBystanders fails then.
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
		// the runtime keeps a goroutine for it
		return "a thread of C's that has called Go, and is in C"
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
	k := slices.IndexFunc(names, func(name string) bool { return !strings.HasPrefix(name, "runtime.") })
	switch {
	case k < 0:
		return ""
	case strings.HasPrefix(names[k], "testing."):
		return "waits for tests"
	case strings.HasPrefix(names[k], ants) && strings.HasPrefix(names[n-1], ants):
		// not who waits for a pool's end
		return "waits for work for a pool"
	}
	return ""
}

// goexit is what all goroutines begin with.
const goexit = "runtime.goexit"

const ants = "github.com/panjf2000/ants/v2."

// Dump has the goroutines of the process, as they were a moment ago. To write them down stops the
// program and takes the longer the more there are; so runs that one context ends, which all say who
// waits for what, share one. Any goroutine may use it.
type Dump struct {
	fresh time.Duration
	list  func() []Goroutine

	mu   sync.Mutex
	all  map[uint64]*Goroutine // guarded by mu: by number; nil: none that is fresh
	made int                   // guarded by mu: dumps so far
}

// NewDump returns a Dump whose lists are shared for a time; list is [Goroutines], or stands for it.
func NewDump(fresh time.Duration, list func() []Goroutine) *Dump {
	return &Dump{fresh: fresh, list: list}
}

// Shared returns all goroutines by number, from a list that is new, or was when the last moment
// began.
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

// forget drops list number n, unless there is a later one.
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
