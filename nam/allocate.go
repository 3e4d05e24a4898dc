// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math"

	"weft/comm"
	"weft/nam/internal/store"
)

const (
	maxRegion = 1 << 48 // bytes; so that sums stay far from overflow
	// regions of one file begin on cache lines, so that two ranks share none
	regionAlign = 64
)

// Allocate makes a window with size bytes for this rank, addressed in units of unit bytes.
// Info().Get("psnam_window_name") returns the window's name. Collective over c; sizes and units may
// differ between ranks, and so may Manifestation and Prefault. All space is reserved before it
// returns: a put never fails for lack of space.
//
// Errors, the same on all ranks: ErrSize (also for a size above 0 on a rank other than 0 of a
// RawAndFlat window), ErrInfo, ErrNoSpace, ErrExist, ErrClosed, those of Open.
func (s *Store) Allocate(c *comm.Comm, size, unit int, opts ...Option) (*Win, error) {
	set, err := newSettings(opts)
	set.withDefaults()
	switch {
	case err != nil:
	case size < 0 || size > maxRegion:
		err = fmt.Errorf("%w: region of %d bytes; legal are 0 to %d", ErrSize, size, maxRegion)
	case unit < 1 || unit > math.MaxInt32:
		err = fmt.Errorf("%w: displacement unit of %d bytes; legal are 1 to %d", ErrSize, unit, math.MaxInt32)
	case set.structure == RawAndFlat && c.Rank() != 0 && size > 0:
		err = fmt.Errorf("%w: %d bytes on rank %d; in a %v window only rank 0 may pass a size above 0", ErrSize, size, c.Rank(), RawAndFlat)
	case bool(set.readOnly), bool(set.unsynced):
		err = fmt.Errorf("%w: ReadOnly and Unsynced are for Attach", ErrInfo)
	}
	if err := agree(c, "allocate", string(set.name), err); err != nil {
		return nil, err
	}
	offers, err := s.exchange(c, size, unit, set)
	if err != nil {
		return nil, fail("allocate", string(set.name), err)
	}
	a := &allocating{s: s, c: c, set: set, offers: offers}
	return a.run()
}

// offer is what a rank passes to an allocation.
type offer struct {
	size, unit                   int64
	structure, consistency, sync int64
	mode, nameHash               int64
	manifestation                int64
	storeIdentity                [2]uint64 // Identity of its store
}

// exchange gives every rank the offers of all ranks, and finds ranks that differ where they must
// not. All ranks get the same result.
func (s *Store) exchange(c *comm.Comm, size, unit int, set *settings) ([]offer, error) {
	h := fnv.New64a()
	h.Write([]byte(set.name))
	mine := offer{size: int64(size), unit: int64(unit), structure: int64(set.structure), consistency: int64(set.consistency),
		sync: int64(set.sync), mode: int64(set.mode), nameHash: int64(h.Sum64()), manifestation: int64(set.manifestation), storeIdentity: s.st.Identity()}
	offers := make([]offer, c.Size())
	if err := c.Allgather(comm.Of([]offer{mine}), comm.Of(offers)); err != nil {
		return nil, err
	}
	first := offers[0]
	for r, o := range offers {
		if o.storeIdentity != first.storeIdentity {
			return nil, otherStore(r)
		}
		for _, same := range []struct {
			what string
			ok   bool
		}{
			{KeyStructure, o.structure == first.structure},
			{KeyConsistency, o.consistency == first.consistency},
			{KeySync, o.sync == first.sync},
			{KeyMode, o.mode == first.mode},
			{KeyWindowName, o.nameHash == first.nameHash},
		} {
			if !same.ok {
				return nil, fmt.Errorf("%w: %s on rank %d is not that of rank 0; it must be the same on all ranks", ErrInfo, same.what, r)
			}
		}
	}
	return offers, nil
}

// sameStore finds ranks that have another directory open. All ranks get the same result.
func (s *Store) sameStore(c *comm.Comm) error {
	mine := s.st.Identity()
	all := make([]uint64, len(mine)*c.Size())
	if err := c.Allgather(comm.Of(mine[:]), comm.Of(all)); err != nil {
		return err
	}
	for r := range c.Size() {
		if all[2*r] != all[0] || all[2*r+1] != all[1] {
			return otherStore(r)
		}
	}
	return nil
}

func otherStore(rank int) error {
	return fmt.Errorf("%w: the store of rank %d is not the store of rank 0; all ranks must open the same directory", ErrStore, rank)
}

// allocating is a collective allocation in progress.
type allocating struct {
	s      *Store
	c      *comm.Comm
	set    *settings
	offers []offer

	creation *store.Creation // rank 0 only
	handle   *store.Handle
	prefault *prefaulter // nil: none
}

func (a *allocating) agree(err error) error { return agree(a.c, "allocate", string(a.set.name), err) }

// run is the create protocol of README.md. All ranks agree on each step before the next.
func (a *allocating) run() (*Win, error) {
	root := a.c.Rank() == 0

	// Steps 1 to 3: rank 0 writes the entry, and broadcasts its ID.
	var err error
	var id store.ID
	if root {
		if a.creation, err = a.s.st.Create(a.request()); err == nil {
			id = a.creation.Entry().ID
		}
	}
	if err := a.agree(err); err != nil {
		return nil, a.rollback(err)
	}
	if err := a.c.Bcast(comm.Of(id[:]), 0); err != nil {
		return nil, a.rollback(fail("allocate", string(a.set.name), err))
	}

	// Steps 4 and 5: reserve, and write headers; in a distributed window, each rank its own.
	if err := a.agree(a.reserve(id)); err != nil {
		return nil, a.rollback(err)
	}

	// Step 6: map it before it is ready. From then on it has a user as long as any rank lives.
	a.handle, err = a.s.st.AttachID(id, false, false)
	if err == nil && bool(a.set.prefault) && (a.set.structure != RawAndFlat || root) {
		a.prefault = startPrefault(a.handle, a.c.Rank())
		a.prefault.wait()
	}
	if err := a.agree(err); err != nil {
		return nil, a.rollback(err)
	}

	// The rest of step 6, and step 7: ready.
	if root {
		err = a.creation.Commit()
	}
	if err := a.agree(err); err != nil {
		return nil, a.rollback(err)
	}
	w, err := newWin(a.s, a.c, a.handle, a.set, a.prefault, true, int(a.offers[0].unit))
	if err != nil {
		if root {
			err = errors.Join(err, a.s.st.Doom(id))
		}
		return nil, fail("allocate", a.handle.Entry().Name, err)
	}
	return w, nil
}

