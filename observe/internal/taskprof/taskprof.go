// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package taskprof makes a profile for go tool pprof of where tasks spend their time.
//
// A sample is a set of tasks with one label that were spawned by one stack. Its innermost frame stands for the label, so that "flat" is by
// label and "cum" by the functions that have spawned; the frames below are those of the stack. The values are in Types.
package taskprof

import (
	"cmp"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// Times is what a set of tasks has done.
type Times struct {
	Count   int64
	Run     time.Duration // on a slot
	Deps    time.Duration // spawned, waiting for accesses
	Ready   time.Duration // may run, waiting for a slot
	Blocked time.Duration // in the body, waiting without a slot
	Comm    time.Duration // after the body, waiting for what is bound: messages, fences, events
}

// Add adds up.
func (t *Times) Add(o *Times) {
	t.Count += o.Count
	t.Run += o.Run
	t.Deps += o.Deps
	t.Ready += o.Ready
	t.Blocked += o.Blocked
	t.Comm += o.Comm
}

// Scale turns ticks into nanoseconds.
func (t *Times) Scale(rate float64) {
	for _, d := range []*time.Duration{&t.Run, &t.Deps, &t.Ready, &t.Blocked, &t.Comm} {
		*d = time.Duration(float64(*d) * rate)
	}
}

func (t *Times) values(scale int64) []int64 {
	return []int64{t.Count * scale, int64(t.Run) * scale, int64(t.Deps) * scale, int64(t.Ready) * scale, int64(t.Blocked) * scale, int64(t.Comm) * scale}
}

// Types are the values of a sample: what go tool pprof takes as -sample_index.
var Types = []struct{ Name, Unit string }{
	{"tasks", "count"},
	{"run", "nanoseconds"},
	{"deps", "nanoseconds"},
	{"ready", "nanoseconds"},
	{"blocked", "nanoseconds"},
	{"comm", "nanoseconds"},
}

// A Sample is a set of tasks.
type Sample struct {
	Label string    // not empty
	Stack []uintptr // of the call that spawned, innermost first, as runtime.Callers gives it
	Times Times
}

// A Header says what the profile is of.
type Header struct {
	Start    time.Time
	Duration time.Duration
	Every    int64 // one task of so many was looked at; all values are multiplied by it
	Comments []string
}

// Build makes a profile. Equal input makes equal profiles.
func Build(h Header, samples []Sample) (*profile.Profile, error) {
	h.Every = max(h.Every, 1)
	p := &profile.Profile{
		TimeNanos:         h.Start.UnixNano(),
		DurationNanos:     int64(h.Duration),
		PeriodType:        &profile.ValueType{Type: "tasks", Unit: "count"},
		Period:            h.Every,
		DefaultSampleType: "run",
		Comments:          h.Comments,
	}
	for _, t := range Types {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: t.Name, Unit: t.Unit})
	}
	b := builder{p: p, functions: map[function]*profile.Function{}, locations: map[string]*profile.Location{}}
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(x, y Sample) int {
		return cmp.Or(cmp.Compare(x.Label, y.Label), slices.Compare(x.Stack, y.Stack))
	})
	for i := range samples {
		b.add(&samples[i], h.Every)
	}
	return p, p.CheckValid()
}

// Write is Build, and writes the profile compressed, as go tool pprof wants it.
func Write(w io.Writer, h Header, samples []Sample) error {
	p, err := Build(h, samples)
	if err != nil {
		return err
	}
	return p.Write(w)
}

type function struct {
	name, file string
}

type builder struct {
	p         *profile.Profile
	functions map[function]*profile.Function
	locations map[string]*profile.Location // by their lines, in words
}

func (b *builder) add(s *Sample, scale int64) {
	var locations []*profile.Location
	frames := Frames(s.Stack)
	leaf := runtime.Frame{Function: "task " + s.Label}
	if len(frames) > 0 {
		leaf.File, leaf.Line = frames[0].File, frames[0].Line
	}
	for _, f := range append([]runtime.Frame{leaf}, frames...) {
		locations = append(locations, b.location(f))
	}
	b.p.Sample = append(b.p.Sample, &profile.Sample{
		Location: locations,
		Value:    s.Times.values(scale),
		Label:    map[string][]string{"task": {s.Label}},
	})
}

// location is a place of its own for each function and line: frames that the compiler has put into one are told apart.
func (b *builder) location(f runtime.Frame) *profile.Location {
	key := f.Function + "\x00" + f.File + "\x00" + string(rune(f.Line))
	l := b.locations[key]
	if l == nil {
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: b.function(f), Line: int64(f.Line)}}}
		b.locations[key] = l
		b.p.Location = append(b.p.Location, l)
	}
	return l
}

func (b *builder) function(f runtime.Frame) *profile.Function {
	key := function{f.Function, f.File}
	fn := b.functions[key]
	if fn == nil {
		fn = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: f.Function, SystemName: f.Function, Filename: f.File}
		b.functions[key] = fn
		b.p.Function = append(b.p.Function, fn)
	}
	return fn
}

// Frames are the frames of a stack that are the program's: from who called a method that spawns, down to the body that did.
func Frames(stack []uintptr) []runtime.Frame {
	if len(stack) == 0 {
		return nil
	}
	var list []runtime.Frame
	it := runtime.CallersFrames(stack)
	for {
		f, more := it.Next()
		switch {
		case f.Function == "":
		case ours(f.Function):
			if len(list) > 0 {
				return list // the runtime of tasks, which has called the body
			}
		default:
			list = append(list, f)
		}
		if !more {
			return list
		}
	}
}

// ours reports whether a function is of the packages that make tasks. Tests of these are programs like others.
func ours(name string) bool {
	return strings.HasPrefix(name, "weft/task.") && !strings.Contains(name, ".Test") && !strings.Contains(name, ".Benchmark") && !strings.Contains(name, ".Example")
}
