// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"weft/internal/shmem"
)

type handleKey struct {
	id       ID
	readOnly bool
}

// Handle is a mapped allocation, shared by all its users in this process. Each Attach must be
// paired with a Release; after its own Release a user must not touch the memory.
type Handle struct {
	// constant after construction
	s     *Store
	key   handleKey
	rec   *Record
	files []*os.File // the first holds the shared flock that says "in use"
	maps  [][]byte

	layout int // of the files; 1 only in a store that cannot be written
	// the machine has stopped before the window was on the disk, and nobody has accepted that
	unsynced  bool
	vouched   uint64 // epochs that are on the disk all the same, if unsynced
	rawEpochs uint64 // as counted when it was mapped

	refs int        // guarded by s.mu
	rmw  sync.Mutex // read-modify-write on the memory by this process; see Exclusive
}

// Attach maps a ready window by name. ErrUnsynced: the machine has stopped before it was on the
// disk; with anyway it is mapped, for reading only.
func (s *Store) Attach(name string, readOnly, anyway bool) (*Handle, error) {
	return s.attach(readOnly, anyway, func(tx *txn) (*Record, error) {
		rec, err := tx.byName(name)
		if err == nil && rec.State != Ready {
			err = fmt.Errorf("%w: %q is still %v", ErrName, name, rec.State)
		}
		return rec, err
	})
}

// AttachID maps an allocation that its creator is still making, or a ready one.
func (s *Store) AttachID(id ID, readOnly, anyway bool) (*Handle, error) {
	return s.attach(readOnly, anyway, func(tx *txn) (*Record, error) {
		rec, err := tx.byID(id)
		if err == nil && rec.State == Deleting {
			err = fmt.Errorf("%w: %q was removed", ErrName, rec.Name)
		}
		return rec, err
	})
}

