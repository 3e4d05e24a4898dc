// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"context"
	"runtime"

	"weft/deps"
)

// Context returns the context of the run: it is cancelled when the run's own
// context is, or when a task fails, with that error as the cause.
// Any goroutine may call it while the task is not over.
func (t *Task) Context() context.Context { return t.running("Context").ctx }

// Runtime returns the runtime that runs the task. Any goroutine may call it.
func (t *Task) Runtime() *Runtime { return t.running("Runtime").rt }

// running returns t's run. It panics if t is over.
func (t *Task) running(op string) *run {
	if t.run == nil {
		panic("task: " + op + " on a task that is over")
	}
	return t.run
}

// TraceID returns the number of the task in a recording of package trace; zero if it is not
// recorded. Any goroutine may call it while the task is not over.
func (t *Task) TraceID() uint64 { return t.id }

// Release gives up accesses before the body ends; the body must not touch their
// objects any more. Each access must be declared in just that mode. An error names the first
// that is not; the others are given up all the same.
func (t *Task) Release(accs ...deps.Access) error {
	s := t.enter("Release")
	if t.node.Flags&flagRecorded != 0 {
		return t.releaseEarly(s, accesses(accs))
	}
	var first error
	for _, a := range accesses(accs) {
		if t.node.Flags&flagLongSpawn != 0 {
			s = t.beforeRelease(a)
		}
		if s.probe != nil {
			s.probe.Releases(t.id, t.notes(), a)
		}
		if err := t.node.Release(a, &s.flow); err != nil {
			if s.probe != nil {
				s.probe.Refuses(t.notes())
			}
			first = cmp.Or(first, err)
		}
	}
	s.settle(false)
	return first
}

// enter checks that the caller is t's body and returns its slot.
func (t *Task) enter(op string) *slot {
	s := t.slot
	if s == nil || s.cur.load() != t || !s.Mine() {
		t.misuse(op, s)
	}
	return s
}

// misuse panics because the caller is not t's body. If t is over, the text may describe the next
// task in the same memory.
func (t *Task) misuse(op string, s *slot) {
	by := "a goroutine that runs no task"
	if r := t.run; r != nil {
		if h := r.rt.here(); h != nil && h.cur.load() != nil {
			by = h.cur.load().name()
		}
	}
	why := "only its own body may, while it runs"
	if s == nil {
		why = "its body is not running"
	}
	panic("task: " + op + " on " + t.name() + " by " + by + ": " + why)
}

// Uses declares that the body is about to use memory as accs say. In debug mode it panics if the
// task has not declared such an access, has declared it weak, or has given it up; otherwise it does
// nothing. Call it where a body is about to access its data.
func (t *Task) Uses(accs ...deps.Access) {
	if t.run == nil || t.run.rt.probe == nil || !t.run.rt.probe.Audits() {
		return
	}
	t.enter("Uses")
	if why := t.run.rt.probe.CheckUse(t.notes(), accesses(accs)); why != "" {
		panic("task: " + why)
	}
}

// traced returns the program counter of the caller of the method that calls traced; zero if
// spawns are not traced.
func (rt *Runtime) traced() uintptr {
	if !rt.cfg.TraceSpawns {
		return 0
	}
	return caller()
}

// caller returns the program counter of the caller of the function that calls traced.
//
//go:noinline
func caller() uintptr {
	var pc [1]uintptr
	runtime.Callers(4, pc[:])
	return pc[0]
}
