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
// paired with a Release. After its own Release a user must not touch the memory.
type Handle struct {
	// constant after construction
	s     *Store
	key   handleKey
	entry *Entry
	files []*os.File // the first holds the shared flock that says "in use"
	maps  [][]byte

	layout int // of the files; 1 only in a store that cannot be written
	// the machine stopped before the window was on the disk, and Accept has not been called
	unsynced  bool
	vouched   uint64 // if unsynced: epochs that are on the disk
	rawEpochs uint64 // the epoch count when it was mapped

	refs int        // guarded by s.mu
	rmw  sync.Mutex // serializes Exclusive in this process
}

// Attach maps a ready window by name. It returns ErrUnsynced if the machine stopped before the
// window was on the disk. With anyway, such a window is mapped, for reading only.
func (s *Store) Attach(name string, readOnly, anyway bool) (*Handle, error) {
	return s.attach(readOnly, anyway, func(tx *txn) (*Entry, error) {
		ent, err := tx.byName(name)
		if err == nil && ent.State != Ready {
			err = fmt.Errorf("%w: %q is still %v", ErrName, name, ent.State)
		}
		return ent, err
	})
}

// AttachID maps an allocation that is in state creating or ready.
func (s *Store) AttachID(id ID, readOnly, anyway bool) (*Handle, error) {
	return s.attach(readOnly, anyway, func(tx *txn) (*Entry, error) {
		ent, err := tx.byID(id)
		if err == nil && ent.State == Deleting {
			err = fmt.Errorf("%w: %q was removed", ErrName, ent.Name)
		}
		return ent, err
	})
}

