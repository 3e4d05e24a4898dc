// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"weft/comm"
	"weft/internal/event"
	"weft/internal/friend"
)

// What a recorded run says of windows: each window from its making to Free, each fence, each
// operation with the epoch that it belongs to. Win.ev is nil in a run that is not recorded, and
// then nothing else is looked at.
//
// Fence number n, from 1, closes epoch n. An operation belongs to the epoch that the next fence
// closes. Which that is, is known without a lock:
//
//   - A direct operation is counted in the state word, and was so when no fence was outstanding:
//     then all fences that were called are complete. None that is called later is complete before
//     the operation has left. So Win.over stands still, and the epoch is the one after it. It is
//     read before the operation leaves: afterwards, the next fence may move it.
//   - An operation that is queued has mu, and so has whoever calls a fence: it belongs to the epoch
//     after Win.asked.
//
// Operations are recorded before they leave, so that all of an epoch's come before its end.

// made records that there is a window.
func (w *Win) made() {
	size := 0
	if me := w.c.Rank(); me < len(w.regions) {
		size = w.regions[me].Size
	}
	w.ev.Put(event.WindowMade, uint64(w.number), uint64(size), uint64(uint32(len(w.regions))))
}

// closing records that a fence is called, under a number of its request's. The caller holds mu and
// has counted it.
func (w *Win) closing(e *entry, req *comm.Request, opens bool) {
	friend.Record(req, w.ev)
	e.seen = req
	flags := uint8(0)
	if opens {
		flags |= event.FenceOpens
	}
	if e.final {
		flags |= event.FenceLast
	}
	w.ev.Put(event.EpochClosing, req.TraceID(), event.FenceB(w.number, flags), w.asked)
}

// posted records an operation, and gives it a number.
func (w *Win) posted(e *entry, epoch uint64) {
	e.number = w.ops.Add(1)
	k := [...]event.Kind{kindPut: event.Put, kindGet: event.Get, kindAccumulate: event.Accumulate}[e.kind]
	w.ev.Put(k, event.TargetA(e.rank, epoch), event.OperationB(w.number, e.number), uint64(e.buf.Bytes()))
}

// done records that an operation is carried out, as far as this rank can.
func (w *Win) done(e *entry, err error) {
	flags := uint64(event.EndedCompleted)
	if err != nil {
		flags |= event.EndedFailed
	}
	w.ev.Put(event.OperationDone, 0, event.OperationB(w.number, e.number), flags)
}

// TraceID returns the number of the window in a recording of package trace. It is the same at all
// ranks.
func (w *Win) TraceID() uint32 { return w.number }

func init() { friend.EventsOfWin = func(w any) *event.Shared { return w.(*Win).ev } }
