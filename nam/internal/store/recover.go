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

// prepareMeta makes the database of a new store. oneMeta: the existing database has only one intact
// meta. Preconditions: the exclusive store lock is held.
func (s *Store) prepareMeta() (oneMeta bool, err error) {
	m, err := s.inspectMeta()
	switch {
	case err != nil:
		return false, err
	case m.damaged != nil:
		return false, s.unusable(m)
	case !m.missing:
		return m.oneMeta, nil
	}
	// A new database would have no entries for the existing files.
	orphans, err := s.orphans(nil)
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(orphans, func(o *orphan) bool { return o.kind != leftover }) {
		return false, s.unusable(m)
	}
	return false, s.makeMeta(nil)
}

// unusable returns the error of a database that cannot be used. It says how many windows can be
// brought back from the files.
func (s *Store) unusable(m metaState) error {
	err := m.damaged
	if m.missing {
		err = fmt.Errorf("%w: %s is missing", ErrCorrupt, s.metaPath())
	}
	orphans, serr := s.orphans(nil)
	if serr != nil {
		return errors.Join(err, serr)
	}
	intact := 0
	for _, o := range orphans {
		if o.kind == setAside && o.why == nil {
			intact++
		}
	}
	if intact == 0 {
		return fmt.Errorf("%w; no window can be brought back from the files", err)
	}
	return fmt.Errorf("%w; %s can be brought back from the files: weft nam repair -C %s makes a new database", err, windows(intact), s.dir)
}

func windows(n int) string {
	if n == 1 {
		return "1 window"
	}
	return fmt.Sprintf("%d windows", n)
}

// recoverLocked repairs the entries, reclaims what dead processes left (allocations in state
// creating or deleting, and volatile ones), and examines the orphans. oneMeta: the database may be
// older than the files. What cannot be reclaimed is reported and left. The caller commits what is
// left to commit. Preconditions: the exclusive store lock is held.
func (s *Store) recoverLocked(tx *txn, oneMeta bool) error {
	all, err := s.mendEntries(tx)
	if err != nil {
		return err
	}
	for _, ent := range all {
		if err := s.reconcile(tx, ent); err != nil {
			return err
		}
		if err := s.reclaimLocked(tx, ent); errors.Is(err, ErrAccess) {
			s.notice("%q (%v) cannot be reclaimed: %v", ent.Name, ent.ID, err)
		} else if err != nil {
			return fmt.Errorf("reclaim %q: %w", ent.Name, err)
		}
	}
	if err := s.recoverOrphans(tx, filesOf(all), oneMeta); err != nil {
		return err
	}
	if tx.layout() == layoutVersion1 {
		if err := s.upgrade(tx); err != nil {
			return err
		}
	}
	if oneMeta { // a transaction writes the damaged meta again
		s.mended("%s: one of its two meta pages is damaged and is written again; changes of the last transaction are taken from the files",
			s.metaPath())
		tx.dirty = true
		if err := tx.tx.Bucket(bucketLayout).Put(keyVersion, []byte(tx.layout())); err != nil {
			return err
		}
	}
	return nil
}

// mendEntries returns the entries. A damaged entry is replaced by the copy in the header of its
// file. If that is damaged as well, nothing is known of the allocation, and the store is not
// opened. The table of names is compared with the entries.
func (s *Store) mendEntries(tx *txn) ([]*Entry, error) {
	all, damaged := tx.load()
	for key, why := range damaged {
		var h *header
		herr := fmt.Errorf("key of %d bytes", len(key))
		if len(key) == len(ID{}) {
			h, herr = s.headerOf(ID([]byte(key)))
		}
		if herr == nil && h.entry == nil {
			herr = fmt.Errorf("its file has no entry")
		}
		if herr != nil {
			return nil, fmt.Errorf("database entry %x: %w; and the file: %w; weft nam repair -C %s makes a new database without it", key, why, herr, s.dir)
		}
		ent := h.entry
		ent.State, ent.Volatile = Ready, h.flags&headVolatile != 0
		if h.flags&headDoomed != 0 {
			ent.State = Deleting
		}
		s.mended("the database entry of %q (%v) is damaged and is taken from its file", ent.Name, ent.ID)
		if err := tx.put(ent); err != nil {
			return nil, err
		}
		all = append(all, ent)
	}
	return all, s.mendNames(tx, all)
}

