// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Request says what to create. Files and Regions are as in Entry, with zero file IDs.
type Request struct {
	Name      string // empty: a unique random one
	Structure uint8
	Volatile  bool
	SyncEpoch bool
	Mode      fs.FileMode // permission bits; 0: 0600
	Files     []uint64    // data bytes of each file, at least one
	Regions   []Region
}

// Create runs steps 1 to 3 of the create protocol: it grants the capacity and writes an entry in
// state creating. The caller holds the result until Commit or Abort. If the caller dies before
// that, the allocation is reclaimed.
func (s *Store) Create(req Request) (*Creation, error) {
	ent, err := newEntry(req)
	if err != nil {
		return nil, err
	}
	c := &Creation{s: s, entry: ent}
	err = s.update(func(tx *txn) error {
		cur, err := tx.byName(ent.Name)
		if err == nil { // a dead process may have left the name
			if err := s.reclaimLocked(tx, cur); err != nil && !errors.Is(err, ErrAccess) {
				return err
			}
			if cur, err = tx.byName(ent.Name); err == nil {
				return fmt.Errorf("%w: %q (%v, made %s by %s)", ErrExist, ent.Name, cur.State,
					cur.Created.Format(time.DateTime), cur.Creator)
			}
		}
		if !errors.Is(err, ErrName) {
			return err
		}
		if err := s.grantLocked(tx, ent.Footprint()); err != nil {
			return err
		}
		for i := range ent.Files {
			// the owner must be able to manage it
			f, err := s.open(s.path(ent.Files[i].ID), os.O_RDWR|os.O_CREATE|os.O_EXCL, ent.Mode|0o600)
			if err != nil {
				return accessError(spaceError(err, "create a file"))
			}
			if i > 0 {
				err = s.close(f)
			} else {
				c.first = f
				_, err = s.tryLock(f, false) // free: no other process knows the file
			}
			if err != nil {
				return err
			}
			s.step("create:file")
		}
		return tx.put(ent)
	})
	if err != nil {
		c.removeFiles()
		return nil, err
	}
	s.step("create:filed")
	return c, nil
}

// newEntry checks a request and makes its entry.
func newEntry(req Request) (*Entry, error) {
	req.Mode = cmp.Or(req.Mode, 0o600)
	if req.Mode&^0o777 != 0 {
		return nil, fmt.Errorf("%w: mode %#o: legal are permission bits, 0 to 0777", ErrSize, req.Mode)
	}
	host, _ := os.Hostname()
	creator := fmt.Sprintf("%s[%d]@%s", filepath.Base(os.Args[0]), os.Getpid(), host)
	ent := &Entry{
		ID: newID(), Name: req.Name, State: Creating, Structure: req.Structure, Volatile: req.Volatile,
		SyncEpoch: req.SyncEpoch, Mode: req.Mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		Created: time.Now(), Creator: creator[:min(len(creator), maxCreator)], Regions: req.Regions,
	}
	for i, n := range req.Files {
		f := File{ID: ent.ID, Bytes: n}
		if i > 0 {
			f.ID = newID()
		}
		ent.Files = append(ent.Files, f)
	}
	if ent.Name == "" {
		ent.Name = "nam-" + newID().String()
	}
	if err := ent.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSize, err)
	}
	return ent, nil
}

func newID() (id ID) {
	rand.Read(id[:]) // never fails: the runtime ends the program instead
	return id
}

