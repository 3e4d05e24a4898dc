// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi

import (
	"context"

	"weft/comm"
	"weft/internal/event"
	"weft/task"
)

// Run runs main as the main task of rank c on rt and returns when all its descendants are over. The
// ranks of one process may share rt.
//
// It is rt.Run with both sides bound to each other: when the ranks' run ends, so does this
// one; and when a task of this rank fails, the other ranks learn of it at once. That matters
// because a run that has failed still waits for what is bound to its tasks, which may be a message
// that a peer will now never send. While it lasts, slots without work look for messages of other processes before they park.
func Run(rt *task.Runtime, c *comm.Comm, main func(*task.Task) error) error {
	if poll := c.Poller(); poll != nil {
		defer rt.Poll(poll)()
	}
	return rt.Run(c.Context(), func(t *task.Task) error {
		if ev := c.EventSource(); ev != nil && t.TraceID() != 0 {
			ev.Put(event.RunOfRank, t.TraceID(), uint64(uint32(c.Rank())), 0)
		}
		ctx := t.Context()
		context.AfterFunc(ctx, func() {
			// A run that has come to its end cancels its context without a cause of its own.
			if cause := context.Cause(ctx); cause != context.Canceled {
				c.Abort(cause)
			}
		})
		return main(t)
	})
}
