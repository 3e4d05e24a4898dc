// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package observe shows what the tasks of a program do, while they do it and afterwards: statistics
// by label, a profile for go tool pprof, the graph of the tasks with its critical path, and a live
// page.
//
//	o, err := observe.New(observe.Config{Graph: 10_000, Stacks: true})
//	rt := task.New(task.Config{Trace: o.Recorder()})
//	go http.ListenAndServe("localhost:6060", o.Handler())
//	err = rt.Run(ctx, main)
//	fmt.Print(o.Stats())
//	err = o.WriteProfile(file)    // go tool pprof -sample_index=comm file
//	err = o.Graph().WriteSVG(picture, observe.GraphOptions{})
//
// docs/profiling.md walks through a session. Package trace writes what happens as a timeline, from
// the same events.
//
// # How it works
//
// Slots and ranks record events into rings (package internal/event, whose README has the protocol).
// A goroutine of the recording empties the rings and hands the events to a collector, which puts
// tasks together from them. Asking for anything takes what the collector has. So observed tasks
// never wait for those who ask, and a lock is only between collector and asker. While tasks are
// kept for the graph, which is of no use with holes in it, slots wait for room in their rings; at
// other times what has no room is lost.
//
// # What is counted
//
// Statistics and profile are of tasks that are over: their bodies have returned, what was bound to
// them is complete, and their descendants are over. The main task of a run is one as well. What is
// live is on the page.
//
// # Stacks
//
// With Config.Stacks, the slot that records a spawn looks at its own stack, up to the body that it
// is in, and looks it up in a table of its own, then of all: a stack has a number, and with label
// and body that is what the task's event names. What is around the body has to do with the slot,
// not with the task; in its place is the origin of the task that the body is of, which has a stack
// as well. So stacks of nested tasks form a tree, whichever task ran on top of which. Names.Stack
// folds recursions, and bounds how many there are. A task that is not sampled has no stack; one
// that it spawns names it by label and body, and the profile then takes the stack that others of
// these have, if they have but one.
//
// # Limits
//
// A slot keeps its last few events to itself until it parks or ends: close the runtime before you
// ask for final numbers.
//
// Memory is bounded: rings, a million tasks that are live at a time, Config.Graph tasks for the
// graph, and some KiB for each kind of task. Whatever is left out is said in Notes, and on every
// output.
//
// A task's run time is by the clock: if the operating system takes the processor away, that counts
// as well.
//
// The critical path takes the times of the tasks as they were. It knows accesses, spawns, waits for
// children, and messages between ranks of one process, rounds of recorded loops. Where an early
// Release, an undeferred child, an event that the program ends itself, a mutex, or a request of
// another process orders tasks, it takes the time that a task was bound as the task's own.
package observe
