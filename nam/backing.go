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

// backing is one rank's way to a mapped allocation. It implements rma.Backing: an operation is one
// copy to or from the mapping, which every process that has the allocation mapped sees.
type backing struct {
	// constant after construction
	s       *Store
	h       *store.Handle
	regions []rma.Region
	mem     [][]byte
	counts  bool          // fences move the epoch count: this group made the window
	removes func() bool   // whether Free releases the memory, and this rank is to do it
	flusher *flusher      // nil unless epochs are forced to the disk
	touched []atomic.Bool // by target rank, if flusher: written since the last flush

	prefault *prefaulter // of this rank's own region; nil: none

	// Set before the first fence.
	ev     *event.Shared // nil: it is not recorded
	number uint32        // of the window, in a recording

	fences uint64 // completed; owned by the fence at hand
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

// lost stops the count of epochs if what was to be written is not there any more: this epoch is not
// complete.
func (b *backing) lost(err error) error {
	if err != nil {
		b.h.Break()
	}
	return err
}

// Flush: what was copied is in the mapping and needs nothing more, unless the epoch has to be on
// the disk.
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
			b.h.Break() // before the barrier: no rank will count this epoch
			return fmt.Errorf("%w: force an epoch to the disk: %w", ErrLost, err)
		}
	}
	return nil
}

// Closed: every rank's part of the epoch is in place, so it may be counted. Every rank counts
// before its own fence completes; whoever is first, the count covers the fence when it completes
// anywhere.
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

// raise counts the fence at hand.
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

// prefaultWait is how long Allocate waits for the pages of a region: the 100 ms that a person takes
// for "at once". A region of some hundred MiB is present by then.
const prefaultWait = 100 * time.Millisecond

// prefaulter makes the pages of one rank's region present, from the first to the last. The kernel
// takes 0.3 to 1.5 s per GiB for that, and several times as long on a busy machine: the rank that
// asked for it begins to work meanwhile, and its first put to a page that is not present yet pays
// for that page. One goroutine, owned by the rank's allocation and then by its backing; it ends
// with the last page, or when stop is called.
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

// wait waits for the last page, but not for long.
func (p *prefaulter) wait() {
	select {
	case <-p.done:
	case <-time.After(prefaultWait):
	}
}

// stop ends the goroutine, which must not touch the mapping after its handle is released. It may be
// called more than once, and of nil.
func (p *prefaulter) stop() {
	if p != nil {
		p.stopped.Store(true)
		<-p.done
	}
}

// flusher runs what blocks on the disk apart from whoever completes fences. One goroutine, owned by
// one rank's backing, from its making to its Free.
type flusher struct {
	jobs chan func() // capacity 1: a rank has one fence at hand at a time, so who sends never waits
	done chan struct{}
}

func startFlusher() *flusher {
	f := &flusher{jobs: make(chan func(), 1), done: make(chan struct{})}
	idle := waits.NewCounter() // while a job is under way, who waits for it may still go on
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

// stop ends the goroutine. Preconditions: no job is under way or will come.
func (f *flusher) stop() {
	close(f.jobs)
	<-f.done
}
