// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"sync/atomic"

	"weft/comm"
	"weft/internal/event"
	"weft/internal/friend"
	"weft/nam/internal/store"
	"weft/rma"
)

// Win is a window of network-attached memory. Put, Get, Accumulate and the fences are rma's. There
// is no pointer to the memory.
type Win struct {
	*rma.Win

	// constant after construction
	ctl   *comm.Comm // for SetInfo and Free, separate from the fences' barriers
	b     *backing
	entry *store.Entry
	rank  int

	// what Free does; changed by the collective SetInfo, so the same on all ranks
	volatile atomic.Bool
}

// newWin makes the window of a mapped allocation. It takes over h and prefault. rawUnit is the
// makers' displacement unit of raw memory; the database entry has bytes only.
func newWin(s *Store, c *comm.Comm, h *store.Handle, set *settings, prefault *prefaulter, maker bool, rawUnit int) (*Win, error) {
	w := &Win{entry: h.Entry(), rank: c.Rank()}
	w.volatile.Store(set.consistency == Volatile)
	w.b = newBacking(s, h, maker, rawUnit)
	w.b.prefault = prefault
	w.b.removes = func() bool { return w.rank == 0 && w.volatile.Load() }
	var err error
	if w.Win, err = rma.New(c, w.b, comm.Info{}); err != nil { // rma.New has freed the backing
		return nil, err
	}
	if w.b.ev = friend.EventsOfWin(w.Win); w.b.ev != nil {
		w.traceName(maker)
	}
	if w.ctl, err = c.Dup(); err != nil {
		// Free frees the backing once, though the run's end may free the window at the same time.
		return nil, errors.Join(err, w.Win.Free())
	}
	return w, nil
}

// Name is the window's name, unique in its store.
func (w *Win) Name() string { return w.entry.Name }

// RemoteSize is the number of ranks of the group that made the window; 1 for raw memory.
func (w *Win) RemoteSize() int { return w.GroupSize() }

// Region is the size in bytes and the displacement unit of a rank of the group that made the
// window. It panics if there is no such rank.
func (w *Win) Region(rank int) (size, unit int) { return w.Size(rank), w.Unit(rank) }

// Epochs is the number of fences that the group that made the window has completed. If Epochs is n
// or more, all data put before the n-th fence is there, also after a crash: with SyncProcess a
// crash of processes, with SyncEpoch one of the machine. When a fence completes on any rank, Epochs
// already counts it.
//
// The usual pattern (fence, puts, fence for each snapshot) completes snapshot i, from 0, with fence
// 2i+2.
//
// For a window that was attached to with Unsynced, Epochs is the number of epochs that are
// certainly on the disk. It is 0 if the memory is lost.
func (w *Win) Epochs() uint64 {
	n, _ := w.b.h.Epochs() // 0 with an error, which reads and writes return
	return n
}

// Info returns the values in effect: rma's keys and those of this package.
func (w *Win) Info() comm.Info {
	info := w.Win.Info()
	info.Set(KeyWindowName, w.entry.Name)
	g := w.entry.Regions[min(w.rank, len(w.entry.Regions)-1)]
	info.Set(KeyManifestation, Manifestation(g.Manifestation).String())
	info.Set(KeyConsistency, consistencyOf(w.volatile.Load()).String())
	info.Set(KeyStructure, Structure(w.entry.Structure).String())
	info.Set(KeySync, syncOf(w.entry).String())
	info.Set(KeyMode, strconv.FormatUint(uint64(w.entry.Mode), 8))
	if w.b.h.ReadOnly() {
		info.Set(KeyReadOnly, "true")
	}
	if w.b.h.Unsynced() {
		info.Set(KeyUnsynced, "true")
	}
	return info
}

