// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package taskprof writes profiles for go tool pprof that show where tasks spend their time.
//
// A sample is a set of tasks with one label and one stack of spawns. Its frames are those of a
// call, as if a spawn called the task: first the task itself, then the functions from the spawn out
// to the body that called it, then the task of that body, and so on to the caller of Run. So "flat"
// is by task and "cum" by spawner, as it is for functions. A task with a label has the frame "task
// LABEL" at the line of its body, because tasks with several labels may have one function as body.
// The frame of a task without a label is its body. The values are in Types.
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

// Times are the sums of the times of a set of tasks.
type Times struct {
	Count   int64
	Run     time.Duration // on a slot
	Deps    time.Duration // after the spawn, waiting for accesses
	Ready   time.Duration // waiting for a slot
	Blocked time.Duration // in the body, waiting without a slot
	Comm    time.Duration // after the body, waiting for bound messages, fences and events
}

// Add adds o to t.
func (t *Times) Add(o *Times) {
	t.AddMany(o, 1)
}

// AddMany adds o to t, n times.
func (t *Times) AddMany(o *Times, n int64) {
	d := time.Duration(n)
	t.Count += o.Count * n
	t.Run += o.Run * d
	t.Deps += o.Deps * d
	t.Ready += o.Ready * d
	t.Blocked += o.Blocked * d
	t.Comm += o.Comm * d
}

// Scale multiplies all times by rate: it converts ticks to nanoseconds, for example.
func (t *Times) Scale(rate float64) {
	for _, d := range []*time.Duration{&t.Run, &t.Deps, &t.Ready, &t.Blocked, &t.Comm} {
		*d = time.Duration(float64(*d) * rate)
	}
}

func (t *Times) values() []int64 {
	return []int64{t.Count, int64(t.Run), int64(t.Deps), int64(t.Ready), int64(t.Blocked), int64(t.Comm)}
}

// Types are the names and units of a sample's values. go tool pprof -sample_index takes the names.
var Types = []struct{ Name, Unit string }{
	{"tasks", "count"},
	{"run", "nanoseconds"},
	{"deps", "nanoseconds"},
	{"ready", "nanoseconds"},
	{"blocked", "nanoseconds"},
	{"comm", "nanoseconds"},
}

// A Task is the label and body of tasks of one kind.
type Task struct {
	Label string  // may be empty
	Body  uintptr // program counter of the function; zero if there is none
}

// A Spawn is a call of Spawn, or of Run.
type Spawn struct {
	// Stack is that of the call, innermost frame first, as runtime.Callers returns it. The
	// outermost frame is the body of By, or within it.
	Stack []uintptr
	By    Task // the task that called; zero if none did
}

// A Sample is a set of tasks.
type Sample struct {
	Name string // of the tasks; not empty
	Task Task
	// Spawns are the spawn of the task, then the spawn of the task that called it, and so on, as
	// far as they are known.
	Spawns []Spawn
	Times  Times
}

// A Header describes the profile.
type Header struct {
	Program  string // name of the program
	Start    time.Time
	Duration time.Duration
	Comments []string
}

// Write writes a compressed profile for go tool pprof. Equal input makes equal profiles.
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
	// Without a mapping, the tool searches for a binary.
	p.Mapping = []*profile.Mapping{{ID: 1, File: h.Program, HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}}
	b := builder{p: p, functions: map[function]*profile.Function{}, locations: map[sourceLine]*profile.Location{}, samples: map[string]*profile.Sample{}}
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

// sourceLine is a line of a function.
type sourceLine struct {
	function
	line int
}

type builder struct {
	p         *profile.Profile
	functions map[function]*profile.Function
	locations map[sourceLine]*profile.Location
	samples   map[string]*profile.Sample // by name and locations, encoded as a string
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
	if x := b.samples[string(key)]; x != nil { // the stacks differ only in frames of the runtime
		for i, v := range values {
			x.Value[i] += v
		}
		return
	}
	x := &profile.Sample{Location: locations, Value: values, Label: map[string][]string{"task": {s.Name}}}
	b.samples[string(key)] = x
	b.p.Sample = append(b.p.Sample, x)
}

// frames returns the frames of a sample, innermost first.
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

// frames returns the frame of a task, or nothing for a task without label and body.
func (t Task) frames() []runtime.Frame {
	var f runtime.Frame
	if t.Body != 0 {
		// the address after a call at the beginning of the body
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

// location returns the location of a function and line. Frames that the compiler has inlined into
// one function have different locations.
func (b *builder) location(f runtime.Frame) *profile.Location {
	key := sourceLine{function{f.Function, f.File}, f.Line}
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

// Frames returns the program's frames of a stack: from the caller of a method that spawns out to
// the body.
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
		case ofRuntime(f.Function):
			if len(list) > 0 {
				return list // the runtime, which has called the body
			}
		default:
			list = append(list, f)
		}
		if !more {
			return list
		}
	}
}

// ofRuntime reports whether a function belongs to the packages that run tasks. Tests of these
// packages count as programs.
func ofRuntime(name string) bool {
	return (strings.HasPrefix(name, "weft/task.") || strings.HasPrefix(name, "weft/task/internal/")) && !strings.Contains(name, ".Test") && !strings.Contains(name, ".Benchmark") && !strings.Contains(name, ".Example")
}
