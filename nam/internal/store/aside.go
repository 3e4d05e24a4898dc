// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// Files without a record. That a record is missing proves nothing: the database may be an older
// one, or a new one, or damaged. What the headers say decides what a file is:
//
//	litter     it never had a header, or says that it was removed, or that it goes with its last user,
//	           and nobody uses it: its creator or last user died. Recovery removes it.
//	live       it says the same, and somebody uses it. It is left alone.
//	set aside  everything else. It stays where it is, until it is restored or dropped.
//
// Nothing is written to set a file aside, so a store that cannot be written does it as well, and if
// the right database comes back, all is as it was.

// stray is an allocation without a record, or what is left of one.
type stray struct {
	id      ID
	files   []ID // that are there; the first one, if it is, comes first
	bytes   uint64
	changed time.Time
	rec     *Record // from the header; nil: not known
	head    *header // of the first file; nil: not known
	why     error   // it cannot be restored; nil: it can
	kind    strayKind
}

type strayKind uint8

const (
	aside strayKind = iota
	litter
	live
)

// hasFiles says whether there is any file of an allocation.
func (s *Store) hasFiles() bool {
	entries, _ := os.ReadDir(s.allocPath())
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		_, ok := parseFileName(e.Name())
		return ok
	})
}

// strays returns the allocations that have files and no record. known are the files that records
// have. Preconditions: the store lock is held.
func (s *Store) strays(known map[ID]bool) ([]*stray, error) {
	entries, err := s.readDir(s.allocPath())
	if err != nil {
		return nil, accessError(err)
	}
	found := make(map[ID]*stray)
	var members []*stray // files other than the first of their allocation
	for _, e := range entries {
		id, ok := parseFileName(e.Name())
		if !ok || known[id] {
			continue // what is not ours is left alone
		}
		switch one, member := s.look(id); {
		case one == nil:
		case member:
			members = append(members, one)
		default:
			found[id] = one
		}
	}
	for _, m := range members {
		whole := found[m.id]
		if whole == nil {
			if known[m.id] {
				m.why = fmt.Errorf("%w: the window of which it is a part does not know it", ErrCorrupt)
			}
			whole = &stray{id: m.id, why: m.why}
			found[m.id] = whole
		}
		whole.files = append(whole.files, m.files...)
		whole.bytes += m.bytes
		if whole.changed.Before(m.changed) {
			whole.changed = m.changed
		}
	}
	all := slices.SortedFunc(maps.Values(found), func(a, b *stray) int { return bytes.Compare(a.id[:], b.id[:]) })
	for _, one := range all {
		one.complete(known)
	}
	return all, nil
}

// look judges one file without a record. member: it is not the first of its allocation, which id
// then names. nil: it is no file, or gone.
func (s *Store) look(id ID) (one *stray, member bool) {
	f, err := s.openFile(s.path(id), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrGone) {
		return nil, false
	}
	one = &stray{id: id, files: []ID{id}}
	if err != nil {
		one.why = accessError(err)
		if st, err := os.Lstat(s.path(id)); err == nil {
			one.bytes, one.changed = uint64(st.Size()), st.ModTime()
		}
		return one, false
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		one.bytes, one.changed = uint64(st.Size()), st.ModTime()
	}
	h, err := s.readHeader(f)
	if errors.Is(err, errIncomplete) {
		// A creator that died has written nothing but the record behind the data. Where there is
		// more, a header was lost.
		if making, lost := s.unwritten(f); making || !lost {
			one.kind = s.unused(f, litter)
			return one, false
		}
		err = fmt.Errorf("%w: its header is lost", ErrCorrupt)
	}
	if err != nil {
		one.why = err
		return one, false
	}
	if h.index > 0 {
		one.id = h.first
		one.why = fmt.Errorf("%w: its first file %v is lost", ErrGone, h.first)
		return one, true
	}
	one.head, one.rec = h, h.rec
	switch {
	case h.id != id:
		one.head, one.rec, one.why = nil, nil, fmt.Errorf("%w: its header is that of file %v", ErrCorrupt, h.id)
	case !h.badFlags && (h.flags&headDoomed != 0 || h.flags&headVolatile != 0 && h.layout > 1):
		// In layout 1 the files of a distributed window are flagged volatile for ever, but for the
		// first, and nothing tells them apart.
		one.kind = s.unused(f, litter)
	case one.bytes < fileSize(h.data):
		one.why = fmt.Errorf("%w: file %v has %d bytes of %d", ErrGone, id, one.bytes, fileSize(h.data))
	}
	return one, false
}