func (s *Store) attach(readOnly, anyway bool, find func(*txn) (*Record, error)) (*Handle, error) {
	if s.readOnly != nil && !readOnly {
		return nil, fmt.Errorf("%w: the store is open for reading only (%w), and so are its windows", ErrAccess, s.readOnly)
	}
	var h *Handle
	// The store lock is held until the flock on the first file is: nobody can remove it in between.
	err := s.view(func(tx *txn) error {
		rec, err := find(tx)
		if err != nil {
			return err
		}
		if rec.State == Ready { // whoever helps to make it may write
			if err := checkAccess(rec, readOnly); err != nil {
				return err
			}
		}
		key := handleKey{rec.ID, readOnly}
		if h = s.handles[key]; h == nil {
			if h, err = s.mapRecord(rec, key); err != nil {
				return err
			}
		}
		if h.unsynced && !(anyway && readOnly) {
			if h.refs == 0 {
				h.unmap()
			}
			return fmt.Errorf("%w: %q counts %d epochs and can vouch for %d of them; look at it with ReadOnly and Unsynced, "+
				"and take the rest as true with weft nam accept", ErrUnsynced, h.rec.Name, h.rawEpochs, h.vouched)
		}
		h.refs++
		s.handles[key] = h
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

func (s *Store) mapRecord(rec *Record, key handleKey) (_ *Handle, err error) {
	h := &Handle{s: s, key: key, rec: rec}
	defer func() {
		if err != nil {
			h.unmap()
		}
	}()
	flags := os.O_RDWR
	if key.readOnly {
		flags = os.O_RDONLY
	}
	for i, file := range rec.Files {
		f, err := s.openSegment(rec, i, flags)
		if err != nil {
			return nil, err
		}
		h.files = append(h.files, f)
		if i == 0 {
			if ok, err := s.tryLock(f, false); err != nil || !ok {
				return nil, errors.Join(fmt.Errorf("%w: %q: its file is locked", ErrBusy, rec.Name), err)
			}
		}
		// A mapping beyond the end of the file would fault later: look now.
		head, err := s.checkSegment(f, rec, i)
		if err != nil {
			return nil, err
		}
		if head.layout == 1 && s.readOnly == nil {
			return nil, fmt.Errorf("%w: %q: file %v has layout 1", ErrVersion, rec.Name, file.ID)
		}
		m, err := s.mapFile(f, fileSize(file.Bytes), key.readOnly)
		if err != nil {
			return nil, err
		}
		h.maps = append(h.maps, m)
		if i > 0 {
			continue
		}
		if head.badEpochs {
			return nil, badEpochs(rec)
		}
		h.layout, h.unsynced, h.rawEpochs, h.vouched = head.layout, s.unsynced(rec, head), head.epochs, head.vouched
		if !h.unsynced && !key.readOnly {
			if err := h.begin(head); err != nil {
				return nil, err
			}
		}
	}
	return h, nil
}

func (h *Handle) unmap() error {
	var err error
	for _, m := range h.maps {
		err = errors.Join(err, shmem.Unmap(m))
	}
	for _, f := range h.files {
		err = errors.Join(err, h.s.close(f))
	}
	h.maps, h.files = nil, nil
	return err
}

// Release ends one user's use. The last one of this process unmaps, and forces what was written to
// the disk before if the window is to stay; the last one of all removes what is doomed, and marks
// as clean what stays.
func (h *Handle) Release() error {
	s := h.s
	s.mu.Lock()
	last := h.refs == 1
	s.mu.Unlock()
	var err error
	if last { // whoever attaches meanwhile does the same at its end
		err = h.flush()
	}
	settle, lerr := h.letGo()
	err = errors.Join(err, lerr)
	if !settle {
		return err
	}
	// The data is on the disk. If only the mark cannot be made, the window says less than it could.
	if serr := s.settle(h.rec, h.key.readOnly); !errors.Is(serr, ErrBusy) && !errors.Is(serr, ErrGone) {
		err = errors.Join(err, serr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settling--
	return errors.Join(err, s.closedLocked())
}

// letGo ends one user's use, and the mapping with the last one. settle: the caller is to call
// Store.settle, and is counted as settling until it has.
func (h *Handle) letGo() (settle bool, err error) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.refs <= 0 {
		panic(fmt.Sprintf("store: release of window %q, which has %d users", h.rec.Name, h.refs))
	}
	h.refs--
	if h.refs > 0 {
		return false, nil
	}
	delete(s.handles, h.key)
	// First let go, then look: a remover first sets the flag and then tries the lock. So either it
	// finds the lock free, or this finds the flag.
	err = unlock(h.files[0])
	flags, ferr := h.flags()
	settle = h.inUseUnclean()
	err = errors.Join(err, h.unmap())
	if s.readOnly == nil && (ferr != nil || flags&(headDoomed|headVolatile) != 0) {
		// without a header the record decides
		err = errors.Join(err, s.reclaim(h.key.id))
	}
	if settle {
		s.settling++
	}
	return settle, errors.Join(err, s.closedLocked())
}

// closedLocked closes the lock file after Close, when nobody needs it any more. Preconditions: s.mu
// is held.
func (s *Store) closedLocked() error {
	if !s.closing || len(s.handles) > 0 || s.settling > 0 {
		return nil
	}
	return s.closeLock()
}

// Record of the allocation as it was when it was mapped. The caller must not change it.
func (h *Handle) Record() *Record { return h.rec }

// ReadOnly says whether stores to the memory are impossible.
func (h *Handle) ReadOnly() bool { return h.key.readOnly }

// Unsynced says whether the machine has stopped before the window was on the disk.
func (h *Handle) Unsynced() bool { return h.unsynced }

// Region is the memory of one rank of the creating group.
func (h *Handle) Region(rank int) []byte {
	g := h.rec.Regions[rank]
	lo := headerSize + g.Offset
	return h.maps[g.File][lo : lo+g.Size : lo+g.Size]
}

// Epochs is the number of fences of the creating group whose data is complete; if the machine has
// stopped before the window was on the disk, that of those that are. ErrLost, ErrCorrupt: the count
// is not there, or damaged.
func (h *Handle) Epochs() (n uint64, err error) {
	if h.unsynced {
		return h.vouched, nil
	}
	var w uint64
	if err := h.Guard(func() { w = epochsWord(h.maps[0]).Load() }); err != nil || h.layout == 1 {
		return w, err
	}
	n, ok := unpackCount(w, h.rec.ID)
	if !ok {
		return 0, badEpochs(h.rec)
	}
	return n, nil
}

// Raise lifts the epoch count to at least n. Errors: as of Epochs.
func (h *Handle) Raise(n uint64) error {
	var damaged error
	err := h.Guard(func() {
		for w := epochsWord(h.maps[0]); ; {
			old := w.Load()
			cur, ok := unpackCount(old, h.rec.ID)
			if !ok {
				damaged = badEpochs(h.rec)
				return
			}
			if cur >= n || w.CompareAndSwap(old, packCount(n, h.rec.ID)) {
				return
			}
		}
	})
	return errors.Join(err, damaged)
}

// Break stops the epoch count: an epoch of the creating group could not be made durable, or part of
// the memory is gone.
func (h *Handle) Break() {
	// If the header is gone as well, nobody can count any more.
	_ = h.Guard(func() { changeFlags(h.maps[0], headBroken, 0) })
}

// Broken says whether Break was called, by anybody.
func (h *Handle) Broken() bool {
	flags, err := h.flags()
	return err != nil || flags&headBroken != 0
}

// flags are those of the header; damaged ones are none.
func (h *Handle) flags() (flags uint32, err error) {
	err = h.Guard(func() { flags = flagsWord(h.maps[0]).Load() })
	if h.layout > 1 {
		flags, _ = unpackFlags(flags)
	}
	return flags & headFlags, err
}

// Sync forces bytes [off, off+n) of a region to the disk.
func (h *Handle) Sync(rank, off, n int) error {
	g := h.rec.Regions[rank]
	return h.s.syncRange(h.files[g.File], h.maps[g.File], headerSize+int(g.Offset)+off, n)
}

// SyncEpochs forces the epoch count to the disk.
func (h *Handle) SyncEpochs() error { return h.s.syncRange(h.files[0], h.maps[0], 0, headerSize) }

// populateBytes is how much of a region is made present at a time, in 2 to 6 ms: what whoever stops
// Populate waits for, and what keeps the kernel's lock of the address space from other threads.
const populateBytes = 4 << 20

// Populate makes the pages of a region present, from the first to the last, so that the first store
// to each costs no page fault. It ends early when stop says so.
func (h *Handle) Populate(rank int, stop func() bool) {
	g := h.rec.Regions[rank]
	for off := 0; off < int(g.Size) && !stop(); off += populateBytes {
		shmem.Populate(h.maps[g.File], headerSize+int(g.Offset)+off, min(populateBytes, int(g.Size)-off))
		h.s.step("prefault")
	}
}

// Exclusive runs fn while nobody else is in Exclusive on any of bytes [off, off+n) of the region,
// in this process or another. It may wait for them.
func (h *Handle) Exclusive(rank, off, n int, fn func()) error {
	g := h.rec.Regions[rank]
	f, lo := h.files[g.File], int64(headerSize+g.Offset)+int64(off)
	h.rmw.Lock() // the file lock does not tell the threads of one process apart
	defer h.rmw.Unlock()
	if err := h.s.lockRange(f, lo, int64(n)); err != nil {
		return fmt.Errorf("lock bytes %d to %d of a window: %w", off, off+n, err)
	}
	defer unlockRange(f, lo, int64(n))
	fn()
	return nil
}

// SetVolatile changes what becomes of the allocation when its last user releases it.
func (s *Store) SetVolatile(id ID, volatile bool) error {
	return change(s, (*txn).byID, id, func(tx *txn, rec *Record) error {
		if err := checkOwner(rec); err != nil {
			return err
		}
		if rec.State == Deleting {
			return fmt.Errorf("%w: %q was removed", ErrName, rec.Name)
		}
		rec.Volatile = volatile
		// Whichever word says "volatile" too long does no harm: a release then looks at the record,
		// which decides.
		if volatile {
			if err := s.reached("setinfo:flagged", s.setFlags(rec, headVolatile, 0)); err != nil {
				return err
			}
			return tx.put(rec)
		}
		if err := s.fileLocked(tx, rec, "setinfo:committed"); err != nil {
			return err
		}
		return s.setFlags(rec, 0, headVolatile)
	})
}
