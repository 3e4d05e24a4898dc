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

// An orphan is an allocation that has files and no entry in the database. A missing entry proves
// nothing: the database may be older than the files, or new, or damaged. So the header of the first
// file decides what becomes of the orphan:
//
//	leftover   the header was never written, or is flagged doomed or volatile, and no process uses the
//	           file: its creator or its last user died. Recovery removes it.
//	live       the same, and a process uses the file. It is left alone.
//	set aside  all others. The files stay where they are, until Restore or Drop.
//
// Nothing is written to set an orphan aside. So a read-only store does it as well, and if the right
// database comes back, everything is as before.

// orphan is one of them, or what is left of it.
type orphan struct {
	id      ID
	files   []ID // files that exist; the allocation's first file, if it exists, is first
	bytes   uint64
	changed time.Time
	entry   *Entry  // from the header; nil: not known
	head    *header // of the first file; nil: not known
	why     error   // why it cannot be restored; nil: it can
	kind    orphanKind
}

type orphanKind uint8

const (
	setAside orphanKind = iota
	leftover
	live
)

// hasFiles says whether the store has any file of an allocation.
func (s *Store) hasFiles() bool {
	entries, _ := os.ReadDir(s.allocPath())
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		_, ok := parseFileName(e.Name())
		return ok
	})
}

// orphans returns the allocations that have files and no entry. known has the files that entries
// name. Preconditions: the store lock is held.
func (s *Store) orphans(known map[ID]bool) ([]*orphan, error) {
	entries, err := s.readDir(s.allocPath())
	if err != nil {
		return nil, accessError(err)
	}
	found := make(map[ID]*orphan)
	var members []*orphan // files other than the first of their allocation
	for _, e := range entries {
		id, ok := parseFileName(e.Name())
		if !ok || known[id] {
			continue // files with other names are left alone
		}
		switch o, member := s.inspectFile(id); {
		case o == nil:
		case member:
			members = append(members, o)
		default:
			found[id] = o
		}
	}
	for _, m := range members {
		whole := found[m.id]
		if whole == nil {
			if known[m.id] {
				m.why = fmt.Errorf("%w: its window does not have this file", ErrCorrupt)
			}
			whole = &orphan{id: m.id, why: m.why}
			found[m.id] = whole
		}
		whole.files = append(whole.files, m.files...)
		whole.bytes += m.bytes
		if whole.changed.Before(m.changed) {
			whole.changed = m.changed
		}
	}
	all := slices.SortedFunc(maps.Values(found), func(a, b *orphan) int { return bytes.Compare(a.id[:], b.id[:]) })
	for _, o := range all {
		o.checkFiles(known)
	}
	return all, nil
}

// inspectFile classifies one file without an entry. member: the file is not the first of its
// allocation, and o.id is the allocation's ID. nil: the file is gone, or is no regular file.
func (s *Store) inspectFile(id ID) (o *orphan, member bool) {
	f, err := s.openFile(s.path(id), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrGone) {
		return nil, false
	}
	o = &orphan{id: id, files: []ID{id}}
	if err != nil {
		o.why = accessError(err)
		if st, err := os.Lstat(s.path(id)); err == nil {
			o.bytes, o.changed = uint64(st.Size()), st.ModTime()
		}
		return o, false
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		o.bytes, o.changed = uint64(st.Size()), st.ModTime()
	}
	h, err := s.readHeader(f)
	if errors.Is(err, errIncomplete) {
		// A creator that died has written nothing but an entry after the data. A file with more in
		// it has lost its header.
		if making, lost := s.unwritten(f); making || !lost {
			o.kind = s.kindIfUnused(f, leftover)
			return o, false
		}
		err = fmt.Errorf("%w: its header is lost", ErrCorrupt)
	}
	if err != nil {
		o.why = err
		return o, false
	}
	if h.index > 0 {
		o.id = h.first
		o.why = fmt.Errorf("%w: its first file %v is lost", ErrGone, h.first)
		return o, true
	}
	o.head, o.entry = h, h.entry
	switch {
	case h.id != id:
		o.head, o.entry, o.why = nil, nil, fmt.Errorf("%w: its header belongs to file %v", ErrCorrupt, h.id)
	case !h.badFlags && (h.flags&headDoomed != 0 || h.flags&headVolatile != 0 && h.layout > 1):
		// In layout 1 all files of a distributed window but the first stay flagged volatile for
		// ever, and the first cannot be told from the others.
		o.kind = s.kindIfUnused(f, leftover)
	case o.bytes < fileSize(h.data):
		o.why = fmt.Errorf("%w: file %v has %d bytes of %d", ErrGone, id, o.bytes, fileSize(h.data))
	}
	return o, false
}

