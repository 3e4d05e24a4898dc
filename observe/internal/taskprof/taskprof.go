// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package taskprof makes a profile for go tool pprof of where tasks spend their time.
//
// A sample is a set of tasks with one label that were spawned in one way, and its frames are those
// of a call, as if a spawn called the task: innermost the task itself, around it the functions from
// the spawn to the body that it was called in, around these the task of that body, and so on to who
// called Run. So "flat" is by task and "cum" by what has spawned, as people know it from functions.
// A task that has a label is a frame of its own, "task LABEL", at the line of its body, since
// bodies of several labels may be one function; one that has none is its body. The values are in
// Types.
package taskprof

import (
	"cmp"
	"encoding/binary"
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
	t.AddMany(o, 1)
}

// AddMany adds n of the same.
func (t *Times) AddMany(o *Times, n int64) {
	d := time.Duration(n)
	t.Count += o.Count * n
	t.Run += o.Run * d
	t.Deps += o.Deps * d
	t.Ready += o.Ready * d
	t.Blocked += o.Blocked * d
	t.Comm += o.Comm * d
}

// Scale turns ticks into nanoseconds.
func (t *Times) Scale(rate float64) {
	for _, d := range []*time.Duration{&t.Run, &t.Deps, &t.Ready, &t.Blocked, &t.Comm} {
		*d = time.Duration(float64(*d) * rate)
	}
}

func (t *Times) values() []int64 {
	return []int64{t.Count, int64(t.Run), int64(t.Deps), int64(t.Ready), int64(t.Blocked), int64(t.Comm)}
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

// A Task is what tasks of one kind are.
type Task struct {
	Label string  // may be empty
	Body  uintptr // program counter of the function; zero if there is none
}

// A Spawn is a call of Spawn, or of Run.
type Spawn struct {
	// of the call, innermost first, as runtime.Callers gives it; the outermost is the body of By,
	// or within it
	Stack []uintptr
	By    Task // the zero one if it was no task
}

// A Sample is a set of tasks.
type Sample struct {
	Name string // what tasks of the kind are called: not empty
	Task Task
	// how they came to be: the spawn of the task, that of the task that called it, and so on, as
	// far as it is known
	Spawns []Spawn
	Times  Times
}

// A Header says what the profile is of.
type Header struct {
	Program  string // what the program is called
	Start    time.Time
	Duration time.Duration
	Comments []string
}

// Write makes a profile and writes it compressed, as go tool pprof wants it. Equal input makes
// equal profiles.
func Write(w io.Writer, h Header, samples []Sample) error {
	p := &profile.Profile{
		TimeNanos:         h.Start.UnixNano(),
		DurationNanos:     int64(h.Duration),
		PeriodType:        &profile.ValueType{Type: "tasks", Unit: "count"},
		Period:            1,
		DefaultSampleType: "run",
		Comments:          h.Comments,
	}
	for _, t := range Types {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: t.Name, Unit: t.Unit})
	}
	// Without a mapping, the tool looks for a binary.
	p.Mapping = []*profile.Mapping{{ID: 1, File: h.Program, HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}}
	b := builder{p: p, functions: map[function]*profile.Function{}, locations: map[place]*profile.Location{}, samples: map[string]*profile.Sample{}}
	samples = slices.Clone(samples)
	slices.SortStableFunc(samples, func(x, y Sample) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), slices.CompareFunc(x.Spawns, y.Spawns, func(a, b Spawn) int { return slices.Compare(a.Stack, b.Stack) }))
	})
	for i := range samples {
		b.add(&samples[i])
	}
	if err := p.CheckValid(); err != nil {
		return err
	}
	return p.Write(w)
}

type function struct {
	name, file string
}

// place is a line of a function.
type place struct {
	function
	line int
}

type builder struct {
	p         *profile.Profile
	functions map[function]*profile.Function
	locations map[place]*profile.Location
	samples   map[string]*profile.Sample // by name and locations, in words
}

func (b *builder) add(s *Sample) {
	var locations []*profile.Location
	key := []byte(s.Name)
	for _, f := range s.frames() {
		l := b.location(f)
		locations = append(locations, l)
		key = binary.AppendUvarint(append(key, 0), l.ID)
	}
	values := s.Times.values()
	if x := b.samples[string(key)]; x != nil { // from other places in the runtime of tasks
		for i, v := range values {
			x.Value[i] += v
		}
		return
	}
	x := &profile.Sample{Location: locations, Value: values, Label: map[string][]string{"task": {s.Name}}}
	b.samples[string(key)] = x
	b.p.Sample = append(b.p.Sample, x)
}

// frames are those of a sample, innermost first.
func (s *Sample) frames() []runtime.Frame {
	list := s.Task.frames()
	if len(list) == 0 {
		list = append(list, runtime.Frame{Function: "task " + s.Name})
	}
	if len(s.Spawns) == 0 && s.Task.Label != "" {
		list = append(list, Task{Body: s.Task.Body}.frames()...)
	}
	for _, x := range s.Spawns {
		list = append(list, Frames(x.Stack)...)
		if x.By.Label != "" {
			list = append(list, x.By.frames()...)
		}
	}
	return list
}

// frames are the frame that stands for a task.
func (t Task) frames() []runtime.Frame {
	var f runtime.Frame
	if t.Body != 0 {
		// as if it were a call at the body's beginning
		f, _ = runtime.CallersFrames([]uintptr{t.Body + 1}).Next()
	}
	switch {
	case t.Label != "":
		f.Function = "task " + t.Label
	case f.Function == "":
		return nil
	}
	return []runtime.Frame{f}
}

// location is a place of its own for each function and line: frames that the compiler has put into
// one are told apart.
func (b *builder) location(f runtime.Frame) *profile.Location {
	key := place{function{f.Function, f.File}, f.Line}
	l := b.locations[key]
	if l == nil {
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: b.p.Mapping[0], Line: []profile.Line{{Function: b.function(f), Line: int64(f.Line)}}}
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

// Frames are the frames of a stack that are the program's: from who called a method that spawns,
// down to the body that did.
func Frames(stack []uintptr) []runtime.Frame {
	if len(stack) == 0 {
		return nil
	}
	var list []runtime.Frame
	it := runtime.CallersFrames(stack)
	for {
		f, more := it.Next()
		switch {
		case f.Function == "" || f.Function == "runtime.goexit":
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

// ours reports whether a function is of the packages that make tasks. Tests of these are programs
// like others.
func ours(name string) bool {
	return (strings.HasPrefix(name, "weft/task.") || strings.HasPrefix(name, "weft/task/internal/")) && !strings.Contains(name, ".Test") && !strings.Contains(name, ".Benchmark") && !strings.Contains(name, ".Example")
}
