// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"context"
	"fmt"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/friend"
)

// New makes a window of memory that lives in b. Collective over c; every rank passes its own
// Backing, and all Backings reach the same regions. The window owns b from then on, also if New
// fails.
func New(c *comm.Comm, b Backing, info comm.Info) (*Win, error) { return newWin(c, b, info, false) }

func newWin(c *comm.Comm, b Backing, info comm.Info, separate bool) (*Win, error) {
	own, err := c.Dup()
	if err != nil {
		b.Free()
		return nil, &Error{Op: "create window", Rank: c.Rank(), Peer: NoPeer, Err: cause(err)}
	}
	w := &Win{c: own, b: b, regions: b.Regions(), separate: separate, ev: friend.EventsOfComm(own), number: own.TraceID()}
	w.onFlush, w.onBarrier, w.onClosed = w.flushed, w.passed, w.closed
	if err := w.mergeInfo(info); err != nil {
		// Every rank has the same info, or the window is not usable. So this failure leaves no rank
		// waiting in a fence.
		b.Free()
		return nil, w.wrap("create window", NoPeer, err)
	}
	w.stopAtEnd = own.AtEnd(w.abandon)
	if w.ev != nil {
		w.recordWindow()
	}
	return w, nil
}

// Comm is the window's own communicator. It must not be used for collective operations while fences
// are outstanding.
func (w *Win) Comm() *comm.Comm { return w.c }

// GroupSize is the number of target ranks.
func (w *Win) GroupSize() int { return len(w.regions) }

// Size is the size of a rank's region in bytes. It panics if there is no such rank.
func (w *Win) Size(rank int) int { return w.regions[rank].Size }

// Unit is the displacement unit of a rank's region in bytes. It panics if there is no such rank.
func (w *Win) Unit(rank int) int { return w.regions[rank].Unit }

// Free waits for the outstanding fences and for all ranks, and ends the window. Collective.
// Operations that are still queued are carried out. Every later call returns ErrFreed.
//
// A rank that fails should return its error rather than call Free, which would wait for the other
// ranks. When a run ends or is aborted, its windows are freed without a call. Free then returns an
// error that wraps comm.ErrAborted.
func (w *Win) Free() error {
	w.stopAtEnd()
	req := w.enqueueFence(false, true, w.ev)
	if req == nil {
		return w.wrap("free", NoPeer, w.freedCause())
	}
	_, err := req.Wait(context.Background())
	if ferr := w.b.Free(); ferr != nil && err == nil {
		err = w.wrap("free", NoPeer, ferr)
	}
	if w.ev != nil {
		w.ev.Put(event.WindowFreed, uint64(w.number), 0, 0)
	}
	return err
}

// abandon frees the window of a run that is over. The barrier of its fence fails at once, but
// abandon waits for operations in progress.
func (w *Win) abandon() {
	w.abandoned.Store(true)
	if req := w.enqueueFence(false, true, nil); req != nil {
		_, _ = req.Wait(context.Background())
		w.b.Free() // no caller is left to return an error to
	}
}

func (w *Win) String() string {
	return fmt.Sprintf("window of %d regions, rank %d of %d", len(w.regions), w.c.Rank(), w.c.Size())
}