// unwritten says whether a file without a header is that of a creator that was writing one, and
// whether there is anything in it that a creator does not write.
func (s *Store) unwritten(f *os.File) (making, data bool) {
	var b [offLayout]byte
	if _, _ = s.readAt(f, b[:], 0); string(b[:]) == headerMaking {
		return true, false
	}
	data, err := hasData(f)
	return false, data || err != nil
}

// unused is kind if nobody uses the file, and live otherwise.
func (s *Store) unused(f *os.File, kind strayKind) strayKind {
	if free, err := s.tryLock(f, true); err != nil || !free {
		return live
	}
	unlock(f)
	return kind
}

// complete holds the files of a stray against its record.
func (one *stray) complete(known map[ID]bool) {
	if one.why != nil || one.kind != aside || one.rec == nil {
		// layout 1: the header has neither name nor regions
		return
	}
	have := make(map[ID]bool)
	for _, id := range one.files {
		have[id] = true
	}
	for _, f := range one.rec.Files {
		if !have[f.ID] || known[f.ID] {
			one.why = fmt.Errorf("%w: its file %v is lost", ErrGone, f.ID)
			return
		}
	}
}

// record is what restoring files for the stray; name may be empty if the header has one.
// Preconditions: it can be restored.
func (one *stray) record(name string) (*Record, error) {
	rec := one.rec
	if rec == nil {
		// Nothing but the bytes are known: raw memory.
		if name == "" {
			return nil, fmt.Errorf("%w: %v is of layout 1: its name is not known; give it one", ErrName, one.id)
		}
		rec = &Record{ID: one.id, Structure: rawStructure, Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Created: one.changed,
			Creator: "restored", Files: []File{{ID: one.id, Bytes: one.head.data}},
			Regions: []Region{{Size: one.head.data, Unit: 1, Manifestation: 1}}}
	} else {
		c := *rec
		rec = &c
	}
	if name != "" {
		rec.Name = name
	}
	rec.State, rec.Volatile = Ready, false
	if err := rec.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSize, err)
	}
	return rec, nil
}

// rawStructure is nam.RawAndFlat.
const rawStructure = 1

// Aside is what has been set aside: an allocation without a record.
type Aside struct {
	ID      ID
	Record  *Record // as the header has it; nil: not known
	Bytes   uint64  // of its files
	Changed time.Time
	Epochs  uint64
	Problem error // why it cannot be restored; nil: it can
}

// SetAside lists what has been set aside.
func (s *Store) SetAside() ([]Aside, error) {
	var all []Aside
	err := s.view(func(tx *txn) error {
		strays, err := s.asides(tx)
		for _, one := range strays {
			a := Aside{ID: one.id, Record: one.rec, Bytes: one.bytes, Changed: one.changed, Problem: one.why}
			if one.head != nil {
				a.Epochs = one.head.epochs
			}
			all = append(all, a)
		}
		return err
	})
	return all, err
}

// asides returns the strays that are set aside.
func (s *Store) asides(tx *txn) ([]*stray, error) {
	all, err := tx.records()
	if err != nil {
		return nil, err
	}
	strays, err := s.strays(filesOf(all))
	return slices.DeleteFunc(strays, func(one *stray) bool { return one.kind != aside }), err
}

// filesOf returns the files that records have.
func filesOf(all []*Record) map[ID]bool {
	known := make(map[ID]bool)
	for _, rec := range all {
		for _, f := range rec.Files {
			known[f.ID] = true
		}
	}
	return known
}

