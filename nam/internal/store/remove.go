// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Remove takes the name away at once. The memory goes when its last user has released it.
func (s *Store) Remove(name string) error {
	return change(s, (*txn).byName, name, s.doomLocked)
}

// Doom is Remove by ID, for a window whose name may have passed to another meanwhile.
func (s *Store) Doom(id ID) error {
	return s.update(func(tx *txn) error { return tx.unlessGone(id, s.doomLocked) })
}

// unlessGone runs fn on a record, if it is still there.
func (t *txn) unlessGone(id ID, fn func(*txn, *Record) error) error {
	rec, err := t.byID(id)
	if errors.Is(err, ErrName) {
		return nil // somebody was faster
	}
	if err != nil {
		return err
	}
	return fn(t, rec)
}

// doomLocked runs the delete protocol as far as it can go now.
// Preconditions: the exclusive store lock is held.
func (s *Store) doomLocked(tx *txn, rec *Record) error {
	if err := checkOwner(rec); err != nil {
		return err
	}
	if rec.State == Creating && s.inUse(rec) {
		return fmt.Errorf("%w: %q is being made by %s", ErrBusy, rec.Name, rec.Creator)
	}
	rec.State = Deleting
	if err := s.fileLocked(tx, rec, "delete:marked"); err != nil {
		return err
	}
	if err := s.setFlags(rec, headDoomed, 0); err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrVersion) {
		return err
	}
	s.step("delete:flagged")
	return s.reclaimLocked(tx, rec)
}

// Reclaim removes what is left of an allocation if nobody alive uses it and nobody is to find it
// again: a half-made one, a removed one, a volatile one.
func (s *Store) Reclaim(id ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reclaim(id)
}

// reclaim: preconditions: s.mu is held.
func (s *Store) reclaim(id ID) error {
	return s.updateLocked(func(tx *txn) error { return tx.unlessGone(id, s.reclaimLocked) })
}

// reclaimLocked runs steps 4 to 6 of the delete protocol if rec is to go and nobody alive uses it.
// Preconditions: the exclusive store lock is held, so nobody can begin to use it meanwhile.
func (s *Store) reclaimLocked(tx *txn, rec *Record) error {
	if rec.State == Ready && !rec.Volatile || s.inUse(rec) {
		return nil
	}
	if rec.State != Deleting {
		// before the files go, or the record would promise files that are not there
		rec.State = Deleting
		if err := s.fileLocked(tx, rec, "reclaim:marked"); err != nil {
			return err
		}
	}
	files := make([]ID, len(rec.Files))
	for i, f := range rec.Files {
		files[i] = f.ID
	}
	if err := s.unlink(files, "delete:unlinked"); err != nil {
		return err
	}
	if err := s.reached("delete:forgetting", tx.forget(rec)); err != nil {
		return err
	}
	return tx.commit()
}

// inUse says whether anybody alive, here or in another process, holds the allocation. Not knowing
// counts as yes.
func (s *Store) inUse(rec *Record) bool {
	f, err := s.openFile(s.path(rec.ID), os.O_RDONLY)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrGone)
	}
	defer f.Close() // and with it the lock
	free, err := s.tryLock(f, true)
	return err != nil || !free
}

// checkOwner: only the owner of an allocation, and root, may remove it or change its metadata.
func checkOwner(rec *Record) error {
	if uid := os.Geteuid(); uid != 0 && uint32(uid) != rec.UID {
		return fmt.Errorf("%w: %q belongs to user %d, this is user %d", ErrAccess, rec.Name, rec.UID, uid)
	}
	return nil
}