func (s *Store) attach(readOnly, anyway bool, find func(*txn) (*Entry, error)) (*Handle, error) {
	if s.readOnly != nil && !readOnly {
		return nil, fmt.Errorf("%w: the store is open for reading only (%w), and so are its windows", ErrAccess, s.readOnly)
	}
	var h *Handle
	// The store lock is held until the flock on the first file is held, so the window cannot be
	// removed in between.
	err := s.view(func(tx *txn) error {
		ent, err := find(tx)
		if err != nil {
			return err
		}
		if ent.State == Ready { // a rank that helps to make the window may write
			if err := checkAccess(ent, readOnly); err != nil {
				return err
			}
		}
		key := handleKey{ent.ID, readOnly}
		if h = s.handles[key]; h == nil {
			if h, err = s.mapFiles(ent, key); err != nil {
				return err
			}
		}
		if h.unsynced && !(anyway && readOnly) {
			if h.refs == 0 {
				h.unmap()
			}
			return fmt.Errorf("%w: %q counts %d epochs and can vouch for %d of them; read it with ReadOnly and Unsynced, "+
				"and accept the rest with weft nam accept", ErrUnsynced, h.entry.Name, h.rawEpochs, h.vouched)
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

func (s *Store) mapFiles(ent *Entry, key handleKey) (_ *Handle, err error) {
	h := &Handle{s: s, key: key, entry: ent}
	defer func() {
		if err != nil {
			h.unmap()
		}
	}()
	flags := os.O_RDWR
	if key.readOnly {
		flags = os.O_RDONLY
	}
	for i, file := range ent.Files {
		f, err := s.openSegment(ent, i, flags)
		if err != nil {
			return nil, err
		}
		h.files = append(h.files, f)
		if i == 0 {
			if ok, err := s.tryLock(f, false); err != nil || !ok {
				return nil, errors.Join(fmt.Errorf("%w: %q: its file is locked", ErrBusy, ent.Name), err)
			}
		}
		// A mapping beyond the end of the file would fault later: check now.
		head, err := s.checkSegment(f, ent, i)
		if err != nil {
			return nil, err
		}
		if head.layout == 1 && s.readOnly == nil {
			return nil, fmt.Errorf("%w: %q: file %v has layout 1", ErrVersion, ent.Name, file.ID)
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
			return nil, badEpochs(ent)
		}
		h.layout, h.unsynced, h.rawEpochs, h.vouched = head.layout, s.unsynced(ent, head), head.epochs, head.vouched
		if !h.unsynced && !key.readOnly {
			if err := h.markInUse(head); err != nil {
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

// Release ends one user's use. The last user of this process first forces to the disk what was
// written, if the window stays, and unmaps. The last user of all processes removes the window if it
// is doomed or volatile, and marks it as clean otherwise.
func (h *Handle) Release() error {
	s := h.s
	s.mu.Lock()
	last := h.refs == 1
	s.mu.Unlock()
	var err error
	if last { // a user that attaches meanwhile does the same at its end
		err = h.flush()
	}
	settle, lerr := h.unref()
	err = errors.Join(err, lerr)
	if !settle {
		return err
	}
	// The data is on the disk. If only the mark fails, fewer epochs are certain than could be.
	if serr := s.settle(h.entry, h.key.readOnly); !errors.Is(serr, ErrBusy) && !errors.Is(serr, ErrGone) {
		err = errors.Join(err, serr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settling--
	return errors.Join(err, s.closedLocked())
}

// unref ends one user's use, and with the last use the mapping. settle: the caller must call
// Store.settle, and is counted in settling until it has.
func (h *Handle) unref() (settle bool, err error) {
	s := h.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.refs <= 0 {
		panic(fmt.Sprintf("store: release of window %q, which has %d users", h.entry.Name, h.refs))
	}
	h.refs--
	if h.refs > 0 {
		return false, nil
	}
	delete(s.handles, h.key)
	// Unlock first, then read the flags. A remover does the opposite: it sets the flag first, and
	// then tries the lock. So either the remover finds the lock free, or this process finds the
	// flag.
	err = unlock(h.files[0])
	flags, ferr := h.flags()
	settle = h.needsSettle()
	err = errors.Join(err, h.unmap())
	if s.readOnly == nil && (ferr != nil || flags&(headDoomed|headVolatile) != 0) {
		// without a header the entry decides
		err = errors.Join(err, s.reclaim(h.key.id))
	}
	if settle {
		s.settling++
	}
	return settle, errors.Join(err, s.closedLocked())
}

// closedLocked closes the lock file after Close, when it is no longer needed. Preconditions: s.mu
// is held.
func (s *Store) closedLocked() error {
	if !s.closing || len(s.handles) > 0 || s.settling > 0 {
		return nil
	}
	return s.closeLock()
}

// Entry is the allocation's entry when it was mapped. The caller must not change it.
func (h *Handle) Entry() *Entry { return h.entry }

// ReadOnly says whether stores to the memory are impossible.
func (h *Handle) ReadOnly() bool { return h.key.readOnly }

// Unsynced says whether the machine stopped before the window was on the disk.
func (h *Handle) Unsynced() bool { return h.unsynced }

// Region is the memory of one rank of the creating group.
func (h *Handle) Region(rank int) []byte {
	g := h.entry.Regions[rank]
	lo := headerSize + g.Offset
	return h.maps[g.File][lo : lo+g.Size : lo+g.Size]
}

// Epochs is the number of fences of the creating group whose data is complete. If the machine
// stopped before the window was on the disk, it is the number of epochs that are certainly on the
// disk. Errors: ErrLost if the count is gone, ErrCorrupt if it is damaged.
func (h *Handle) Epochs() (n uint64, err error) {
	if h.unsynced {
		return h.vouched, nil
	}
	var w uint64
	if err := h.Guard(func() { w = epochsWord(h.maps[0]).Load() }); err != nil || h.layout == 1 {
		return w, err
	}
	n, ok := unpackCount(w, h.entry.ID)
	if !ok {
		return 0, badEpochs(h.entry)
	}
	return n, nil
}

// Raise increases the epoch count to at least n. Errors as for Epochs.
func (h *Handle) Raise(n uint64) error {
	var damaged error
	err := h.Guard(func() {
		for w := epochsWord(h.maps[0]); ; {
			old := w.Load()
			cur, ok := unpackCount(old, h.entry.ID)
			if !ok {
				damaged = badEpochs(h.entry)
				return
			}
			if cur >= n || w.CompareAndSwap(old, packCount(n, h.entry.ID)) {
				return
			}
		}
	})
	return errors.Join(err, damaged)
}

// Break stops the epoch count: an epoch of the creating group could not be made durable, or part of
// the memory is gone.
func (h *Handle) Break() {
	// If the header is gone as well, no process can count epochs.
	_ = h.Guard(func() { changeFlags(h.maps[0], headBroken, 0) })
}

// Broken says whether any process has called Break.
func (h *Handle) Broken() bool {
	flags, err := h.flags()
	return err != nil || flags&headBroken != 0
}

// flags returns the flags of the header; damaged flags count as none.
func (h *Handle) flags() (flags uint32, err error) {
	err = h.Guard(func() { flags = flagsWord(h.maps[0]).Load() })
	if h.layout > 1 {
		flags, _ = unpackFlags(flags)
	}
	return flags & headFlags, err
}

// Sync forces bytes [off, off+n) of a region to the disk.
func (h *Handle) Sync(rank, off, n int) error {
	g := h.entry.Regions[rank]
	return h.s.syncRange(h.files[g.File], h.maps[g.File], headerSize+int(g.Offset)+off, n)
}

// SyncEpochs forces the epoch count to the disk.
func (h *Handle) SyncEpochs() error { return h.s.syncRange(h.files[0], h.maps[0], 0, headerSize) }

// populateBytes is how much of a region is made present at a time, in 2 to 6 ms. It bounds how long
// a caller that stops Populate waits, and how long other threads wait for the kernel's lock of the
// address space.
const populateBytes = 4 << 20

// Populate makes the pages of a region present, from the first to the last, so that the first store
// to each page costs no page fault. It ends early when stop returns true.
func (h *Handle) Populate(rank int, stop func() bool) {
	g := h.entry.Regions[rank]
	for off := 0; off < int(g.Size) && !stop(); off += populateBytes {
		shmem.Populate(h.maps[g.File], headerSize+int(g.Offset)+off, min(populateBytes, int(g.Size)-off))
		h.s.step("prefault")
	}
}

// Exclusive runs fn. No other call of Exclusive on any of bytes [off, off+n) of the region runs at
// the same time, in this process or another. It may wait for other calls.
func (h *Handle) Exclusive(rank, off, n int, fn func()) error {
	g := h.entry.Regions[rank]
	f, lo := h.files[g.File], int64(headerSize+g.Offset)+int64(off)
	h.rmw.Lock() // the file lock does not exclude threads of one process
	defer h.rmw.Unlock()
	if err := h.s.lockRange(f, lo, int64(n)); err != nil {
		return fmt.Errorf("lock bytes %d to %d of a window: %w", off, off+n, err)
	}
	defer unlockRange(f, lo, int64(n))
	fn()
	return nil
}

// SetVolatile says whether the allocation is removed when its last user releases it.
func (s *Store) SetVolatile(id ID, volatile bool) error {
	return change(s, (*txn).byID, id, func(tx *txn, ent *Entry) error {
		if err := checkOwner(ent); err != nil {
			return err
		}
		if ent.State == Deleting {
			return fmt.Errorf("%w: %q was removed", ErrName, ent.Name)
		}
		ent.Volatile = volatile
		// The header and the entry change one after the other. A flag that says "volatile" too long
		// does no harm: a release then reads the entry, which decides.
		if volatile {
			if err := s.reached("setinfo:flagged", s.setFlags(ent, headVolatile, 0)); err != nil {
				return err
			}
			return tx.put(ent)
		}
		if err := s.writeEntryLocked(tx, ent, "setinfo:committed"); err != nil {
			return err
		}
		return s.setFlags(ent, 0, headVolatile)
	})
}
