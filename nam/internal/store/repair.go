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
// or cannot be used. It returns the entries in the new database. The old database keeps a second
// name until the next Repair. What cannot be brought back (a file is lost, its header is damaged,
// another window has its name) is set aside. A store that Open can open is left as it is, and
// Repair returns nil.
func Repair(dir string, cfg Config) (ents []*Entry, err error) {
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
		orphans, err := s.orphans(nil)
		if err != nil {
			return err
		}
		for _, o := range orphans {
			if errors.Is(o.why, ErrVersion) {
				return fmt.Errorf("%v: %w; a newer program has to repair the store", o.id, o.why)
			}
		}
		ents = s.restorable(orphans)
		if err := s.reached("repair:kept", s.keepDamaged()); err != nil {
			return err
		}
		return s.reached("repair:made", s.makeMeta(ents))
	})
	return ents, err
}

// sound says whether the database can be used, and repairs what Open would repair. With an error,
// the answer is not known. Preconditions: s.mu is held.
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
			_, err := s.mendEntries(tx)
			return err
		})
	}
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) {
		// the headers of the files say whether a newer program made the store
		return false, nil
	}
	return err == nil, err
}

// restorable returns the entries of the orphans that can be brought back; of several with one name,
// the youngest.
func (s *Store) restorable(orphans []*orphan) (ents []*Entry) {
	good := slices.DeleteFunc(orphans, func(o *orphan) bool { return o.kind == leftover || o.why != nil || o.entry == nil })
	slices.SortStableFunc(good, func(a, b *orphan) int { return b.entry.Created.Compare(a.entry.Created) })
	taken := make(map[string]bool)
	for _, o := range good {
		ent, err := o.entryFor("")
		if err != nil || taken[ent.Name] {
			continue
		}
		if o.kind == live { // a process uses it, and its last user removes it
			if o.head.flags&headDoomed != 0 {
				continue
			}
			ent.Volatile = true
		}
		taken[ent.Name] = true
		ents = append(ents, ent)
	}
	return ents
}

// keepDamaged gives the present database a second name.
func (s *Store) keepDamaged() error {
	kept := filepath.Join(s.dir, metaDamaged)
	if err := s.remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return accessError(err)
	}
	err := s.link(s.metaPath(), kept)
	if err != nil { // it is a directory, or the file system has no hard links
		err = s.rename(s.metaPath(), kept)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep the damaged database: %w", accessError(err))
	}
	return nil
}
