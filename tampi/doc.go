// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package tampi joins communication and tasks, as the Task-Aware MPI library does
// for MPI and OmpSs-2: a request is bound to the task that made it, or waited for without
// keeping the slot.
//
// A task that starts an operation binds it with [Iwait] and ends at once:
//
//	t.Spawn(func(t *task.Task) error {
//		return tampi.Iwait(t, c.Irecv(comm.Of(row), up, tag))
//	}, deps.Out(&row[0]))
//
// The task is over, and releases its accesses, when its body has returned and all that it has
// bound is complete: a task that reads row runs after the message is there. As with TAMPI
// the buffer must not be touched after Iwait in the same body, but in a successor.
// Anything that calls back when it is complete can be bound: messages, collectives,
// fences of windows, and what a program makes with [comm.NewRequest].
//
// There is no polling and no table of tickets: the completion itself removes the
// event from the task and queues what becomes ready.
//
// The other functions are blocking calls for tasks: they give up the slot until the operation
// is complete, so that another task runs meanwhile, however many wait. Outside of tasks
// use the methods of [comm.Comm].
//
// # Errors
//
// An operation that fails ends the run of the task, as if its body had returned the error. When
// the run ends early for another reason, waiting ends: a receive is cancelled, while
// a send may still read its buffer until the peer has taken it or the ranks' run ends.
//
// All functions take the task whose body calls them; they may be called on any number of
// tasks at once. A request may be bound once or waited for, by any number of tasks.
package tampi
