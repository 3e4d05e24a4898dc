// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package waits

import (
	"reflect"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// Census is how many goroutines of the process are where, at one moment.
type Census struct {
	All        int // goroutines
	Asleep     int // in waits of ours
	Services   int
	Bystanders int  // of the standard library and the like, which wait for others: see Bystander
	Timed      int  // waits of ours that a time will end; their goroutines are not in Asleep
	Outside    bool // another process may wake some goroutine
	version    uint64
}

// Foreign returns how many goroutines may act though all of ours sleep.
func (c Census) Foreign() int { return c.All - c.Asleep - c.Services - c.Bystanders }

// Closed reports whether nothing in this process will ever act again: no goroutine is foreign, and
// no time will wake one of ours.
func (c Census) Closed() bool { return c.Foreign() == 0 && c.Timed == 0 }

// Same reports whether two are of the same waits, and so nothing has happened between them.
func (c Census) Same(d Census) bool { return c == d }

// tries is how often Take looks for a moment at which nobody runs: goroutines that look at a clock
// every now and then take a few microseconds for that.
const tries = 20

// Take counts, at a moment at which no goroutine but the caller, which must be a Service, runs or
// wants to. It returns false if it has not found such a moment, or something has moved while it
// counted. README.md has the argument.
func Take() (Census, bool) {
	for try := range tries {
		if try > 0 {
			time.Sleep(time.Millisecond)
		}
		if c, ok := take(); ok {
			return c, true
		}
	}
	return Census{}, false
}

func take() (Census, bool) {
	if !quiet() { // T1
		return Census{}, false
	}
	before := count()                  // T2
	if !profile(&before) || !quiet() { // T3, T4
		return Census{}, false
	}
	after := count() // T5
	after.All, after.Bystanders = before.All, before.Bystanders
	return before, after == before
}

// count reads all counters.
func count() (c Census) {
	add := func(n int, version uint64) int {
		c.version = (c.version ^ version) * 0x9E3779B97F4A7C15
		return n
	}
	read := func(k *Counter) int {
		w := k.word.Load()
		return add(int(int32(uint32(w))), w)
	}
	for i := range counters {
		c.Asleep += read(&counters[i])
	}
	c.Asleep += read(&calls)
	c.Services, c.Timed = read(&services), read(&timed)
	for _, p := range joined() {
		if p.Asleep != nil {
			asleep, timed, version := p.Asleep()
			c.Asleep += add(asleep, version)
			c.Timed += timed
		}
		c.Outside = c.Outside || p.Outside != nil && p.Outside()
	}
	return c
}

// quiet reports whether no goroutine runs or wants to but the caller.
func quiet() bool {
	s := [...]metrics.Sample{{Name: "/sched/goroutines/running:goroutines"}, {Name: "/sched/goroutines/runnable:goroutines"}}
	metrics.Read(s[:])
	for i, most := range [...]uint64{1, 0} {
		if s[i].Value.Kind() != metrics.KindUint64 || s[i].Value.Uint64() > most {
			return false
		}
	}
	return true
}

// profile counts all goroutines, at one moment in which the program stands still, and the
// bystanders among them.
func profile(c *Census) bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return false // there are more by now
	}
	c.All = n
	for i := range records[:n] {
		if Bystander(records[i].Stack()) != "" {
			c.Bystanders++
		}
	}
	return true
}

// Elsewhere returns how many goroutines that were started by a function wait, or run, elsewhere
// than in calls of ours. fn is the function, which the compiler must not put into its caller. It is
// for the choice of what to say only.
func Elsewhere(fn any) (n int) {
	want := runtime.FuncForPC(reflect.ValueOf(fn).Pointer())
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	all, _ := runtime.GoroutineProfile(records)
	for i := range records[:min(all, len(records))] {
		pcs := records[i].Stack()
		if slices.ContainsFunc(pcs, func(pc uintptr) bool { return runtime.FuncForPC(pc-1) == want }) && !inside(pcs) {
			n++
		}
	}
	return n
}

// inside reports whether the innermost function that is not of Go's runtime is one of ours.
func inside(pcs []uintptr) bool {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !isRuntime(f.Function) || !more {
			return Frame{Func: f.Function, At: f.File}.Ours()
		}
	}
}
