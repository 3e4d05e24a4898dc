// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"context"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strings"

	"weft/internal/event"
)

// annotator makes Go's own tools know tasks: samples of a CPU profile have the label "task", and while a runtime trace is taken each body is a
// region. It belongs to the holder of the slot.
type annotator struct {
	kinds map[event.Origin]*annotation
}

// annotation is what tasks of one origin are called.
type annotation struct {
	name string
	ctx  context.Context // with the name as a label of profiles
}

// of returns what a task is called: its label, or the name of its body.
func (a *annotator) of(o event.Origin) *annotation {
	x := a.kinds[o]
	if x == nil {
		x = &annotation{name: o.Label}
		if f := runtime.FuncForPC(o.Body); x.name == "" && f != nil {
			x.name = f.Name()[strings.LastIndexByte(f.Name(), '/')+1:]
		}
		x.ctx = pprof.WithLabels(context.Background(), pprof.Labels("task", x.name))
		if a.kinds == nil {
			a.kinds = map[event.Origin]*annotation{}
		}
		a.kinds[o] = x
	}
	return x
}

// Annotation is what a body runs under. A body may come back with another slot, but on the same goroutine, which is what labels and
// regions belong to. If it ends the goroutine there is nothing to take back.
type Annotation struct {
	outer  context.Context
	region *trace.Region // nil if there is no runtime trace
}

// begin begins an annotation for a body of a task with origin o, on top of one with origin outer, if that is not nil.
func (a *annotator) begin(ctx context.Context, o event.Origin, outer *event.Origin) Annotation {
	x, now := a.of(o), Annotation{outer: context.Background()}
	if outer != nil {
		now.outer = a.of(*outer).ctx
	}
	pprof.SetGoroutineLabels(x.ctx)
	if trace.IsEnabled() {
		now.region = trace.StartRegion(ctx, x.name)
	}
	return now
}

// End ends the annotation.
func (a Annotation) End() {
	if a.region != nil {
		a.region.End()
	}
	pprof.SetGoroutineLabels(a.outer)
}

// unlabel takes off the goroutine what it runs under.
func unlabel() { pprof.SetGoroutineLabels(context.Background()) }
