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

// Win is one rank's side of a window. Any goroutine may call any method at any time, except that collective calls
// (Fence, Ifence, SetInfo, Free) must be made in the same order on all ranks.
type Win struct {
	// constant after construction
	c         *comm.Comm // the window's own: its fences disturb nobody
	b         Backing
	regions   []Region
	onFlush   func(error)
	onBarrier func(error)
	onClosed  func(error)
	unwatch   func() bool   // ends the watch for the run's end
	apart     bool          // each rank is in a process of its own: the port's fence is all that is needed
	ev        *event.Shared // nil: it is not recorded
	number    uint32        // in a recording, at all ranks

	state     word64 // see epoch.go
	abandoned bit    // the run ended before Free
	ops       word32 // operations that were recorded

	mu    mutex
	phase phase     // guarded by mu
	queue []entry   // guarded by mu; operations and fences that wait for the fence at hand
	opErr error     // guarded by mu; of queued operations, for the next fence
	info  comm.Info // guarded by mu
	asked uint64    // guarded by mu; fences called

	// over is how many fences are complete. It changes under mu while the window is busy and no direct operation is under way; who
	// is such an operation, or has mu, may read it.
	over uint64

	// Of the fence at hand: owned by whoever runs it; phase changes hands under mu.
	fence   entry
	syncErr error
}

// New makes a window of memory that lives in b. Collective over c; every rank passes a Backing of its own that
// reaches the same regions. The window takes over b, also if New fails.
func New(c *comm.Comm, b Backing, info comm.Info) (*Win, error) {
	return newWin(c, b, info, false)
}

func newWin(c *comm.Comm, b Backing, info comm.Info, apart bool) (*Win, error) {
	own, err := c.Dup()
	if err != nil {
		b.Free()
		return nil, &Error{Op: "create window", Rank: c.Rank(), Peer: NoPeer, Err: cause(err)}
	}
	w := &Win{c: own, b: b, regions: b.Regions(), apart: apart, ev: friend.EventsOfComm(own), number: own.TraceID()}
	w.onFlush, w.onBarrier, w.onClosed = w.flushed, w.passed, w.closed
	if err := w.mergeInfo(info); err != nil {
		// Every rank has the same info, or the window is not usable at all: there is no fence to fall out of step.
		b.Free()
		return nil, w.wrap("create window", NoPeer, err)
	}
	w.unwatch = own.AtEnd(w.abandon)
	if w.ev != nil {
		w.made()
	}
	return w, nil
}

// Comm is the window's own communicator. It must not be used for collective operations while fences are outstanding.
func (w *Win) Comm() *comm.Comm { return w.c }

// GroupSize is the number of target ranks.
func (w *Win) GroupSize() int { return len(w.regions) }

// Size is the size of a rank's region in bytes. It panics if there is no such rank.
func (w *Win) Size(rank int) int { return w.regions[rank].Size }

// Unit is the displacement unit of a rank's region in bytes. It panics if there is no such rank.
func (w *Win) Unit(rank int) int { return w.regions[rank].Unit }

// Free waits for the outstanding fences and for all ranks, and ends the window. Collective. Operations that are still
// queued are carried out. Whatever is called afterwards returns ErrFreed.
//
// A rank that gives up with an error should return it rather than call Free, which would wait for the others: when a run
// ends or is aborted, its windows are freed without being asked. Free then returns an error that wraps comm.ErrAborted.
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

// abandon frees the window of a run that is over. The barrier in it fails at once; this waits for operations under way.
func (w *Win) abandon() {
	w.abandoned.Store(true)
	if req := w.enqueueFence(false, true, nil); req != nil {
		_, _ = req.Wait(context.Background())
		w.b.Free() // there is nobody to tell of an error
	}
}

func (w *Win) wrap(op string, peer int, err error) error {
	return &Error{Op: op, Rank: w.c.Rank(), Peer: peer, Err: err}
}

func (w *Win) String() string {
	return fmt.Sprintf("window of %d regions, rank %d of %d", len(w.regions), w.c.Rank(), w.c.Size())
}