// headerOf reads the header of the file with this ID.
func (s *Store) headerOf(id ID) (*header, error) {
	f, err := s.openFile(s.path(id), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h, err := s.readHeader(f)
	if err == nil && h.id != id {
		err = fmt.Errorf("%w: it belongs to file %v", ErrCorrupt, h.id)
	}
	return h, err
}

// mendNames makes the table of names equal to the names in the entries.
func (s *Store) mendNames(tx *txn, all []*Entry) error {
	names := tx.tx.Bucket(bucketNames)
	want := make(map[string]ID)
	for _, ent := range all {
		if ent.State == Deleting {
			continue
		}
		if _, taken := want[ent.Name]; !taken || string(names.Get([]byte(ent.Name))) == string(ent.ID[:]) {
			want[ent.Name] = ent.ID
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
	s.mended("the table of names in %s is damaged and is taken from the entries", s.metaPath())
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

// reconcile corrects an entry that is older than the header of its file. That happens if an older
// database has been put back. The order of writes in the protocols tells which of the two is right.
// A header is flagged doomed only after the entry in state deleting is on the disk. The flag
// volatile is cleared only after the entry is ready and not volatile. A process that died between
// these two writes has left the flag set: it is cleared here. Otherwise the files would be removed
// as leftovers if the entry were lost.
func (s *Store) reconcile(tx *txn, ent *Entry) error {
	if ent.State == Deleting {
		return nil
	}
	h, err := s.header(ent)
	if err != nil || h.badFlags {
		return nil //nolint:nilerr // Attach reports it; an incomplete window has no header yet
	}
	switch {
	case h.flags&headDoomed != 0:
		if ent.State == Creating {
			return nil
		}
		ent.State = Deleting
	case h.flags&headVolatile == 0 && (ent.State == Creating || ent.Volatile):
		ent.State, ent.Volatile = Ready, false
	case h.flags&headVolatile != 0 && ent.State == Ready && !ent.Volatile && h.layout > 1:
		// upgrade clears it in layout 1
		if err := s.setFlags(ent, 0, headVolatile); err != nil {
			s.notice("the file of %q (%v) still says that it is volatile: %v", ent.Name, ent.ID, err)
		}
		s.step("recover:cleared")
		return nil
	default:
		return nil
	}
	s.mended("the database entry of %q (%v) is older than its file, which says that it is %v", ent.Name, ent.ID, ent.State)
	return s.writeEntryLocked(tx, ent, "recover:reconciled")
}

// recoverOrphans removes leftovers. Orphans that are set aside stay. If the database may be older
// than the files, an orphan gets its entry back.
func (s *Store) recoverOrphans(tx *txn, known map[ID]bool, oneMeta bool) error {
	orphans, err := s.orphans(known)
	if err != nil {
		return err
	}
	left := 0
	for _, o := range orphans {
		switch o.kind {
		case live:
		case leftover:
			err := s.unlink(o.files, "recover:orphan")
			if errors.Is(err, ErrAccess) {
				s.notice("%v cannot be removed: %v", s.path(o.id), err)
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case setAside:
			if oneMeta && o.why == nil && o.entry != nil {
				if _, err := tx.byName(o.entry.Name); errors.Is(err, ErrName) {
					ent, err := s.restoreLocked(tx, o, "")
					if err == nil {
						s.mended("%q (%v) has no database entry and gets the one in its file", ent.Name, ent.ID)
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
		s.notice("%s in %s without a database entry: set aside; weft nam ls -C %s lists them", windows(left), s.dir, s.dir)
	}
	return nil
}

// upgrade turns a store of layout 1 into one of layout 2: each file gets a header with a copy of
// its entry. It can be repeated; the layout version is written last. Preconditions: the exclusive
// store lock is held.
func (s *Store) upgrade(tx *txn) error {
	all, err := tx.entries()
	if err != nil {
		return err
	}
	for _, ent := range all {
		if ent.State == Deleting {
			continue
		}
		if s.inUse(ent) {
			return fmt.Errorf("%w: the store has layout 1, and %q is in use by a program that knows no other; it is upgraded when that has ended",
				ErrBusy, ent.Name)
		}
		for i := range ent.Files {
			err := s.upgradeFile(ent, i)
			if errors.Is(err, ErrCorrupt) && !errors.Is(err, syscall.EIO) {
				// An EIO is returned: the disk may work again at the next Open.
				s.notice("%q keeps layout 1: %v", ent.Name, err) // Attach reports it
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

// upgradeFile writes the header of one file in layout 2. It forces the file to the disk first, so
// the file is clean.
func (s *Store) upgradeFile(ent *Entry, i int) error {
	f, err := s.openSegment(ent, i, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := s.checkSegment(f, ent, i)
	if err != nil || h.layout > 1 {
		return err
	}
	if err := s.syncFile(f); err != nil {
		return spaceError(err, "sync a file")
	}
	h.first, h.index = ent.ID, uint32(i)
	if ent.State == Ready && !ent.Volatile { // the creator may have died before it cleared the flag
		h.flags &^= headVolatile
	}
	return s.writeHeader(f, h, ent)
}
