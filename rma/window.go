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

// New makes a window of memory that lives in b. Collective over c; every rank passes a Backing of
// its own that reaches the same regions. The window takes over b, also if New fails.
func New(c *comm.Comm, b Backing, info comm.Info) (*Win, error) { return newWin(c, b, info, false) }

func newWin(c *comm.Comm, b Backing, info comm.Info, apart bool) (*Win, error) {
	own, err := c.Dup()
	if err != nil {
		b.Free()
		return nil, &Error{Op: "create window", Rank: c.Rank(), Peer: NoPeer, Err: cause(err)}
	}
	w := &Win{c: own, b: b, regions: b.Regions(), apart: apart, ev: friend.EventsOfComm(own), number: own.TraceID()}
	w.onFlush, w.onBarrier, w.onClosed = w.flushed, w.passed, w.closed
	if err := w.mergeInfo(info); err != nil {
		// Every rank has the same info, or the window is not usable at all: there is no fence to
		// fall out of step.
		b.Free()
		return nil, w.wrap("create window", NoPeer, err)
	}
	w.unwatch = own.AtEnd(w.abandon)
	if w.ev != nil {
		w.made()
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
// Operations that are still queued are carried out. Whatever is called afterwards returns ErrFreed.
//
// A rank that gives up with an error should return it rather than call Free, which would wait for
// the others: when a run ends or is aborted, its windows are freed without being asked. Free then
// returns an error that wraps comm.ErrAborted.
func (w *Win) Free() error {
	w.unwatch()
	req := w.enqueueFence(false, true, w.ev)
	if req == nil {
		return w.wrap("free", NoPeer, w.gone())
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

// abandon frees the window of a run that is over. The barrier in it fails at once; this waits for
// operations under way.
func (w *Win) abandon() {
	w.abandoned.Store(true)
	if req := w.enqueueFence(false, true, nil); req != nil {
		_, _ = req.Wait(context.Background())
		w.b.Free() // there is nobody to tell of an error
	}
}

func (w *Win) String() string {
	return fmt.Sprintf("window of %d regions, rank %d of %d", len(w.regions), w.c.Rank(), w.c.Size())
}
