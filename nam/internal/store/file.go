// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func (s *Store) allocPath() string { return filepath.Join(s.dir, allocDir) }

func (s *Store) path(id ID) string { return filepath.Join(s.allocPath(), id.String()+suffix) }

// parseFileName returns the id that a name in the allocation directory stands for.
func parseFileName(name string) (id ID, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	if !found || len(digits) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && id.String() == digits
}

// withHeader maps the header of an allocation's first file for the duration of fn.
// Preconditions: the store lock is held, so the file is not removed meanwhile.
func (s *Store) withHeader(rec *Record, readOnly bool, fn func(head []byte)) error {
	flags := os.O_RDWR
	if readOnly {
		flags = os.O_RDONLY
	}
	f, err := os.OpenFile(s.path(rec.ID), flags, 0)
	if err != nil {
		return accessError(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if st.Size() < headerSize {
		return fmt.Errorf("%w: %q: file %v has %d bytes and no header", ErrCorrupt, rec.Name, rec.ID, st.Size())
	}
	m, err := mapFile(f, headerSize, readOnly)
	if err != nil {
		return err
	}
	defer unmapFile(m)
	if err := checkHeader(m, rec.Files[0]); err != nil {
		return err
	}
	fn(m)
	return nil
}

// setFlags sets and clears bits in the header. Preconditions: the exclusive store lock is held, which keeps other
// changes of volatile and doomed away.
func (s *Store) setFlags(rec *Record, set, clear uint32) error {
	return s.withHeader(rec, false, func(head []byte) {
		w := flagsWord(head)
		w.Or(set)
		w.And(^clear)
	})
}

// checkAccess compares the mode with this user, as for a file.
func checkAccess(rec *Record, readOnly bool) error {
	uid := os.Geteuid()
	want, verb := fs.FileMode(0o6), "written"
	if readOnly {
		want, verb = 0o4, "read"
	}
	var have fs.FileMode
	switch {
	case uid == 0:
		have = 0o7
	case uint32(uid) == rec.UID:
		have = rec.Mode >> 6 & 7
	case uint32(os.Getegid()) == rec.GID:
		have = rec.Mode >> 3 & 7
	default:
		have = rec.Mode & 7
	}
	if have&want != want {
		return fmt.Errorf("%w: %q (owner %d, mode %#o) may not be %s by user %d", ErrAccess, rec.Name, rec.UID, rec.Mode, verb, uid)
	}
	return nil
}
