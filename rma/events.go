// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"weft/comm"
	"weft/internal/event"
	"weft/internal/friend"
)

// The trace events of windows: each window from its making to Free, each fence, and each operation
// with its epoch. Win.ev is nil if the run is not recorded; then nothing else of this file is used.
//
// Fence number n, from 1, closes epoch n. An operation belongs to the epoch that the next fence
// closes. The number of this epoch is known without another lock:
//
//   - A direct operation entered the count of the state word when no fence was outstanding, so all
//     fences called until then are complete. No later fence completes before the operation leaves
//     the count. So Win.completed is constant in between, and the epoch is Win.completed+1. It is
//     read before the operation leaves; afterwards the next fence may change it.
//   - An operation is queued under mu, and a fence is called under mu. So the epoch of a queued
//     operation is Win.called+1.
//
// An operation is recorded before it leaves the count, so all operations of an epoch are recorded
// before its end.

// recordWindow records the making of the window.
func (w *Win) recordWindow() {
	size := 0
	if me := w.c.Rank(); me < len(w.regions) {
		size = w.regions[me].Size
	}
	w.ev.Put(event.WindowMade, uint64(w.number), uint64(size), uint64(uint32(len(w.regions))))
}

// recordFence records the call of a fence, and gives its request a number. The caller holds mu and
// has counted the fence.
func (w *Win) recordFence(e *entry, req *comm.Request, opens bool) {
	friend.Record(req, w.ev)
	e.recorded = req
	flags := uint8(0)
	if opens {
		flags |= event.FenceOpens
	}
	if e.final {
		flags |= event.FenceLast
	}
	w.ev.Put(event.EpochClosing, req.TraceID(), event.FenceB(w.number, flags), w.called)
}

// recordOp records an operation, and gives it a number.
func (w *Win) recordOp(e *entry, epoch uint64) {
	e.number = w.ops.Add(1)
	k := [...]event.Kind{kindPut: event.Put, kindGet: event.Get, kindAccumulate: event.Accumulate}[e.kind]
	w.ev.Put(k, event.TargetA(e.rank, epoch), event.OperationB(w.number, e.number), uint64(e.buf.Bytes()))
}

// recordDone records that this rank has carried out its part of an operation.
func (w *Win) recordDone(e *entry, err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	w.ev.Put(event.OperationDone, 0, event.OperationB(w.number, e.number), flags)
}

// TraceID returns the number of the window in a recording of package trace. The number is the same
// at all ranks.
func (w *Win) TraceID() uint32 { return w.number }

func init() { friend.EventsOfWin = func(w any) *event.Shared { return w.(*Win).ev } }
