// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/waits"
	"weft/nam/internal/store"
	"weft/rma"
)

// backing is one rank's access to a mapped allocation. It implements rma.Backing: an operation is
// one copy to or from the mapping, which every process that has the allocation mapped sees.
type backing struct {
	// constant after construction
	s       *Store
	h       *store.Handle
	regions []rma.Region
	mem     [][]byte
	counts  bool          // fences raise the epoch count: this group made the window
	removes func() bool   // whether Free releases the memory, and this rank does it
	flusher *flusher      // nil unless epochs are forced to the disk
	touched []atomic.Bool // by target rank, if flusher is set: written since the last flush

	prefault *prefaulter // of this rank's own region; nil: none

	// Set before the first fence.
	ev     *event.Shared // nil: no trace
	number uint32        // of the window, in the trace

	fences uint64 // completed; owned by the current fence
}

func newBacking(s *Store, h *store.Handle, maker bool, rawUnit int) *backing {
	ent := h.Entry()
	b := &backing{s: s, h: h, counts: maker}
	for r, g := range ent.Regions {
		region := rma.Region{Size: int(g.Size), Unit: int(g.Unit)}
		if rawUnit > 0 && Structure(ent.Structure) == RawAndFlat {
			region.Unit = rawUnit
		}
		b.regions = append(b.regions, region)
		b.mem = append(b.mem, h.Region(r))
	}
	if ent.SyncEpoch && !h.ReadOnly() {
		b.touched = make([]atomic.Bool, len(b.regions))
		b.flusher = startFlusher()
	}
	return b
}

func (b *backing) Regions() []rma.Region { return b.regions }

func (b *backing) writing(rank int) error {
	if b.h.ReadOnly() {
		return fmt.Errorf("%w: the window is attached read-only", ErrAccess)
	}
	if b.touched != nil && !b.touched[rank].Load() {
		b.touched[rank].Store(true)
	}
	return nil
}

func (b *backing) Put(rank, off int, src comm.Buffer) error {
	if err := b.writing(rank); err != nil {
		return err
	}
	return b.lost(b.h.Guard(func() { src.StreamToBytes(b.mem[rank][off:]) }))
}

func (b *backing) Get(rank, off int, dst comm.Buffer) error {
	return b.h.Guard(func() { dst.CopyFromBytes(b.mem[rank][off:], 0) })
}

func (b *backing) Accumulate(rank, off int, src comm.Buffer, op comm.Op) error {
	if err := b.writing(rank); err != nil {
		return err
	}
	var err, gerr error
	n := src.Bytes()
	lerr := b.h.Exclusive(rank, off, n, func() {
		gerr = b.h.Guard(func() { err = rma.Apply(b.mem[rank][off:off+n], src, op) })
	})
	return errors.Join(lerr, b.lost(gerr), err)
}

// lost stops the epoch count if a write failed: this epoch is not complete.
func (b *backing) lost(err error) error {
	if err != nil {
		b.h.Break()
	}
	return err
}

// Flush: the copied data is in the mapping. Nothing more is needed, unless the epoch must be on the
// disk.
func (b *backing) Flush(done func(error)) {
	if b.flusher == nil {
		done(nil)
		return
	}
	b.flusher.jobs <- func() { done(b.syncTouched()) }
}

func (b *backing) syncTouched() error {
	for r := range b.touched {
		if !b.touched[r].Swap(false) {
			continue
		}
		if err := b.h.Sync(r, 0, b.regions[r].Size); err != nil {
			b.h.Break() // before the barrier, so no rank counts this epoch
			return fmt.Errorf("%w: force an epoch to the disk: %w", ErrLost, err)
		}
	}
	return nil
}

// Closed: every rank's part of the epoch is complete, so the epoch may be counted. Every rank
// raises the count before its own fence completes. So when the fence completes at any rank, the
// count already covers it.
func (b *backing) Closed(done func(error)) {
	b.fences++
	switch {
	case !b.counts:
		done(nil)
	case b.h.Broken():
		done(fmt.Errorf("%w: part of an epoch is not there, or could not be forced to the disk", ErrLost))
	case b.flusher == nil:
		done(b.raise())
	default:
		b.flusher.jobs <- func() { done(b.raise()) }
	}
}

// raise counts the current fence.
func (b *backing) raise() error {
	err := b.h.Raise(b.fences)
	if err == nil && b.flusher != nil {
		if serr := b.h.SyncEpochs(); serr != nil {
			err = fmt.Errorf("%w: force the epoch count to the disk: %w", ErrLost, serr)
		}
	}
	if err != nil {
		return b.lost(err)
	}
	if b.ev != nil { // the epochs up to this one survive the program
		b.ev.Put(event.Durable, uint64(b.number), b.fences, 0)
	}
	return nil
}

func (b *backing) Free() error {
	b.prefault.stop()
	if b.flusher != nil {
		b.flusher.stop()
	}
	var err error
	if b.removes() {
		err = b.s.st.Doom(b.h.Entry().ID)
	}
	return fail("free", b.h.Entry().Name, errors.Join(err, b.h.Release()))
}

// prefaultWait is how long Allocate waits for the pages of a region: 100 ms, which a person
// perceives as immediate. A region of some hundred MiB is present by then.
const prefaultWait = 100 * time.Millisecond

// prefaulter makes the pages of one rank's region present, from the first to the last. The kernel
// takes 0.3 to 1.5 s per GiB for that, and several times as long on a busy machine. The rank begins
// to work meanwhile; its first put to a page that is not present yet pays for that page. One
// goroutine, owned by the rank's allocation and then by its backing; it ends with the last page, or
// when stop is called.
type prefaulter struct {
	stopped atomic.Bool
	done    chan struct{}
}

func startPrefault(h *store.Handle, rank int) *prefaulter {
	p := &prefaulter{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		h.Populate(rank, p.stopped.Load)
	}()
	return p
}

// wait waits for the last page, at most prefaultWait.
func (p *prefaulter) wait() {
	select {
	case <-p.done:
	case <-time.After(prefaultWait):
	}
}

// stop ends the goroutine, which must not access the mapping after its handle is released. It may
// be called more than once, and on nil.
func (p *prefaulter) stop() {
	if p != nil {
		p.stopped.Store(true)
		<-p.done
	}
}

// flusher runs jobs that block on the disk, so that the goroutine that completes fences does not
// block. One goroutine, owned by one rank's backing, from its creation to its Free.
type flusher struct {
	jobs chan func() // capacity 1: a rank has one fence at a time, so a send never blocks
	done chan struct{}
}

func startFlusher() *flusher {
	f := &flusher{jobs: make(chan func(), 1), done: make(chan struct{})}
	// not while a job runs: a goroutine that waits for the job can continue
	idle := waits.NewCounter()
	go func() {
		defer close(f.done)
		for {
			idle.Sleep()
			job, ok := <-f.jobs
			idle.Wake()
			if !ok {
				return
			}
			job()
		}
	}()
	return f
}

// stop ends the goroutine. Preconditions: no job runs, and none will be sent.
func (f *flusher) stop() {
	close(f.jobs)
	<-f.done
}
