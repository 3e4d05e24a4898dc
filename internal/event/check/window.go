// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// windowEvent is step for records of windows.
func (c *Checker) windowEvent(e *replay.Event) error {
	id := uint32(e.Get(e.Kind().Info().Field("window")))
	k := windowKey{e.Process, e.Source.Location, id}
	w := c.windows[k]
	if e.Kind() == event.WindowMade {
		if w != nil && !w.freed {
			return fmt.Errorf("window %d exists: the number is in use", id)
		}
		c.windows[k] = &window{open: map[uint64]bool{}, pending: map[uint32]uint64{}}
		return nil
	}
	if w == nil {
		return fmt.Errorf("%w: window %d", errUnknown, id)
	}
	if e.Kind() == event.WindowRemoved {
		if !w.freed || w.removed {
			return fmt.Errorf("window %d: its memory is released once, after Free", id)
		}
		w.removed = true
		return nil
	}
	if w.freed {
		return fmt.Errorf("window %d is freed", id)
	}
	switch e.Kind() {
	case event.EpochClosing:
		return c.fence(e, id, w)
	case event.EpochClosed:
		if e.C != w.closed+1 || e.C > w.called {
			return fmt.Errorf("window %d: epoch %d is closed after %d epochs, and %d fences were called", id, e.C, w.closed, w.called)
		}
		for op, epoch := range w.pending {
			if epoch == e.C {
				return fmt.Errorf("window %d: epoch %d is closed, and operation %d in it is not done", id, epoch, op)
			}
		}
		w.closed = e.C
		delete(w.open, e.C)
	case event.Put, event.Get, event.Accumulate:
		op, epoch := uint32(e.B>>32), e.A>>32
		if !w.open[epoch] {
			return fmt.Errorf("window %d: operation %d is in epoch %d, which is not open: %d are closed, and %d fences were called", id, op, epoch, w.closed, w.called)
		}
		if was, ok := w.pending[op]; ok {
			return fmt.Errorf("window %d: operation %d is pending in epoch %d: the number is in use", id, op, was)
		}
		w.pending[op] = epoch
	case event.OperationDone:
		op := uint32(e.B >> 32)
		if _, ok := w.pending[op]; !ok {
			return fmt.Errorf("window %d: operation %d is not pending", id, op)
		}
		delete(w.pending, op)
	case event.Durable:
		if e.B > w.called || e.B <= w.closed || e.B <= w.durable {
			return fmt.Errorf("window %d: epoch %d is durable after %d epochs were closed, %d fences were called and epoch %d was durable", id, e.B, w.closed, w.called, w.durable)
		}
		w.durable = e.B
	case event.WindowFreed:
		if !w.last || w.closed != w.called {
			return fmt.Errorf("window %d: it is freed after %d epochs were closed and %d fences were called", id, w.closed, w.called)
		}
		w.freed = true
	}
	return nil
}

// fence is step for the call of a fence, which is also a request.
func (c *Checker) fence(e *replay.Event, id uint32, w *window) error {
	flags := e.B >> 32
	switch {
	case w.last:
		return fmt.Errorf("window %d: a fence is called after the fence of Free", id)
	case e.C != w.called+1:
		return fmt.Errorf("window %d: a fence is to close epoch %d, and the fence before it epoch %d", id, e.C, w.called)
	}
	if err := c.requestEvent(e); err != nil {
		return err
	}
	if r := c.requests[key{e.Process, e.A}]; r != nil {
		r.fence, r.epoch = w, e.C
	}
	w.called = e.C
	w.last = flags&event.FenceLast != 0
	w.open[e.C+1] = flags&event.FenceOpens != 0
	return nil
}

// undone lists the operations that are not done at the end.
func (c *Checker) undone() (l []error) {
	type op struct {
		windowKey
		number uint32
		epoch  uint64
	}
	var ops []op
	for k, w := range c.windows {
		for n, epoch := range w.pending {
			ops = append(ops, op{k, n, epoch})
		}
	}
	slices.SortFunc(ops, func(a, b op) int {
		return cmp.Or(cmp.Compare(a.process, b.process), cmp.Compare(a.location.Index, b.location.Index), cmp.Compare(a.id, b.id), cmp.Compare(a.number, b.number))
	})
	for _, o := range ops {
		l = append(l, fmt.Errorf("window %d%s at rank %d: operation %d in epoch %d is never done", o.id, of(o.process), o.location.Index, o.number, o.epoch))
	}
	return l
}
