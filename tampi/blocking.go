// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi

import (
	"errors"

	"weft/comm"
	"weft/internal/event"
	"weft/task"
)

// Wait gives up t's slot until r is complete, and returns r's status and error. If the run ends
// early, Wait returns the error of the run, and cancels r if r is a receive that has not matched. A
// nil r is complete.
func Wait(t *task.Task, r *comm.Request) (comm.Status, error) {
	if r == nil {
		return comm.Status{}, nil
	}
	if !r.Done() {
		bind(t, r, event.WaitedFor)
		err := t.AwaitFor(r, func(done func()) { r.OnDone(func(error) { done() }) })
		if err != nil && !r.Done() {
			r.Cancel()
			return comm.Status{}, err
		}
	}
	_, st, err := r.Test()
	return st, err
}

// WaitAll gives up t's slot until all of rs are complete; it skips nil requests. It returns their
// errors, joined, or the error of the run if the run ends early.
func WaitAll(t *task.Task, rs ...*comm.Request) error {
	var errs []error
	for _, r := range rs {
		if _, err := Wait(t, r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Send is [comm.Comm.Send] for tasks.
func Send(t *task.Task, c *comm.Comm, buf comm.Buffer, dst, tag int) error {
	return wait(t, c.Isend(buf, dst, tag))
}

// Ssend is [comm.Comm.Ssend] for tasks.
func Ssend(t *task.Task, c *comm.Comm, buf comm.Buffer, dst, tag int) error {
	return wait(t, c.Issend(buf, dst, tag))
}

// Recv is [comm.Comm.Recv] for tasks.
func Recv(t *task.Task, c *comm.Comm, buf comm.Buffer, src, tag int) (comm.Status, error) {
	return Wait(t, c.Irecv(buf, src, tag))
}

// Sendrecv is [comm.Comm.Sendrecv] for tasks.
func Sendrecv(t *task.Task, c *comm.Comm, send comm.Buffer, dst, sendTag int, recv comm.Buffer, src, recvTag int) (comm.Status, error) {
	r := c.Irecv(recv, src, recvTag)
	if err := wait(t, c.Isend(send, dst, sendTag)); err != nil {
		r.Cancel()
		return comm.Status{}, err
	}
	return Wait(t, r)
}

// Barrier is [comm.Comm.Barrier] for tasks.
func Barrier(t *task.Task, c *comm.Comm) error { return wait(t, c.Ibarrier()) }

// Bcast is [comm.Comm.Bcast] for tasks.
func Bcast(t *task.Task, c *comm.Comm, buf comm.Buffer, root int) error {
	return wait(t, c.Ibcast(buf, root))
}

// Reduce is [comm.Comm.Reduce] for tasks.
func Reduce(t *task.Task, c *comm.Comm, in, out comm.Buffer, op comm.Op, root int) error {
	return wait(t, c.Ireduce(in, out, op, root))
}

// Allreduce is [comm.Comm.Allreduce] for tasks.
func Allreduce(t *task.Task, c *comm.Comm, in, out comm.Buffer, op comm.Op) error {
	return wait(t, c.Iallreduce(in, out, op))
}

// Scan is [comm.Comm.Scan] for tasks.
func Scan(t *task.Task, c *comm.Comm, in, out comm.Buffer, op comm.Op) error {
	return wait(t, c.Iscan(in, out, op))
}

// Gather is [comm.Comm.Gather] for tasks.
func Gather(t *task.Task, c *comm.Comm, send, recv comm.Buffer, root int) error {
	return wait(t, c.Igather(send, recv, root))
}

// Scatter is [comm.Comm.Scatter] for tasks.
func Scatter(t *task.Task, c *comm.Comm, send, recv comm.Buffer, root int) error {
	return wait(t, c.Iscatter(send, recv, root))
}

// Allgather is [comm.Comm.Allgather] for tasks.
func Allgather(t *task.Task, c *comm.Comm, send, recv comm.Buffer) error {
	return wait(t, c.Iallgather(send, recv))
}

// Alltoall is [comm.Comm.Alltoall] for tasks.
func Alltoall(t *task.Task, c *comm.Comm, send, recv comm.Buffer) error {
	return wait(t, c.Ialltoall(send, recv))
}

func wait(t *task.Task, r *comm.Request) error {
	_, err := Wait(t, r)
	return err
}
