// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weft/internal/shmem"
)

func (s *Store) allocPath() string { return filepath.Join(s.dir, allocDir) }
func (s *Store) path(id ID) string { return filepath.Join(s.allocPath(), id.String()+suffix) }

// parseFileName returns the ID in the name of a file of the allocation directory.
func parseFileName(name string) (id ID, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found || len(digits) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && id.String() == digits
}

// openFile opens a file that another process may have replaced by anything: it follows no link,
// does not block on a pipe, and refuses everything but a regular file.
func (s *Store) openFile(path string, flags int) (*os.File, error) {
	f, err := s.open(path, flags|openSafely, 0)
	if notRegular(err) {
		return nil, fmt.Errorf("%w: %s is not a regular file: %w", ErrGone, path, err)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file (%v)", ErrGone, path, st.Mode())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openSegment opens file i of an allocation. Errors: ErrGone, ErrAccess.
func (s *Store) openSegment(ent *Entry, i, flags int) (*os.File, error) {
	f, err := s.openFile(s.path(ent.Files[i].ID), flags)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %q has lost its file %v", ErrGone, ent.Name, ent.Files[i].ID)
	}
	if err != nil {
		return nil, accessError(err)
	}
	return f, nil
}

// checkSegment reads the header of an open file of an allocation and compares it with the entry.
// Errors: ErrGone, ErrCorrupt, ErrVersion.
func (s *Store) checkSegment(f *os.File, ent *Entry, i int) (*header, error) {
	file := ent.Files[i]
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if want := fileSize(file.Bytes); uint64(st.Size()) < want {
		return nil, fmt.Errorf("%w: %q: file %v has %d bytes, its entry says %d", ErrGone, ent.Name, file.ID, st.Size(), want)
	}
	h, err := s.readHeader(f)
	if errors.Is(err, errIncomplete) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: file %v: %w", ent.Name, file.ID, err)
	}
	if h.id != file.ID || h.data != file.Bytes || h.layout > 1 && h.first != ent.ID {
		return nil, fmt.Errorf("%w: %q: the header of file %v describes another file", ErrCorrupt, ent.Name, file.ID)
	}
	return h, nil
}

// header reads the header of an allocation's first file. Preconditions: the store lock is held, so
// the file is not removed meanwhile.
func (s *Store) header(ent *Entry) (*header, error) {
	f, err := s.openSegment(ent, 0, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.checkSegment(f, ent, 0)
}

// setFlags sets and clears bits of the header's flags, and forces them to the disk. Preconditions:
// the exclusive store lock is held, so no other process changes volatile and doomed.
func (s *Store) setFlags(ent *Entry, set, clear uint32) error {
	f, err := s.openSegment(ent, 0, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if h, err := s.checkSegment(f, ent, 0); err != nil {
		return err
	} else if h.layout == 1 {
		return fmt.Errorf("%w: %q: file %v has layout 1", ErrVersion, ent.Name, ent.ID)
	}
	m, err := s.mapFile(f, headerSize, false)
	if err != nil {
		return err
	}
	defer func() { _ = shmem.Unmap(m) }()
	if err := guard([][]byte{m}, func() { changeFlags(m, set, clear) }); err != nil {
		return err
	}
	return s.syncRange(f, m, 0, headerSize)
}

// changeFlags sets and clears bits of the flags in a mapped header. Damaged flags count as none:
// otherwise a bit that the damage has set would become a valid flag, and an intact window could be
// taken for a removed one.
func changeFlags(m []byte, set, clear uint32) {
	for w := flagsWord(m); ; {
		old := w.Load()
		f, _ := unpackFlags(old)
		if w.CompareAndSwap(old, packFlags(f&^clear|set)) {
			return
		}
	}
}

// checkAccess compares the mode with this user, as for a file.
func checkAccess(ent *Entry, readOnly bool) error {
	uid := os.Geteuid()
	want, verb := fs.FileMode(0o6), "written"
	if readOnly {
		want, verb = 0o4, "read"
	}
	var have fs.FileMode
	switch {
	case uid == 0:
		have = 0o7
	case uint32(uid) == ent.UID:
		have = ent.Mode >> 6 & 7
	case uint32(os.Getegid()) == ent.GID:
		have = ent.Mode >> 3 & 7
	default:
		have = ent.Mode & 7
	}
	if have&want != want {
		return fmt.Errorf("%w: %q (owner %d, mode %#o) may not be %s by user %d", ErrAccess, ent.Name, ent.UID, ent.Mode, verb, uid)
	}
	return nil
}
