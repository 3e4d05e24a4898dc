// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// A mapping's data survives its processes, in the kernel's page cache. It survives the machine only
// if it was written to the disk. The kernel writes pages in any order: after a crash of the
// machine, the epoch count may be on the disk and the data not. So the header has the ID of the
// boot in which the file has been in use since it was last on the disk as a whole:
//
//	clean              ──a user may write, or it is new──▶   in use
//	(boot is zero)     ◀──its last user leaves──             (boot is this boot)
//
// A file that was in use in another boot is unsynced. Only the epochs that it had when it was last
// clean are certain: the field vouched. A window with sync=epoch forces the data of an epoch to the
// disk before the count. So all its epochs are always certain, and its files are never marked.

func badEpochs(ent *Entry) error {
	return fmt.Errorf("%w: %q: the count of its epochs is damaged", ErrCorrupt, ent.Name)
}

// unsynced says whether the machine has stopped since the files were last on the disk.
func (s *Store) unsynced(ent *Entry, h *header) bool {
	return !ent.SyncEpoch && h.boot != ID{} && s.boot != ID{} && h.boot != s.boot
}

// markInUse marks the first file as in use in this boot, before the caller can write.
// Preconditions: the shared store lock and a shared flock on the file are held, so no process marks
// it clean.
func (h *Handle) markInUse(head *header) error {
	if h.entry.SyncEpoch || head.boot == h.s.boot || h.s.boot == (ID{}) {
		return nil
	}
	if err := h.Guard(func() { setBoot(h.maps[0], h.s.boot) }); err != nil {
		return err
	}
	return h.SyncEpochs()
}

// flush forces the data to the disk before the last user of this process leaves. The caller holds
// no lock.
func (h *Handle) flush() error {
	if !h.needsSettle() || h.key.readOnly {
		return nil
	}
	for _, f := range h.files {
		if err := h.s.syncFile(f); err != nil {
			h.Break() // what a failed force has lost, a later force does not write
			return fmt.Errorf("%w: force %q to the disk: %w", ErrLost, h.entry.Name, err)
		}
	}
	return nil
}

// needsSettle says whether the last user must mark the window as clean when it leaves.
func (h *Handle) needsSettle() bool {
	if h.entry.SyncEpoch || h.layout == 1 || h.s.readOnly != nil {
		return false
	}
	flags, err := h.flags()
	clean := true // the value after a fault
	_ = h.Guard(func() { clean = bootOf(h.maps[0]) == ID{} })
	return err == nil && !clean && flags&(headDoomed|headVolatile) == 0
}

// settle marks the files of a window that no process uses as clean. Each user that wrote has forced
// its data to the disk before it left; what a killed user wrote is forced here. Nothing is marked
// if a process uses the window, or if it is gone or was in use when the machine stopped.
//
// A reader has forced nothing, and a killed writer may have left much data. So a reader first
// forces it without a lock, for which other processes would wait. Little is left to be done under
// the lock.
func (s *Store) settle(ent *Entry, reader bool) error {
	if reader {
		free := false
		if err := s.ifUnused(ent, func(*os.File, *header) error { free = true; return nil }); err != nil || !free {
			return err
		}
		if err := s.syncSegments(ent); err != nil {
			return err
		}
	}
	return s.ifUnused(ent, func(f *os.File, h *header) error {
		if err := s.reached("settle:synced", s.syncSegments(ent)); err != nil {
			return err
		}
		return s.markClean(f, h.id, h.epochs)
	})
}

// ifUnused calls fn if no process uses the window and it must be marked as clean. The exclusive
// store lock is held during fn, so no process attaches.
func (s *Store) ifUnused(ent *Entry, fn func(first *os.File, h *header) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(true, func() error {
		f, err := s.openFile(s.path(ent.ID), os.O_RDWR)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil
		}
		if err != nil {
			return accessError(err)
		}
		defer f.Close() // and with it the lock
		if free, err := s.tryLock(f, true); err != nil || !free {
			return err
		}
		h, err := s.checkSegment(f, ent, 0)
		if err != nil {
			return err
		}
		if h.layout == 1 || h.boot != s.boot || h.boot == (ID{}) || h.badEpochs || h.flags&(headDoomed|headVolatile|headBroken) != 0 {
			return nil
		}
		return fn(f, h)
	})
}

// syncSegments forces the files to the disk. A failed force may have lost pages, and the next force
// succeeds all the same. So after a failure the window is never marked as clean.
func (s *Store) syncSegments(ent *Entry) error {
	for i := range ent.Files {
		f, err := s.openSegment(ent, i, os.O_RDWR)
		if err != nil {
			return err
		}
		err = s.syncFile(f)
		f.Close()
		if err != nil {
			// It is already marked as in use in this boot.
			_ = s.setFlags(ent, headBroken, 0)
			return fmt.Errorf("%w: force %q to the disk: %w", ErrLost, ent.Name, err)
		}
	}
	return nil
}

// markClean writes that epochs are on the disk. Preconditions: they are, and no process uses the
// file.
func (s *Store) markClean(f *os.File, id ID, epochs uint64) error {
	b := ne.AppendUint64(nil, packCount(epochs, id))
	b = append(b, make([]byte, len(ID{}))...) // boot
	if err := s.reached("settle:marked", spaceError(s.writeAt(f, b, offVouched), "write a header")); err != nil {
		return err
	}
	return s.syncFile(f)
}

// Accept takes the epoch count of an unsynced window as true, because its user has checked the
// data.
func (s *Store) Accept(name string) error {
	return change(s, (*txn).byName, name, func(_ *txn, ent *Entry) error {
		if err := checkOwner(ent); err != nil {
			return err
		}
		f, err := s.openSegment(ent, 0, os.O_RDWR)
		if err != nil {
			return err
		}
		defer f.Close()
		h, err := s.checkSegment(f, ent, 0)
		if err != nil {
			return err
		}
		if h.badEpochs {
			return badEpochs(ent)
		}
		if !s.unsynced(ent, h) {
			return nil
		}
		if free, err := s.tryLock(f, true); err != nil || !free {
			return errors.Join(fmt.Errorf("%w: %q is in use", ErrBusy, name), err)
		}
		return s.markClean(f, h.id, h.epochs)
	})
}