// findAside returns the one that which names: by ID, or by name if only one has it.
func (s *Store) findAside(tx *txn, which string) (*stray, error) {
	all, err := s.asides(tx)
	if err != nil {
		return nil, err
	}
	var found []*stray
	for _, one := range all {
		if one.id.String() == which {
			return one, nil
		}
		if one.rec != nil && one.rec.Name == which {
			found = append(found, one)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: nothing that is called %q is set aside", ErrName, which)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%w: %d windows called %q are set aside: say which one by its id", ErrExist, len(found), which)
}

// Restore files a record for a window that was set aside: which is its name or ID. With a name in
// as it gets that one. Errors: ErrName, ErrExist if the name is in use, ErrAccess, ErrBusy, and why
// it cannot be restored.
func (s *Store) Restore(which, as string) (rec *Record, err error) {
	err = s.update(func(tx *txn) error {
		one, err := s.findAside(tx, which)
		if err != nil {
			return err
		}
		rec, err = s.restoreLocked(tx, one, as)
		return err
	})
	return rec, err
}

// restoreLocked: preconditions: the exclusive store lock is held.
func (s *Store) restoreLocked(tx *txn, one *stray, as string) (*Record, error) {
	if one.why != nil {
		return nil, fmt.Errorf("%v cannot be restored: %w", one.id, one.why)
	}
	rec, err := one.record(as)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(rec); err != nil {
		return nil, err
	}
	if cur, err := tx.byName(rec.Name); err == nil {
		return nil, fmt.Errorf("%w: %q (%v, made %s by %s)", ErrExist, rec.Name, cur.State, cur.Created.Format(time.DateTime), cur.Creator)
	} else if !errors.Is(err, ErrName) {
		return nil, err
	}
	// The header first: it is what a later loss of the record is mended from.
	if one.rec == nil || one.rec.Name != rec.Name {
		if err := s.rewriteHeader(rec); err != nil {
			return nil, err
		}
	}
	s.step("restore:filing")
	return rec, s.fileLocked(tx, rec, "restore:filed")
}

// rewriteHeader gives the first file of rec a header with that record, in layout 2. Preconditions:
// the exclusive store lock is held.
func (s *Store) rewriteHeader(rec *Record) error {
	f, err := s.openSegment(rec, 0, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := s.tryLock(f, true); err != nil || !free {
		return errors.Join(fmt.Errorf("%w: %q is in use", ErrBusy, rec.Name), err)
	}
	h, err := s.readHeader(f)
	if err != nil {
		return err
	}
	return s.writeHeader(f, h, rec)
}

// Drop removes the files of a window that was set aside: which is its name or ID. Errors: ErrName,
// ErrAccess, ErrBusy if somebody uses them.
func (s *Store) Drop(which string) error {
	return s.update(func(tx *txn) error {
		one, err := s.findAside(tx, which)
		if err != nil {
			return err
		}
		if one.rec != nil {
			if err := checkOwner(one.rec); err != nil {
				return err
			}
		}
		if one.head != nil {
			if err := s.doomStray(one); err != nil {
				return err
			}
		}
		s.step("drop:flagged")
		return s.unlink(one.files, "drop:unlinked")
	})
}

// doomStray sets the flag doomed: a process that dies while it drops the files leaves litter.
func (s *Store) doomStray(one *stray) error {
	f, err := s.openFile(s.path(one.id), os.O_RDWR)
	if err != nil {
		return accessError(err)
	}
	defer f.Close()
	if free, err := s.tryLock(f, true); err != nil || !free {
		return errors.Join(fmt.Errorf("%w: somebody uses %v", ErrBusy, one.id), err)
	}
	flags := one.head.flags | headDoomed
	if one.head.layout > 1 {
		flags = packFlags(flags)
	}
	if err := s.writeAt(f, flagsBytes(flags), offFlags); err != nil {
		return spaceError(err, "write a header")
	}
	return s.syncFile(f) // or a part of it may be gone and the rest not be known as dropped
}

// unlink removes files, the first one last: its flags and its lock answer for all, also on the
// disk.
func (s *Store) unlink(files []ID, step string) error {
	for i := len(files) - 1; i >= 0; i-- {
		if i == 0 && len(files) > 1 {
			if err := s.syncDir(s.allocPath()); err != nil {
				return err
			}
		}
		if err := s.remove(s.path(files[i])); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return accessError(err)
		}
		s.step(step)
	}
	return s.syncDir(s.allocPath())
}