// grantLocked checks the capacity. If the capacity does not suffice, it reclaims what dead
// processes left, and checks again. Preconditions: the exclusive store lock is held.
func (s *Store) grantLocked(tx *txn, need uint64) error {
	if s.cfg.Capacity == 0 {
		return nil
	}
	for attempt := 0; ; attempt++ {
		all, err := tx.entries()
		if err != nil {
			return err
		}
		var used uint64
		for _, r := range all {
			used += r.Footprint()
		}
		orphans, err := s.asides(tx)
		if err != nil {
			return err
		}
		for _, o := range orphans {
			used += o.bytes
		}
		if used <= s.cfg.Capacity && need <= s.cfg.Capacity-used {
			return nil
		}
		if attempt > 0 {
			text := ""
			if len(orphans) > 0 {
				text = fmt.Sprintf(" and %d that are set aside", len(orphans))
			}
			return fmt.Errorf("%w: %d bytes asked for, %d of the store's capacity of %d are in use by %d windows%s",
				ErrNoSpace, need, used, s.cfg.Capacity, len(all), text)
		}
		for _, r := range all {
			if err := s.reclaimLocked(tx, r); err != nil && !errors.Is(err, ErrAccess) {
				return err
			}
		}
	}
}

// Creation is an allocation in state creating, held by the process that makes it. It is used by one
// goroutine.
type Creation struct {
	s     *Store
	entry *Entry
	first *os.File // its flock says that the creator lives; nil when done
}

// Entry is the new allocation's entry. The caller must not change it.
func (c *Creation) Entry() *Entry { return c.entry }

// Reserve runs steps 4 and 5 for one file: it reserves the blocks, writes the header, and forces
// both to the disk.
func (c *Creation) Reserve(i int) error { return c.s.Reserve(c.entry, i) }

// Reserve is Creation.Reserve for a process that helps the creator: each rank may reserve its own
// file. Preconditions: the creator has called Create, and calls Commit or Abort only after this
// returns.
func (s *Store) Reserve(ent *Entry, i int) error {
	f, err := s.openSegment(ent, i, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	file := ent.Files[i]
	if err := s.reached("create:reserved", s.reserve(f, fileSize(file.Bytes))); err != nil {
		return err
	}
	if i == 0 && overflow(ent.encodedLen()) > 0 {
		// A long entry is written before the header. A process that dies in between leaves a file
		// with the magic of an incomplete one.
		if err := s.reached("create:making", spaceError(s.writeAt(f, []byte(headerMaking), 0), "write a header")); err != nil {
			return err
		}
	}
	// Volatile until the window is complete: the last user of an attempt that fails cleans up.
	h := &header{flags: headVolatile, id: file.ID, data: file.Bytes, first: ent.ID, index: uint32(i)}
	if !ent.SyncEpoch {
		h.boot = s.boot // its ranks are about to write
	}
	return s.reached("create:synced", s.writeHeader(f, h, ent))
}

// Commit runs steps 6 and 7: the entry becomes ready, and from then on the window can be attached
// to by name. A caller that wants to use a volatile window must have attached by ID before.
func (c *Creation) Commit() error {
	if err := c.s.syncDir(c.s.allocPath()); err != nil {
		return err
	}
	err := change(c.s, (*txn).byID, c.entry.ID, func(tx *txn, ent *Entry) error {
		if ent.State != Creating {
			return fmt.Errorf("%w: %q was removed while it was made", ErrName, ent.Name)
		}
		ent.State = Ready
		if err := c.s.reached("create:committing", tx.put(ent)); err != nil {
			return err
		}
		if err := tx.commit(); err != nil || ent.Volatile {
			return err
		}
		c.s.step("create:committed")
		if err := c.s.setFlags(ent, 0, headVolatile); err != nil {
			return errors.Join(err, c.s.doomLocked(tx, ent)) // a failed call leaves nothing
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.s.step("create:ready")
	c.entry.State = Ready
	err = c.s.close(c.first)
	c.first = nil
	return err
}

// Abort removes what was made, even after Commit.
func (c *Creation) Abort() error {
	if c.entry.State == Ready {
		return c.s.Doom(c.entry.ID)
	}
	if c.first == nil {
		return nil
	}
	err := c.s.close(c.first)
	c.first = nil
	return errors.Join(err, c.s.Reclaim(c.entry.ID))
}

// removeFiles undoes a Create that failed before it wrote an entry.
func (c *Creation) removeFiles() {
	if c.first == nil {
		return
	}
	for _, f := range c.entry.Files {
		c.s.remove(c.s.path(f.ID))
	}
	c.first.Close()
	c.first = nil
}