// SetInfo changes the window's consistency, and rma's hints. Collective: all ranks pass the same
// values, and it waits for all. Free releases a volatile window, also one that was attached to. The
// change takes effect at once: if the program dies before Free, a volatile window is reclaimed and
// a persistent one stays.
//
// Errors, the same on all ranks: ErrInfo (also for a change of a value that is fixed), ErrAccess,
// ErrName if the window was removed. With an error nothing is set.
func (w *Win) SetInfo(info comm.Info) error {
	c := w.ctl
	set, err := newSettings([]Option{FromInfo(info)})
	if err == nil {
		err = w.checkChange(set)
	}
	// Find ranks that differ before anything changes.
	values := make([]int64, c.Size())
	if cerr := c.Allgather(comm.Of([]int64{int64(set.consistency)}), comm.Of(values)); cerr != nil {
		return fail("set info", w.entry.Name, cerr)
	}
	for r, v := range values {
		if err == nil && v != values[0] {
			err = fmt.Errorf("%w: %s on rank %d is not that of rank 0; it must be the same on all ranks", ErrInfo, KeyConsistency, r)
		}
	}
	if err == nil {
		err = w.Win.SetInfo(info)
	}
	if err := agree(c, "set info", w.entry.Name, err); err != nil {
		return err
	}
	if set.consistency == 0 {
		return nil
	}
	if w.rank == 0 {
		err = w.b.s.st.SetVolatile(w.entry.ID, set.consistency == Volatile)
	}
	if err := agree(c, "set info", w.entry.Name, err); err != nil {
		return err
	}
	w.volatile.Store(set.consistency == Volatile)
	return nil
}

// checkChange refuses changes of values that are fixed when a window is made. Setting the present
// value is no change.
func (w *Win) checkChange(set *settings) error {
	g := w.entry.Regions[min(w.rank, len(w.entry.Regions)-1)]
	for _, f := range []struct {
		key  string
		same bool
	}{
		{KeyManifestation, set.manifestation == 0 || set.manifestation == Manifestation(g.Manifestation)},
		{KeyStructure, set.structure == 0 || set.structure == Structure(w.entry.Structure)},
		{KeySync, set.sync == 0 || set.sync == syncOf(w.entry)},
		{KeyMode, set.mode == 0 || fs.FileMode(set.mode) == w.entry.Mode},
		{KeyWindowName, set.name == "" || string(set.name) == w.entry.Name},
		{KeyReadOnly, !bool(set.readOnly) || w.b.h.ReadOnly()},
		{KeyUnsynced, !bool(set.unsynced) || w.b.h.Unsynced()},
	} {
		if !f.same {
			return fmt.Errorf("%w: %s cannot be changed any more; only %s can", ErrInfo, f.key, KeyConsistency)
		}
	}
	return nil
}

// Free ends the window on all ranks, after the outstanding fences. Collective.
//
// A persistent window's memory and name stay in the store. When its last user in this process has
// freed it, what it wrote is on the disk. A volatile window's name is removed by this call; its
// memory is released when the last program that is attached frees it or dies. When a run ends or is
// aborted, its windows are freed automatically, as rma.Win.Free says.
func (w *Win) Free() error {
	err := w.Win.Free()
	if errors.Is(err, rma.ErrFreed) {
		return err
	}
	if w.b.ev != nil && w.b.removes() {
		w.b.ev.Put(event.WindowRemoved, uint64(w.b.number), 0, 0)
	}
	// The barrier makes sure that a volatile window is gone when the call returns on any rank.
	if cerr := w.ctl.Barrier(); err == nil && cerr != nil {
		err = fail("free", w.entry.Name, cerr)
	}
	return err
}

// Trace records of network-attached memory, in addition to those of package rma: the window's name,
// when it is known; each epoch that is counted, at each rank, before its fence completes; and that
// a volatile window's memory is released. backing.ev is nil in a run without a trace. Store.Remove
// belongs to no rank, and has no trace record.

// traceName records which memory the window has. No other goroutine has the window yet.
func (w *Win) traceName(maker bool) {
	w.b.number = w.TraceID()
	how := uint8(event.AttachedTo)
	if maker {
		how = event.Allocated
	}
	name := w.b.ev.Recorder().Names().Spec(event.Origin{Label: w.entry.Name})
	w.b.ev.Put(event.WindowNamed, uint64(w.b.number), 0, event.WindowNamedC(name, how))
}
