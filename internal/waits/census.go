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

// Census has the numbers of goroutines of the process by state, at one moment.
type Census struct {
	All        int // goroutines
	Asleep     int // in waits of weft's
	Services   int
	Bystanders int  // of the standard library and the like, which wait for others: see Bystander
	Timed      int  // waits of weft's that a time will end; their goroutines are not in Asleep
	Outside    bool // another process may wake some goroutine
	version    uint64
}

// Foreign returns how many goroutines may act though all of weft's sleep.
func (c Census) Foreign() int { return c.All - c.Asleep - c.Services - c.Bystanders }

// Closed reports whether no goroutine of this process will ever act again: none is foreign, and no
// time will wake one of weft's.
func (c Census) Closed() bool { return c.Foreign() == 0 && c.Timed == 0 }

// Same reports whether two censuses found the same waits, so that nothing has happened between
// them.
func (c Census) Same(d Census) bool { return c == d }

// tries is how often Take tries to find a moment at which no goroutine runs: goroutines that read a
// clock every now and then run for a few microseconds.
const tries = 20

// Take takes a census at a moment at which no goroutine but the caller runs or is runnable. The
// caller must be a Service. Take returns false if it finds no such moment, or if a goroutine has
// gone to sleep or was woken during the count. README.md has the proof.
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

// quiet reports whether no goroutine but the caller runs or is runnable.
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

// profile counts all goroutines, and the bystanders among them, at one moment at which the program
// is stopped. It returns false if there are more than it has room for.
func profile(c *Census) bool {
	records := make([]runtime.StackRecord, runtime.NumGoroutine()+16)
	n, ok := runtime.GoroutineProfile(records)
	if !ok {
		return false // more goroutines have started
	}
	c.All = n
	for i := range records[:n] {
		if Bystander(records[i].Stack()) != "" {
			c.Bystanders++
		}
	}
	return true
}

// Elsewhere returns how many goroutines with the function fn on their stacks wait or run outside
// weft's calls. The compiler must not inline fn. Elsewhere is for the wording of reports only.
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

// inside reports whether the innermost function outside Go's runtime is one of weft's.
func inside(pcs []uintptr) bool {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if !isRuntime(f.Function) || !more {
			return Frame{Func: f.Function, At: f.File}.Ours()
		}
	}
}
