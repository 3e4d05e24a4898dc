// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"weft/internal/event"
	"weft/internal/event/replay"
)

func (c *Checker) requestEvent(e *replay.Event) error {
	id := key{e.Process, e.A}
	r := c.requests[id]
	switch e.Kind() {
	case event.SendPosted, event.RecvPosted, event.CollectiveBegun, event.EpochClosing:
		if r != nil && e.A != 0 {
			return fmt.Errorf("request %d is pending: a number is given once", e.A)
		}
		if e.Kind() == event.SendPosted {
			c.under[replay.MessageOf(e)]++
		}
		if e.A == 0 {
			return nil // a blocking call that nobody can name
		}
		c.requests[id] = &request{kind: e.Kind()}
	case event.Matched:
		m := replay.MessageOf(e)
		switch {
		case c.under[m] == 0 && c.has(m):
			return fmt.Errorf("rank %d has sent rank %d no such message: all with tag %d of communicator %d are matched", m.From, m.To, m.Tag, m.Comm)
		case e.A == 0:
		case r == nil:
			return fmt.Errorf("%w: request %d is not pending", errUnknown, e.A)
		case r.kind != event.RecvPosted:
			return fmt.Errorf("request %d is not a receive", e.A)
		case r.matched:
			return fmt.Errorf("request %d has matched a message before", e.A)
		default:
			r.matched = true
		}
		if c.under[m]--; c.under[m] <= 0 {
			delete(c.under, m)
		}
	case event.RequestDone:
		if r == nil {
			return fmt.Errorf("%w: request %d is not pending", errUnknown, e.A)
		}
		if r.kind == event.RecvPosted && !r.matched && e.B&event.EndedFailed == 0 {
			return fmt.Errorf("request %d has not matched a message", e.A)
		}
		if r.fence != nil && r.fence.closed < r.epoch {
			return fmt.Errorf("request %d is a fence, and epoch %d is not closed", e.A, r.epoch)
		}
		delete(c.requests, id)
	case event.Bound:
		t := c.task(key{e.Process, e.B})
		if t == nil {
			return fmt.Errorf("%w: task %d", errUnknown, e.B)
		}
		if t.state != running && t.state != prepared && t.holds == 0 {
			return t.illegal("only a body, or OnReady, binds a request")
		}
	}
	return nil
}
