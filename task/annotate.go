// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

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

// of returns what t is called: its label, or the name of its body.
func (a *annotator) of(t *Task) *annotation {
	o := t.origin()
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

// call is Task.call with annotations. A body may come back with another slot, but on the same goroutine, which is what labels and
// regions belong to. If it ends the goroutine there is nothing to take back.
func (a *annotator) call(t *Task) error {
	x, outer := a.of(t), context.Background()
	if o := t.slot.outer; o != nil {
		outer = a.of(o).ctx
	}
	pprof.SetGoroutineLabels(x.ctx)
	var region *trace.Region
	if trace.IsEnabled() {
		region = trace.StartRegion(t.run.ctx, x.name)
	}
	err := t.callHere()
	if region != nil {
		region.End()
	}
	pprof.SetGoroutineLabels(outer)
	return err
}

// unlabel takes off the goroutine what it has inherited from the body that it was started by.
func (e *events) unlabel() {
	if e.annotator != nil {
		pprof.SetGoroutineLabels(context.Background())
	}
}
