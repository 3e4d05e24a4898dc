// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tampi joins communication and tasks, as the Task-Aware MPI library does
// for MPI and OmpSs-2: a task binds a request to itself, or waits for the request without
// keeping its slot.
//
// A task that starts an operation binds it with [Iwait] and ends at once:
//
//	t.Spawn(func(t *task.Task) error {
//		return tampi.Iwait(t, c.Irecv(comm.Of(row), up, tag))
//	}, deps.Out(&row[0]))
//
// The task is over, and releases its accesses, when its body has returned and all bound
// operations are complete. So a task that reads row runs after the message has arrived. As with
// TAMPI, the body must not use the buffer after Iwait; a successor may.
// Every [Completion] can be bound: messages, collectives, fences of windows, and requests that a
// program makes with [comm.NewRequest].
//
// There is no polling and no table of tickets: the completion itself removes the
// event from the task and queues the tasks that become ready.
//
// The other functions are blocking calls for tasks. They give up the slot until the operation
// is complete, so another task runs meanwhile, however many tasks wait. Outside tasks,
// use the methods of [comm.Comm].
//
// # Errors
//
// A bound operation that fails ends the run of the task, as if its body had returned the error.
// When the run ends early for another reason, waiting ends: a receive is cancelled, but a send may
// still read its buffer until the peer has received it or the ranks' run ends.
//
// All functions take the task whose body calls them. They may be called for any number of
// tasks at once. Any number of tasks may bind a request or wait for it.
package tampi
