// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Remove removes the name at once. The last user's Release removes the memory.
func (s *Store) Remove(name string) error {
	return change(s, (*txn).byName, name, s.doomLocked)
}

// Doom is Remove by ID, for a window whose name another window may have by now.
func (s *Store) Doom(id ID) error {
	return s.update(func(tx *txn) error { return tx.unlessGone(id, s.doomLocked) })
}

// unlessGone runs fn on an entry, if it still exists.
func (t *txn) unlessGone(id ID, fn func(*txn, *Entry) error) error {
	ent, err := t.byID(id)
	if errors.Is(err, ErrName) {
		return nil // another process was faster
	}
	if err != nil {
		return err
	}
	return fn(t, ent)
}

// doomLocked runs the delete protocol as far as it can go now.
// Preconditions: the exclusive store lock is held.
func (s *Store) doomLocked(tx *txn, ent *Entry) error {
	if err := checkOwner(ent); err != nil {
		return err
	}
	if ent.State == Creating && s.inUse(ent) {
		return fmt.Errorf("%w: %q is being made by %s", ErrBusy, ent.Name, ent.Creator)
	}
	ent.State = Deleting
	if err := s.writeEntryLocked(tx, ent, "delete:marked"); err != nil {
		return err
	}
	if err := s.setFlags(ent, headDoomed, 0); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		return err
	}
	s.step("delete:flagged")
	return s.reclaimLocked(tx, ent)
}

// Reclaim removes an allocation that no live process uses and that must not be found again: one in
// state creating or deleting, or a volatile one.
func (s *Store) Reclaim(id ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reclaim(id)
}

// reclaim: preconditions: s.mu is held.
func (s *Store) reclaim(id ID) error {
	return s.updateLocked(func(tx *txn) error { return tx.unlessGone(id, s.reclaimLocked) })
}

// reclaimLocked runs steps 4 to 6 of the delete protocol if ent must be removed and no live process
// uses it. Preconditions: the exclusive store lock is held, so no process can begin to use it.
func (s *Store) reclaimLocked(tx *txn, ent *Entry) error {
	if ent.State == Ready && !ent.Volatile || s.inUse(ent) {
		return nil
	}
	if ent.State != Deleting {
		// Before the files are removed, or the entry would promise files that do not exist.
		ent.State = Deleting
		if err := s.writeEntryLocked(tx, ent, "reclaim:marked"); err != nil {
			return err
		}
	}
	files := make([]ID, len(ent.Files))
	for i, f := range ent.Files {
		files[i] = f.ID
	}
	if err := s.unlink(files, "delete:unlinked"); err != nil {
		return err
	}
	if err := s.reached("delete:forgetting", tx.forget(ent)); err != nil {
		return err
	}
	return tx.commit()
}

// inUse says whether any live process, this one included, has the allocation mapped. An unknown
// answer counts as yes.
func (s *Store) inUse(ent *Entry) bool {
	f, err := s.openFile(s.path(ent.ID), os.O_RDONLY)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrGone)
	}
	defer f.Close() // and with it the lock
	free, err := s.tryLock(f, true)
	return err != nil || !free
}

// checkOwner: only an allocation's owner and root may remove it or change its metadata.
func checkOwner(ent *Entry) error {
	if uid := os.Geteuid(); uid != 0 && uint32(uid) != ent.UID {
		return fmt.Errorf("%w: %q belongs to user %d, this is user %d", ErrAccess, ent.Name, ent.UID, uid)
	}
	return nil
}
