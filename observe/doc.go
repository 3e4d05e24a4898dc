// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package observe reports on the tasks of a program, while they run and afterwards: statistics by
// label, a profile for go tool pprof, the graph of the tasks with its critical path, and a live
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
// docs/profiling.md walks through a session. Package trace writes a timeline, from the same trace
// events.
//
// # How it works
//
// Slots and ranks record trace events into rings (package internal/event, whose README has the
// protocol). A goroutine of the recording empties the rings and passes the events to a collector.
// The collector reconstructs the tasks from their events, and answers queries from what it has so
// far. So observed tasks never wait for a query; only the collector and the caller of a query share
// a lock. While tasks are kept for the graph, slots wait for room in their rings, because a graph
// with gaps is useless. At other times, events that find no room are lost.
//
// # What is counted
//
// Statistics and profile cover the tasks that are over: their bodies have returned, all requests
// and events that were bound to them are complete, and their descendants are over. This includes
// the main task of a run. The live page also shows the tasks that are not over.
//
// # Stacks
//
// With Config.Stacks, the slot that records a spawn reads its own stack, up to the body that it
// runs. It searches the stack in its own table, then in the table of all slots. A stack has a
// number; the trace event of the task has this number, the label and the body. The frames outside
// the body belong to the slot and not to the task. They are replaced by the origin of the body's
// task, which has a stack as well. So the stacks of nested tasks form a tree, whichever task ran on
// top of which. Names.Stack folds recursions and bounds the number of stacks.
//
// A task that is not sampled has no stack. A task that it spawns has its label and body only. If
// all sampled tasks with this label and body have the same stack, the profile uses that stack.
//
// # Limits
//
// A slot publishes its last few trace events only when it parks or ends. So close the runtime
// before you read final numbers.
//
// Memory is bounded: rings, a million tasks that are live at a time, Config.Graph tasks for the
// graph, and some KiB for each kind of task. Notes, and every output, say what is left out.
//
// A task's run time is by the clock. Time for which the operating system takes the processor away
// is included.
//
// The critical path uses the measured times of the tasks. It knows accesses, spawns, waits for
// children, messages between ranks of one process, and rounds of recorded loops. It does not know
// the order by an early Release, an undeferred child, an event that the program ends itself, a
// mutex, or a request of another process. There it counts the time for which a task was bound as
// the task's own time.
package observe
