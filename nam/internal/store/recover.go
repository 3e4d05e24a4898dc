// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// prepareMeta makes the database of a new store, and says whether the one that is there lacks one
// of its metas. Preconditions: the exclusive store lock is held.
func (s *Store) prepareMeta() (half bool, err error) {
	m, err := s.inspectMeta()
	switch {
	case err != nil:
		return false, err
	case m.damaged != nil:
		return false, s.unusable(m)
	case !m.missing:
		return m.half, nil
	}
	// A new database would have no record of what is there.
	strays, err := s.strays(nil)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(strays, func(one *stray) bool { return one.kind != litter }) {
		return false, s.unusable(m)
	}
	return false, s.makeMeta(nil)
}

// unusable says what is wrong with the database, and what there is without it.
func (s *Store) unusable(m metaState) error {
	err := m.damaged
	if m.missing {
		err = fmt.Errorf("%w: %s is missing", ErrCorrupt, s.metaPath())
	}
	strays, serr := s.strays(nil)
	if serr != nil {
		return errors.Join(err, serr)
	}
	whole := 0
	for _, one := range strays {
		if one.kind == aside && one.why == nil {
			whole++
		}
	}
	if whole == 0 {
		return fmt.Errorf("%w; no window in it can be brought back", err)
	}
	return fmt.Errorf("%w; %s can be brought back from the files: weft nam repair -C %s makes a new database", err, windows(whole), s.dir)
}

func windows(n int) string {
	if n == 1 {
		return "1 window"
	}
	return fmt.Sprintf("%d windows", n)
}

// recoverLocked mends the records, reclaims what dead processes left (half-made, half-removed and
// volatile allocations), and looks at the files that have no record. half: the database may be
// older than the files. What cannot be reclaimed is told and left. The caller commits what is left
// to commit. Preconditions: the exclusive store lock is held.
func (s *Store) recoverLocked(tx *txn, half bool) error {
	all, err := s.mendRecords(tx)
	if err != nil {
		return err
	}
	for _, rec := range all {
		if err := s.reconcile(tx, rec); err != nil {
			return err
		}
		if err := s.reclaimLocked(tx, rec); errors.Is(err, ErrAccess) {
			s.notice("%q (%v) cannot be reclaimed: %v", rec.Name, rec.ID, err)
		} else if err != nil {
			return fmt.Errorf("reclaim %q: %w", rec.Name, err)
		}
	}
	if err := s.recoverStrays(tx, filesOf(all), half); err != nil {
		return err
	}
	if tx.layout() == layoutVersion1 {
		if err := s.upgrade(tx); err != nil {
			return err
		}
	}
	if half { // a transaction writes the damaged meta anew
		s.mended("%s: one of its two meta pages is damaged and is written anew; what the last transaction did is taken from the files",
			s.metaPath())
		tx.dirty = true
		if err := tx.tx.Bucket(bucketLayout).Put(keyVersion, []byte(tx.layout())); err != nil {
			return err
		}
	}
	return nil
}

