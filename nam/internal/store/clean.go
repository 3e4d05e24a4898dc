// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// What a mapping has survives its processes in the kernel's page cache, and the machine only if it
// was written to the disk. The kernel writes pages in any order: after a crash of the machine the
// count of epochs may be there and the data not. So the header says in which run of the machine the
// file has been in use since it was last on the disk as a whole:
//
//	clean (boot zero) ──a user may write, or it is new──▶ in use (boot = this run) ──its last user leaves──▶ clean
//
// A file that says that it was in use in another run is unsynced: it vouches for the epochs that it
// had when it was last clean. A window with sync=epoch has the data of an epoch on the disk before
// the count, and vouches for all at any time; its files are never marked.

func badEpochs(rec *Record) error {
	return fmt.Errorf("%w: %q: the count of its epochs is damaged", ErrCorrupt, rec.Name)
}

// unsynced says whether the machine has stopped since the files were last on the disk.
func (s *Store) unsynced(rec *Record, h *header) bool {
	return !rec.SyncEpoch && h.boot != ID{} && s.boot != ID{} && h.boot != s.boot
}

// begin marks the first file as in use in this run of the machine, before the caller can write.
// Preconditions: the shared store lock and a shared flock on the file are held, so nobody marks it
// clean.
func (h *Handle) begin(head *header) error {
	if h.rec.SyncEpoch || head.boot == h.s.boot || h.s.boot == (ID{}) {
		return nil
	}
	if err := h.Guard(func() { setBoot(h.maps[0], h.s.boot) }); err != nil {
		return err
	}
	return h.SyncEpochs()
}

// flush forces the data to the disk before the last user of this process leaves. Nothing is locked.
func (h *Handle) flush() error {
	if !h.inUseUnclean() || h.key.readOnly {
		return nil
	}
	for _, f := range h.files {
		if err := h.s.syncFile(f); err != nil {
			h.Break() // what has failed once is not forced by the next one
			return fmt.Errorf("%w: force %q to the disk: %w", ErrLost, h.rec.Name, err)
		}
	}
	return nil
}

// inUseUnclean says whether the window is to be marked as clean when its last user leaves.
func (h *Handle) inUseUnclean() bool {
	if h.rec.SyncEpoch || h.layout == 1 || h.s.readOnly != nil {
		return false
	}
	flags, err := h.flags()
	clean := true // as it is if there is a fault
	_ = h.Guard(func() { clean = bootOf(h.maps[0]) == ID{} })
	return err == nil && !clean && flags&(headDoomed|headVolatile) == 0
}

// settle marks the files of a window that nobody uses any more as clean. Each user that wrote has
// forced its data to the disk before it let go; what a user wrote that was killed is forced here.
// Nothing is marked if somebody uses it, or it is gone, or was in use when the machine stopped.
//
// A reader has forced nothing: a writer that is killed may have left much. That is done first
// without a lock, for which others would wait, so that little is left to do under it.
func (s *Store) settle(rec *Record, reader bool) error {
	if reader {
		free := false
		if err := s.alone(rec, func(*os.File, *header) error { free = true; return nil }); err != nil || !free {
			return err
		}
		if err := s.syncSegments(rec); err != nil {
			return err
		}
	}
	return s.alone(rec, func(f *os.File, h *header) error {
		if err := s.reached("settle:synced", s.syncSegments(rec)); err != nil {
			return err
		}
		return s.markClean(f, h.id, h.epochs)
	})
}

// alone calls fn under the exclusive store lock, under which nobody attaches, if the window is to
// be marked as clean and nobody uses it.
func (s *Store) alone(rec *Record, fn func(first *os.File, h *header) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.locked(true, func() error {
		f, err := s.openFile(s.path(rec.ID), os.O_RDWR)
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
		h, err := s.checkSegment(f, rec, 0)
		if err != nil {
			return err
		}
		if h.layout == 1 || h.boot != s.boot || h.boot == (ID{}) || h.badEpochs || h.flags&(headDoomed|headVolatile|headBroken) != 0 {
			return nil
		}
		return fn(f, h)
	})
}

// syncSegments forces the files to the disk. A force that fails may have lost what the kernel had,
// and the next one succeeds all the same: the window is never marked as clean again.
func (s *Store) syncSegments(rec *Record) error {
	for i := range rec.Files {
		f, err := s.openSegment(rec, i, os.O_RDWR)
		if err != nil {
			return err
		}
		err = s.syncFile(f)
		f.Close()
		if err != nil {
			// in use by this run of the machine, it is marked already
			_ = s.setFlags(rec, headBroken, 0)
			return fmt.Errorf("%w: force %q to the disk: %w", ErrLost, rec.Name, err)
		}
	}
	return nil
}

// markClean writes that epochs are on the disk. Preconditions: they are, and nobody uses the file.
func (s *Store) markClean(f *os.File, id ID, epochs uint64) error {
	b := ne.AppendUint64(nil, packCount(epochs, id))
	b = append(b, make([]byte, len(ID{}))...) // boot
	if err := s.reached("settle:marked", spaceError(s.writeAt(f, b, offVouched), "write a header")); err != nil {
		return err
	}
	return s.syncFile(f)
}

// Accept takes the count of epochs of a window that the machine's stop has left unsynced as true:
// its user has looked.
func (s *Store) Accept(name string) error {
	return change(s, (*txn).byName, name, func(_ *txn, rec *Record) error {
		if err := checkOwner(rec); err != nil {
			return err
		}
		f, err := s.openSegment(rec, 0, os.O_RDWR)
		if err != nil {
			return err
		}
		defer f.Close()
		h, err := s.checkSegment(f, rec, 0)
		if err != nil {
			return err
		}
		if h.badEpochs {
			return badEpochs(rec)
		}
		if !s.unsynced(rec, h) {
			return nil
		}
		if free, err := s.tryLock(f, true); err != nil || !free {
			return errors.Join(fmt.Errorf("%w: %q is in use", ErrBusy, name), err)
		}
		return s.markClean(f, h.id, h.epochs)
	})
}
