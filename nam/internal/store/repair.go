// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Repair makes a new database from the headers of the files, for a store whose database is missing
// or cannot be used, and returns the records that are in it. The database that was there stays
// under another name, until the next Repair. What cannot be brought back (a file is lost, its
// header is damaged, another window has its name) is set aside. A store that Open opens is left as
// it is, and nil is returned.
func Repair(dir string, cfg Config) (recs []*Record, err error) {
	cfg.MustExist = true
	s, err := newStore(dir, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.openLock(os.O_RDWR | os.O_CREATE); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.closeLock()) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	if sound, err := s.sound(); sound || err != nil {
		return nil, err
	}
	err = s.locked(true, func() error {
		strays, err := s.strays(nil)
		if err != nil {
			return err
		}
		for _, one := range strays {
			if errors.Is(one.why, ErrVersion) {
				return fmt.Errorf("%v: %w; a newer program has to repair the store", one.id, one.why)
			}
		}
		recs = s.whole(strays)
		if err := s.reached("repair:kept", s.keepDamaged()); err != nil {
			return err
		}
		return s.reached("repair:made", s.makeMeta(recs))
	})
	return recs, err
}

// sound says whether the database can be used, and mends what Open would mend. An error is that
// nobody knows. Preconditions: s.mu is held.
func (s *Store) sound() (bool, error) {
	err := s.locked(true, func() error {
		m, err := s.inspectMeta()
		if err == nil && m.missing {
			err = ErrCorrupt
		}
		return errors.Join(err, m.damaged)
	})
	if err == nil {
		err = s.updateLocked(func(tx *txn) error {
			_, err := s.mendRecords(tx)
			return err
		})
	}
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		// the files say whether it is a newer store
		return false, nil
	}
	return err == nil, err
}

// whole returns the records of what can be brought back. Of those with one name it is the youngest.
func (s *Store) whole(strays []*stray) (recs []*Record) {
	good := slices.DeleteFunc(strays, func(one *stray) bool { return one.kind == litter || one.why != nil || one.rec == nil })
	slices.SortStableFunc(good, func(a, b *stray) int { return b.rec.Created.Compare(a.rec.Created) })
	taken := make(map[string]bool)
	for _, one := range good {
		rec, err := one.record("")
		if err != nil || taken[rec.Name] {
			continue
		}
		if one.kind == live { // somebody uses it, and it goes with its last user
			if one.head.flags&headDoomed != 0 {
				continue
			}
			rec.Volatile = true
		}
		taken[rec.Name] = true
		recs = append(recs, rec)
	}
	return recs
}

// keepDamaged gives the database that is there a second name.
func (s *Store) keepDamaged() error {
	kept := filepath.Join(s.dir, metaDamaged)
	if err := s.remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return accessError(err)
	}
	err := s.link(s.metaPath(), kept)
	if err != nil { // it is a directory, or the file system knows no second names
		err = s.rename(s.metaPath(), kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the damaged database: %w", accessError(err))
	}
	return nil
}
