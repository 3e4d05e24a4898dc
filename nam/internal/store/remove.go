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
	return s.update(func(tx *txn) error {
		rec, err := tx.byName(name)
		if err != nil {
			return err
		}
		return s.doomLocked(tx, rec)
	})
}

// Doom is Remove by ID, for a window whose name may have passed to another meanwhile.
func (s *Store) Doom(id ID) error {
	return s.update(func(tx *txn) error {
		rec, err := tx.byID(id)
		if errors.Is(err, ErrName) {
			return nil // somebody was faster
		}
		if err != nil {
			return err
		}
		return s.doomLocked(tx, rec)
	})
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
	if err := tx.put(rec); err != nil {
		return err
	}
	if err := tx.commit(); err != nil {
		return err
	}
	s.step("delete:marked")
	if err := s.setFlags(rec, headDoomed, 0); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
		return err
	}
	s.step("delete:flagged")
	_, err := s.reclaimLocked(tx, rec)
	return err
}

// Reclaim removes what is left of an allocation if nobody alive uses it and nobody is to find it again: a half-made
// one, a removed one, a volatile one.
func (s *Store) Reclaim(id ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reclaim(id)
}

// reclaim: preconditions: s.mu is held.
func (s *Store) reclaim(id ID) error {
	return s.updateLocked(func(tx *txn) error {
		rec, err := tx.byID(id)
		if errors.Is(err, ErrName) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = s.reclaimLocked(tx, rec)
		return err
	})
}

// reclaimLocked runs steps 4 to 6 of the delete protocol if rec is to go and nobody alive uses it.
// Preconditions: the exclusive store lock is held, so nobody can begin to use it meanwhile.
func (s *Store) reclaimLocked(tx *txn, rec *Record) (gone bool, err error) {
	if rec.State == Ready && !rec.Volatile {
		return false, nil
	}
	if s.inUse(rec) {
		return false, nil
	}
	if rec.State != Deleting {
		rec.State = Deleting // before the files go, or the record would promise files that are not there
		if err := tx.put(rec); err != nil {
			return false, err
		}
		if err := tx.commit(); err != nil {
			return false, err
		}
		s.step("reclaim:marked")
	}
	// The first file goes last: its lock answers for all of them.
	for i := len(rec.Files) - 1; i >= 0; i-- {
		if err := os.Remove(s.path(rec.Files[i].ID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, accessError(err)
		}
		s.step("delete:unlinked")
	}
	if err := s.syncDir(); err != nil {
		return false, err
	}
	if err := tx.forget(rec); err != nil {
		return false, err
	}
	s.step("delete:forgetting")
	return true, tx.commit()
}

// inUse says whether anybody alive, here or in another process, holds the allocation. Not knowing counts as yes.
func (s *Store) inUse(rec *Record) bool {
	f, err := os.OpenFile(s.path(rec.ID), os.O_RDWR, 0)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close() // and with it the lock
	free, err := tryLock(f, true)
	return err != nil || !free
}

// recoverLocked reclaims what dead processes left: half-made, half-removed and volatile allocations, and files that no
// record mentions. Preconditions: the exclusive store lock is held.
func (s *Store) recoverLocked(tx *txn) error {
	all, err := tx.records()
	if err != nil {
		return err
	}
	known := make(map[string]bool)
	for _, rec := range all {
		if _, err := s.reclaimLocked(tx, rec); err != nil {
			return fmt.Errorf("reclaim %q: %w", rec.Name, err)
		}
		for _, f := range rec.Files {
			known[s.path(f.ID)] = true
		}
	}
	return s.removeOrphans(known)
}

// removeOrphans deletes allocation files without a record. Files and record are made under one hold of the store
// lock, so whoever made such a file is dead.
func (s *Store) removeOrphans(known map[string]bool) error {
	entries, err := os.ReadDir(s.allocPath())
	if err != nil {
		return accessError(err)
	}
	for _, e := range entries {
		id, ok := parseFileName(e.Name())
		if !ok || known[s.path(id)] {
			continue // what is not ours is left alone
		}
		if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return accessError(err)
		}
		s.step("recover:orphan")
	}
	return nil
}

// checkOwner: only the owner of an allocation, and root, may remove it or change its metadata.
func checkOwner(rec *Record) error {
	if uid := os.Geteuid(); uid != 0 && uint32(uid) != rec.UID {
		return fmt.Errorf("%w: %q belongs to user %d, this is user %d", ErrAccess, rec.Name, rec.UID, uid)
	}
	return nil
}
