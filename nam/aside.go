// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"

	"weft/nam/internal/store"
)

// SetAside describes the windows that have files in the store and no entry in its database, because
// the database was damaged or replaced by an older one. They stay until they are restored or
// dropped, and count towards the capacity. State is "set aside"; Problem says why a window cannot
// be restored. Unknown fields are empty: if the header is damaged, all but ID and Footprint.
func (s *Store) SetAside() ([]*Allocation, error) {
	asides, err := s.st.SetAside()
	if err != nil {
		return nil, fail("list", s.Dir(), err)
	}
	all := make([]*Allocation, 0, len(asides))
	for _, o := range asides {
		a := &Allocation{Created: o.Changed}
		if o.Entry != nil {
			a = describe(store.Status{Entry: o.Entry, Epochs: o.Epochs, Vouched: o.Epochs})
		}
		a.ID, a.State, a.Footprint, a.Epochs, a.Vouched = o.ID.String(), "set aside", int64(o.Bytes), o.Epochs, o.Epochs
		if o.Problem != nil {
			a.Problem = o.Problem.Error()
		}
		all = append(all, a)
	}
	return all, nil
}

// Restore brings back a window that is set aside, and returns its name; which is its name or ID. If
// as is not empty, the window gets that name instead of its own. It becomes persistent. Errors:
// ErrName, ErrExist if the name is in use, ErrAccess, ErrLost and ErrCorrupt if part of it is
// missing or damaged.
func (s *Store) Restore(which, as string) (name string, err error) {
	ent, err := s.st.Restore(which, as)
	if err != nil {
		return "", fail("restore", which, err)
	}
	return ent.Name, nil
}

// Drop removes a window that is set aside, for good; which is its name or ID. Errors: ErrName,
// ErrExist if several have the name, ErrAccess, ErrBusy while a process uses it.
func (s *Store) Drop(which string) error {
	return fail("drop", which, s.st.Drop(which))
}

// Accept takes the epoch count of an unsynced window as true (see ErrUnsynced): its user has
// checked the data. Errors: ErrName, ErrAccess, ErrBusy while a process uses it, ErrCorrupt.
func (s *Store) Accept(name string) error {
	return fail("accept", name, s.hint(s.st.Accept(name), name))
}

// Repair makes a new database for a store that Open refuses because its database is missing or
// damaged. It takes the entries from the headers of the windows' files, and returns the names of
// the windows in the new database. Windows that cannot be brought back are set aside. The damaged
// database stays in the directory, as meta.db.damaged. A store whose database is whole is not
// changed: nil is returned. An empty dir is DefaultDir.
func Repair(dir string, cfg Config) (names []string, err error) {
	if dir == "" {
		dir = DefaultDir()
		if err := checkDefaultDir(false); err != nil {
			return nil, fail("repair", dir, err)
		}
	}
	ents, err := store.Repair(dir, cfg.internal(dir))
	if err != nil {
		return nil, fail("repair", dir, err)
	}
	for _, ent := range ents {
		names = append(names, ent.Name)
	}
	return names, nil
}

// hint adds to an ErrName that a window of this name is set aside.
func (s *Store) hint(err error, name string) error {
	if !errors.Is(err, ErrName) {
		return err
	}
	asides, _ := s.st.SetAside() // best effort: the caller gets err in any case
	for _, o := range asides {
		if o.Entry != nil && o.Entry.Name == name {
			return fmt.Errorf("%w; a window of this name is set aside (weft nam ls -C %s)", err, s.Dir())
		}
	}
	return err
}