// unwritten examines a file without a header. making: its creator had begun to write a long entry.
// data: the file has bytes that a creator does not write.
func (s *Store) unwritten(f *os.File) (making, data bool) {
	var b [offLayout]byte
	if _, _ = s.readAt(f, b[:], 0); string(b[:]) == headerMaking {
		return true, false
	}
	data, err := hasData(f)
	return false, data || err != nil
}

// kindIfUnused returns kind if no process uses the file, and live otherwise.
func (s *Store) kindIfUnused(f *os.File, kind orphanKind) orphanKind {
	if free, err := s.tryLock(f, true); err != nil || !free {
		return live
	}
	unlock(f)
	return kind
}

// checkFiles sets o.why if a file of o's entry is missing, or another allocation has it.
func (o *orphan) checkFiles(known map[ID]bool) {
	if o.why != nil || o.kind != setAside || o.entry == nil {
		// in layout 1 the header has neither a name nor regions
		return
	}
	have := make(map[ID]bool)
	for _, id := range o.files {
		have[id] = true
	}
	for _, f := range o.entry.Files {
		if !have[f.ID] || known[f.ID] {
			o.why = fmt.Errorf("%w: its file %v is lost", ErrGone, f.ID)
			return
		}
	}
}

// entryFor returns the entry that restores o. name may be empty if the header has a name.
// Preconditions: o can be restored.
func (o *orphan) entryFor(name string) (*Entry, error) {
	ent := o.entry
	if ent == nil {
		// Only the bytes are known: make it raw memory.
		if name == "" {
			return nil, fmt.Errorf("%w: %v is of layout 1: its name is not known; give it one", ErrName, o.id)
		}
		ent = &Entry{ID: o.id, Structure: rawStructure, Mode: 0o600, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Created: o.changed,
			Creator: "restored", Files: []File{{ID: o.id, Bytes: o.head.data}},
			Regions: []Region{{Size: o.head.data, Unit: 1, Manifestation: 1}}}
	} else {
		c := *ent
		ent = &c
	}
	if name != "" {
		ent.Name = name
	}
	ent.State, ent.Volatile = Ready, false
	if err := ent.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSize, err)
	}
	return ent, nil
}

// rawStructure is nam.RawAndFlat.
const rawStructure = 1

// Aside is an orphan that is set aside.
type Aside struct {
	ID      ID
	Entry   *Entry // from the header; nil: not known
	Bytes   uint64 // of its files
	Changed time.Time
	Epochs  uint64
	Problem error // why it cannot be restored; nil: it can
}

// SetAside returns the orphans that are set aside.
func (s *Store) SetAside() ([]Aside, error) {
	var all []Aside
	err := s.view(func(tx *txn) error {
		orphans, err := s.asides(tx)
		for _, o := range orphans {
			a := Aside{ID: o.id, Entry: o.entry, Bytes: o.bytes, Changed: o.changed, Problem: o.why}
			if o.head != nil {
				a.Epochs = o.head.epochs
			}
			all = append(all, a)
		}
		return err
	})
	return all, err
}

// asides returns the orphans that are set aside.
func (s *Store) asides(tx *txn) ([]*orphan, error) {
	all, err := tx.entries()
	if err != nil {
		return nil, err
	}
	orphans, err := s.orphans(filesOf(all))
	return slices.DeleteFunc(orphans, func(o *orphan) bool { return o.kind != setAside }), err
}

// filesOf returns the files that all's entries name.
func filesOf(all []*Entry) map[ID]bool {
	known := make(map[ID]bool)
	for _, ent := range all {
		for _, f := range ent.Files {
			known[f.ID] = true
		}
	}
	return known
}