// mendRecords returns the records. A damaged one is taken from the header of its file; if that is
// damaged as well, nobody knows what it was, and the store is not opened. The table of names is
// held against the records.
func (s *Store) mendRecords(tx *txn) ([]*Record, error) {
	all, damaged := tx.load()
	for key, why := range damaged {
		var h *header
		herr := fmt.Errorf("key of %d bytes", len(key))
		if len(key) == len(ID{}) {
			h, herr = s.headerOf(ID([]byte(key)))
		}
		if herr == nil && h.rec == nil {
			herr = fmt.Errorf("its file has no record")
		}
		if herr != nil {
			return nil, fmt.Errorf("record %x: %w; and the file: %w; weft nam repair -C %s makes a new database without it", key, why, herr, s.dir)
		}
		rec := h.rec
		rec.State, rec.Volatile = Ready, h.flags&headVolatile != 0
		if h.flags&headDoomed != 0 {
			rec.State = Deleting
		}
		s.mended("the record of %q (%v) is damaged and is taken from its file", rec.Name, rec.ID)
		if err := tx.put(rec); err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, s.mendNames(tx, all)
}

// headerOf reads the header of a file by its ID.
func (s *Store) headerOf(id ID) (*header, error) {
	f, err := s.openFile(s.path(id), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := s.readHeader(f)
	if err == nil && h.id != id {
		err = fmt.Errorf("%w: it is that of %v", ErrCorrupt, h.id)
	}
	return h, err
}

// mendNames makes the table of names what the records say.
func (s *Store) mendNames(tx *txn, all []*Record) error {
	names := tx.tx.Bucket(bucketNames)
	want := make(map[string]ID)
	for _, rec := range all {
		if rec.State == Deleting {
			continue
		}
		if _, taken := want[rec.Name]; !taken || string(names.Get([]byte(rec.Name))) == string(rec.ID[:]) {
			want[rec.Name] = rec.ID
		}
	}
	var wrong [][]byte
	for k, v := range each(names) {
		if id, ok := want[string(k)]; !ok || string(v) != string(id[:]) {
			wrong = append(wrong, append([]byte{}, k...))
		} else {
			delete(want, string(k))
		}
	}
	if len(wrong)+len(want) == 0 {
		return nil
	}
	s.mended("the table of names in %s is damaged and is taken from the records", s.metaPath())
	tx.dirty = true
	for _, k := range wrong {
		if err := names.Delete(k); err != nil {
			return err
		}
	}
	for name, id := range want {
		if err := names.Put([]byte(name), id[:]); err != nil {
			return err
		}
	}
	return nil
}

// reconcile corrects a record that is older than the header of its file, which happens if an older
// database has come back. What the protocols do first decides: a header says doomed only after a
// record that says deleting is on the disk; and volatile is taken from a header only after the
// record is ready and not volatile. A process that died between those two has left the flag: it is
// cleared here, or the files would be litter if the record were lost.
func (s *Store) reconcile(tx *txn, rec *Record) error {
	if rec.State == Deleting {
		return nil
	}
	h, err := s.header(rec)
	if err != nil || h.badFlags {
		return nil //nolint:nilerr // whoever attaches is told; a half-made one has no header yet
	}
	switch {
	case h.flags&headDoomed != 0:
		if rec.State == Creating {
			return nil
		}
		rec.State = Deleting
	case h.flags&headVolatile == 0 && (rec.State == Creating || rec.Volatile):
		rec.State, rec.Volatile = Ready, false
	case h.flags&headVolatile != 0 && rec.State == Ready && !rec.Volatile && h.layout > 1:
		// upgrade does it in layout 1
		if err := s.setFlags(rec, 0, headVolatile); err != nil {
			s.notice("the file of %q (%v) still says that it is volatile: %v", rec.Name, rec.ID, err)
		}
		s.step("recover:cleared")
		return nil
	default:
		return nil
	}
	s.mended("the record of %q (%v) is older than its file, which says that it is %v", rec.Name, rec.ID, rec.State)
	return s.fileLocked(tx, rec, "recover:reconciled")
}

// recoverStrays removes litter. What is set aside stays; if the database may be older than the
// files, it gets its record back.
func (s *Store) recoverStrays(tx *txn, known map[ID]bool, half bool) error {
	strays, err := s.strays(known)
	if err != nil {
		return err
	}
	left := 0
	for _, one := range strays {
		switch one.kind {
		case live:
		case litter:
			err := s.unlink(one.files, "recover:orphan")
			if errors.Is(err, ErrAccess) {
				s.notice("%v cannot be removed: %v", s.path(one.id), err)
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case aside:
			if half && one.why == nil && one.rec != nil {
				if _, err := tx.byName(one.rec.Name); errors.Is(err, ErrName) {
					rec, err := s.restoreLocked(tx, one, "")
					if err == nil {
						s.mended("%q (%v) has no record and gets the one in its file", rec.Name, rec.ID)
						continue
					} else if !errors.Is(err, ErrAccess) {
						return err
					}
				}
			}
			left++
		}
	}
	if left > 0 {
		s.notice("%s in %s without a record: set aside; weft nam ls -C %s lists them", windows(left), s.dir, s.dir)
	}
	return nil
}

// upgrade makes a store of layout 1 one of layout 2: each file gets a header that says what the
// record says. It may be repeated; the layout is written last. Preconditions: the exclusive store
// lock is held.
func (s *Store) upgrade(tx *txn) error {
	all, err := tx.records()
	if err != nil {
		return err
	}
	for _, rec := range all {
		if rec.State == Deleting {
			continue
		}
		if s.inUse(rec) {
			return fmt.Errorf("%w: the store has layout 1, and %q is in use by a program that knows no other; it is upgraded when that has ended",
				ErrBusy, rec.Name)
		}
		for i := range rec.Files {
			err := s.upgradeFile(rec, i)
			if errors.Is(err, ErrCorrupt) && !errors.Is(err, syscall.EIO) {
				// or the disk may answer the next Open
				s.notice("%q keeps layout 1: %v", rec.Name, err) // whoever attaches is told
				break
			}
			if err != nil {
				return err
			}
		}
	}
	s.mended("%s had layout 1 and has layout 2 now", s.dir)
	tx.dirty = true
	if err := tx.tx.Bucket(bucketLayout).Put(keyVersion, []byte(layoutVersion)); err != nil {
		return err
	}
	s.step("upgrade:committing")
	return s.reached("upgrade:done", tx.commit())
}

// upgradeFile writes the header of one file in layout 2. What is in the file is forced to the disk
// before: it is clean then.
func (s *Store) upgradeFile(rec *Record, i int) error {
	f, err := s.openSegment(rec, i, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := s.checkSegment(f, rec, i)
	if err != nil || h.layout > 1 {
		return err
	}
	if err := s.syncFile(f); err != nil {
		return spaceError(err, "sync a file")
	}
	h.first, h.index = rec.ID, uint32(i)
	if rec.State == Ready && !rec.Volatile { // its creator may have died before it cleared the flag
		h.flags &^= headVolatile
	}
	return s.writeHeader(f, h, rec)
}