// request lays out the window. Only rank 0 calls it.
func (a *allocating) request() store.Request {
	req := store.Request{Name: string(a.set.name), Structure: uint8(a.set.structure), Volatile: a.set.consistency == Volatile,
		SyncEpoch: a.set.sync == SyncEpoch, Mode: fs.FileMode(a.set.mode), Files: []uint64{0}}
	for r, o := range a.offers {
		g := store.Region{Size: uint64(o.size), Unit: uint32(o.unit), Manifestation: uint8(o.manifestation)}
		switch {
		case a.set.structure == RawAndFlat:
			// Raw memory has no structure to restore: it is one region of bytes.
			g.Unit = 1
			req.Files[0] = g.Size
			req.Regions = []store.Region{g}
			return req
		case a.set.structure == ManagedContiguous || r == 0:
			g.Offset = (req.Files[0] + regionAlign - 1) / regionAlign * regionAlign
			req.Files[0] = g.Offset + g.Size
		case g.Size > 0:
			g.File = uint32(len(req.Files))
			req.Files = append(req.Files, g.Size)
		}
		req.Regions = append(req.Regions, g)
	}
	return req
}

func (a *allocating) reserve(id store.ID) error {
	if a.creation != nil {
		return a.creation.Reserve(0)
	}
	if a.set.structure != ManagedDistributed || a.offers[a.c.Rank()].size == 0 {
		return nil
	}
	e, err := a.s.st.StatID(id)
	if err != nil {
		return err
	}
	if n := len(e.Regions); n != a.c.Size() {
		return fmt.Errorf("%w: an entry with %d regions for %d ranks", ErrCorrupt, n, a.c.Size())
	}
	return a.s.st.Reserve(e.Entry, int(e.Regions[a.c.Rank()].File))
}

// rollback undoes an allocation of which a step failed on some rank. All ranks call it, for the
// same reason.
func (a *allocating) rollback(err error) error {
	if a.handle != nil {
		a.prefault.stop()
		err = errors.Join(err, a.handle.Release())
		a.handle = nil
	}
	// When all ranks have released it, rank 0 can remove it. If the run is being aborted, Barrier
	// does not wait, and the last rank that releases the window removes it.
	berr := a.c.Barrier()
	if a.creation != nil {
		err = errors.Join(err, a.creation.Abort())
	}
	if berr == nil {
		a.c.Barrier() // so that nothing is left when the call returns on any rank
	}
	return err
}

// Attach opens a window that some program has allocated, by name. Collective over c, which may have
// any number of ranks; only rank 0's name counts. The window has the regions of the group that made
// it: RemoteSize of them, each with its size and unit. The window is treated as persistent: Free
// leaves the memory, unless SetInfo has made the window volatile. Fences of an attached window
// order its operations as always. They do not change Epochs, which counts the makers' fences.
//
// Options: ReadOnly, Unsynced, or FromInfo with psnam_window_connect. Errors, the same on all
// ranks: ErrName, ErrAccess, ErrInfo, ErrCorrupt, also ErrLost if part of the memory is missing,
// ErrUnsynced, ErrClosed.
func (s *Store) Attach(c *comm.Comm, name string, opts ...Option) (*Win, error) {
	set, err := newSettings(opts)
	if err == nil && *set != (settings{readOnly: set.readOnly, unsynced: set.unsynced}) {
		err = fmt.Errorf("%w: Attach takes ReadOnly and Unsynced and nothing else: the window is what it was made to be", ErrInfo)
	}
	if err == nil && bool(set.unsynced) && !bool(set.readOnly) {
		err = fmt.Errorf("%w: Unsynced is for reading only: add ReadOnly, or take the window as it is with Accept", ErrInfo)
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, err
	}
	if err := s.sameStore(c); err != nil {
		return nil, fail("attach", name, err)
	}
	var h *store.Handle
	var id store.ID
	if c.Rank() == 0 {
		if h, err = s.st.Attach(name, bool(set.readOnly), bool(set.unsynced)); err == nil {
			id = h.Entry().ID
		} else {
			err = s.hint(err, name)
		}
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, releaseOnError(h, err)
	}
	if err := c.Bcast(comm.Of(id[:]), 0); err != nil {
		return nil, releaseOnError(h, fail("attach", name, err))
	}
	if c.Rank() != 0 {
		h, err = s.st.AttachID(id, bool(set.readOnly), bool(set.unsynced))
	}
	if err := agree(c, "attach", name, err); err != nil {
		return nil, releaseOnError(h, err)
	}
	w, err := newWin(s, c, h, set, nil, false, 0)
	if err != nil {
		return nil, fail("attach", name, err)
	}
	return w, nil
}

// releaseOnError releases this rank's handle of a window, if it has one, after an attach has
// failed. It returns err.
func releaseOnError(h *store.Handle, err error) error {
	if h != nil {
		_ = h.Release() // err is the cause; the next user of the window finds its state
	}
	return err
}