// findAside returns the orphan with the ID or the name in which. A name must be unique.
func (s *Store) findAside(tx *txn, which string) (*orphan, error) {
	all, err := s.asides(tx)
	if err != nil {
		return nil, err
	}
	var found []*orphan
	for _, o := range all {
		if o.id.String() == which {
			return o, nil
		}
		if o.entry != nil && o.entry.Name == which {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%w: no window called %q is set aside", ErrName, which)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%w: %d windows called %q are set aside: say which one by its id", ErrExist, len(found), which)
}

// Restore writes an entry for an orphan that is set aside; which is its name or ID. If as is not
// empty, the window gets that name. Errors: ErrName, ErrExist if the name is in use, ErrAccess,
// ErrBusy, and the reason why it cannot be restored.
func (s *Store) Restore(which, as string) (ent *Entry, err error) {
	err = s.update(func(tx *txn) error {
		o, err := s.findAside(tx, which)
		if err != nil {
			return err
		}
		ent, err = s.restoreLocked(tx, o, as)
		return err
	})
	return ent, err
}

// restoreLocked: preconditions: the exclusive store lock is held.
func (s *Store) restoreLocked(tx *txn, o *orphan, as string) (*Entry, error) {
	if o.why != nil {
		return nil, fmt.Errorf("%v cannot be restored: %w", o.id, o.why)
	}
	ent, err := o.entryFor(as)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(ent); err != nil {
		return nil, err
	}
	if cur, err := tx.byName(ent.Name); err == nil {
		return nil, fmt.Errorf("%w: %q (%v, made %s by %s)", ErrExist, ent.Name, cur.State, cur.Created.Format(time.DateTime), cur.Creator)
	} else if !errors.Is(err, ErrName) {
		return nil, err
	}
	// The header first: a later loss of the entry is repaired from it.
	if o.entry == nil || o.entry.Name != ent.Name {
		if err := s.rewriteHeader(ent); err != nil {
			return nil, err
		}
	}
	s.step("restore:filing")
	return ent, s.writeEntryLocked(tx, ent, "restore:filed")
}

// rewriteHeader writes ent into the header of its first file, in layout 2. Preconditions: the
// exclusive store lock is held.
func (s *Store) rewriteHeader(ent *Entry) error {
	f, err := s.openSegment(ent, 0, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if free, err := s.tryLock(f, true); err != nil || !free {
		return errors.Join(fmt.Errorf("%w: %q is in use", ErrBusy, ent.Name), err)
	}
	h, err := s.readHeader(f)
	if err != nil {
		return err
	}
	return s.writeHeader(f, h, ent)
}

// Drop removes the files of an orphan that is set aside; which is its name or ID. Errors: ErrName,
// ErrExist if several have the name, ErrAccess, ErrBusy if a process uses them.
func (s *Store) Drop(which string) error {
	return s.update(func(tx *txn) error {
		o, err := s.findAside(tx, which)
		if err != nil {
			return err
		}
		if o.entry != nil {
			if err := checkOwner(o.entry); err != nil {
				return err
			}
		}
		if o.head != nil {
			if err := s.doomOrphan(o); err != nil {
				return err
			}
		}
		s.step("drop:flagged")
		return s.unlink(o.files, "drop:unlinked")
	})
}

// doomOrphan sets the flag doomed. A process that dies while it removes the files leaves a
// leftover.
func (s *Store) doomOrphan(o *orphan) error {
	f, err := s.openFile(s.path(o.id), os.O_RDWR)
	if err != nil {
		return accessError(err)
	}
	defer f.Close()
	if free, err := s.tryLock(f, true); err != nil || !free {
		return errors.Join(fmt.Errorf("%w: %v is in use", ErrBusy, o.id), err)
	}
	flags := o.head.flags | headDoomed
	if o.head.layout > 1 {
		flags = packFlags(flags)
	}
	if err := s.writeAt(f, flagsBytes(flags), offFlags); err != nil {
		return spaceError(err, "write a header")
	}
	return s.syncFile(f) // otherwise some files could be gone and the rest not be known as dropped
}

// unlink removes files, the first one last, also on the disk: the flags and the lock of the first
// file are those of all.
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
