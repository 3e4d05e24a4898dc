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

// Win is a window of network-attached memory. Put, Get, Accumulate and the fences are rma's; there
// is no pointer to the memory.
type Win struct {
	*rma.Win

	// constant after construction
	ctl   *comm.Comm // for SetInfo and Free, apart from the fences' barriers
	b     *backing
	entry *store.Entry
	rank  int

	// what Free does. Changed by the collective SetInfo, so the same on all ranks
	volatile atomic.Bool
}

// newWin makes the window of a mapped allocation. It takes over h and prefault. rawUnit is what the
// makers of raw memory address it in; its record knows bytes only.
func newWin(s *Store, c *comm.Comm, h *store.Handle, set *settings, prefault *prefaulter, maker bool, rawUnit int) (*Win, error) {
	w := &Win{entry: h.Entry(), rank: c.Rank()}
	w.volatile.Store(set.consistency == Volatile)
	w.b = newBacking(s, h, maker, rawUnit)
	w.b.prefault = prefault
	w.b.removes = func() bool { return w.rank == 0 && w.volatile.Load() }
	var err error
	if w.Win, err = rma.New(c, w.b, comm.Info{}); err != nil { // and the backing is freed
		return nil, err
	}
	if w.b.ev = friend.EventsOfWin(w.Win); w.b.ev != nil {
		w.traceName(maker)
	}
	if w.ctl, err = c.Dup(); err != nil {
		// frees the backing once, though the run's end may free the window at the same time
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

// Epochs is the number of fences that the group that made the window has completed: what was put
// before the n-th of them is all there if Epochs is n or more, also after a crash. With SyncProcess
// that is a crash of processes, with SyncEpoch one of the machine. When a fence completes on any
// rank, it is counted already.
//
// The usual pattern (fence, puts, fence for each snapshot) completes snapshot i, from 0, with fence
// 2i+2.
//
// Of a window that was attached to with Unsynced it is what the window can vouch for, and 0 if the
// memory is lost.
func (w *Win) Epochs() uint64 {
	n, _ := w.b.h.Epochs() // 0 with an error, of which whoever reads or writes is told
	return n
}

// Info returns what is in effect: rma's keys and those of this package.
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

// SetInfo changes the window's consistency, and rma's hints. Collective: all ranks set the same,
// and it waits for all. A window that is volatile is released by Free, also one that was attached
// to. The change counts at once: if the program dies before Free, a volatile window is reclaimed
// and a persistent one stays. Errors, on all ranks alike: ErrInfo (also for a change of what cannot
// change any more), ErrAccess, ErrName if the window was removed; nothing is set then.
func (w *Win) SetInfo(info comm.Info) error {
	c := w.ctl
	set, err := newSettings([]Option{FromInfo(info)})
	if err == nil {
		err = w.checkChange(set)
	}
	// Ranks that differ are found before anything changes.
	votes := make([]int64, c.Size())
	if cerr := c.Allgather(comm.Of([]int64{int64(set.consistency)}), comm.Of(votes)); cerr != nil {
		return fail("set info", w.entry.Name, cerr)
	}
	for r, v := range votes {
		if err == nil && v != votes[0] {
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

// checkChange refuses changes of what is fixed when a window is made. Saying again what it is, is
// no change.
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

// Free ends the window on all ranks, after the outstanding fences. A persistent window's memory and
// name stay in the store, and when its last user in this process has freed it, what it wrote is on
// the disk; a volatile one's name goes with this call, and its memory when the last program that is
// attached frees it or dies. Collective. When a run ends or is aborted, its windows are freed
// without being asked, as rma.Win.Free says.
func (w *Win) Free() error {
	err := w.Win.Free()
	if errors.Is(err, rma.ErrFreed) {
		return err
	}
	if w.b.ev != nil && w.b.removes() {
		w.b.ev.Put(event.WindowRemoved, uint64(w.b.number), 0, 0)
	}
	// When the call returns on any rank, a volatile window is gone.
	if cerr := w.ctl.Barrier(); err == nil && cerr != nil {
		err = fail("free", w.entry.Name, cerr)
	}
	return err
}

// What a recorded run says of network-attached memory, beside what package rma says of the window:
// the name, when it is known; each epoch that is counted, at each rank, before its fence is
// complete; and that a volatile window's memory is given up. backing.ev is nil in a run that is not
// recorded. Store.Remove is no rank's, and is not recorded.

// named records which memory the window is. Nobody else has the window yet.
func (w *Win) traceName(maker bool) {
	w.b.number = w.TraceID()
	how := uint8(event.AttachedTo)
	if maker {
		how = event.Allocated
	}
	name := w.b.ev.Recorder().Names().Spec(event.Origin{Label: w.entry.Name})
	w.b.ev.Put(event.WindowNamed, uint64(w.b.number), 0, event.WindowNamedC(name, how))
}
