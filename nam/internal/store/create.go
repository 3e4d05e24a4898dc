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

// Request says what to create. Files and Regions are as in Record, with zero file IDs.
type Request struct {
	Name      string // empty: a unique random one
	Structure uint8
	Volatile  bool
	SyncEpoch bool
	Mode      fs.FileMode // permission bits; 0: 0600
	Files     []uint64    // data bytes of each file, at least one
	Regions   []Region
}

// Create runs steps 1 to 3 of the create protocol: it grants the capacity and files a record in
// state creating. The caller holds the result until Commit or Abort; if it dies in between, the
// allocation is reclaimed.
func (s *Store) Create(req Request) (*Creation, error) {
	rec, err := newRecord(req)
	if err != nil {
		return nil, err
	}
	c := &Creation{s: s, rec: rec}
	err = s.update(func(tx *txn) error {
		cur, err := tx.byName(rec.Name)
		if err == nil { // the name may belong to what a dead process left
			if err := s.reclaimLocked(tx, cur); err != nil && !errors.Is(err, ErrAccess) {
				return err
			}
			if cur, err = tx.byName(rec.Name); err == nil {
				return fmt.Errorf("%w: %q (%v, made %s by %s)", ErrExist, rec.Name, cur.State,
					cur.Created.Format(time.DateTime), cur.Creator)
			}
		}
		if !errors.Is(err, ErrName) {
			return err
		}
		if err := s.grantLocked(tx, rec.Footprint()); err != nil {
			return err
		}
		for i := range rec.Files {
			// the owner must be able to manage it
			f, err := s.open(s.path(rec.Files[i].ID), os.O_RDWR|os.O_CREATE|os.O_EXCL, rec.Mode|0o600)
			if err != nil {
				return accessError(spaceError(err, "create a file"))
			}
			if i > 0 {
				err = s.close(f)
			} else {
				c.first = f
				_, err = s.tryLock(f, false) // nobody else knows the file
			}
			if err != nil {
				return err
			}
			s.step("create:file")
		}
		return tx.put(rec)
	})
	if err != nil {
		c.removeFiles()
		return nil, err
	}
	s.step("create:filed")
	return c, nil
}

// newRecord checks a request and makes the record of it.
func newRecord(req Request) (*Record, error) {
	req.Mode = cmp.Or(req.Mode, 0o600)
	if req.Mode&^0o777 != 0 {
		return nil, fmt.Errorf("%w: mode %#o: legal are permission bits, 0 to 0777", ErrSize, req.Mode)
	}
	host, _ := os.Hostname()
	creator := fmt.Sprintf("%s[%d]@%s", filepath.Base(os.Args[0]), os.Getpid(), host)
	rec := &Record{
		ID: newID(), Name: req.Name, State: Creating, Structure: req.Structure, Volatile: req.Volatile,
		SyncEpoch: req.SyncEpoch, Mode: req.Mode, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		Created: time.Now(), Creator: creator[:min(len(creator), maxCreator)], Regions: req.Regions,
	}
	for i, n := range req.Files {
		f := File{ID: rec.ID, Bytes: n}
		if i > 0 {
			f.ID = newID()
		}
		rec.Files = append(rec.Files, f)
	}
	if rec.Name == "" {
		rec.Name = "nam-" + newID().String()
	}
	if err := rec.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSize, err)
	}
	return rec, nil
}

func newID() (id ID) {
	rand.Read(id[:]) // never fails: the runtime ends the program instead
	return id
}

// grantLocked checks the capacity, reclaiming from the dead if it is short.
// Preconditions: the exclusive store lock is held.
func (s *Store) grantLocked(tx *txn, need uint64) error {
	if s.cfg.Capacity == 0 {
		return nil
	}
	for attempt := 0; ; attempt++ {
		all, err := tx.records()
		if err != nil {
			return err
		}
		var used uint64
		for _, r := range all {
			used += r.Footprint()
		}
		strays, err := s.asides(tx)
		if err != nil {
			return err
		}
		for _, one := range strays {
			used += one.bytes
		}
		if used <= s.cfg.Capacity && need <= s.cfg.Capacity-used {
			return nil
		}
		if attempt > 0 {
			text := ""
			if len(strays) > 0 {
				text = fmt.Sprintf(" and %d that are set aside", len(strays))
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
	rec   *Record
	first *os.File // its flock says that the creator lives; nil when done
}

// Record is what is being made. The caller must not change it.
func (c *Creation) Record() *Record { return c.rec }

// Reserve runs steps 4 and 5 for one file: reserve its blocks, write its header, force both to the
// disk.
func (c *Creation) Reserve(i int) error { return c.s.Reserve(c.rec, i) }

// Reserve is Creation.Reserve for a process that is not the creator but helps it, when each rank
// reserves its own file. Preconditions: the creator has called Create, and calls Commit or Abort
// only after this returns.
func (s *Store) Reserve(rec *Record, i int) error {
	f, err := s.openSegment(rec, i, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	file := rec.Files[i]
	if err := s.reached("create:reserved", s.reserve(f, fileSize(file.Bytes))); err != nil {
		return err
	}
	if i == 0 && behind(rec.encodedLen()) > 0 {
		// The record comes before the header: whoever dies in between leaves a file that says so.
		if err := s.reached("create:making", spaceError(s.writeAt(f, []byte(headerMaking), 0), "write a header")); err != nil {
			return err
		}
	}
	// Volatile until it is complete: the last user of an attempt that fails cleans up.
	h := &header{flags: headVolatile, id: file.ID, data: file.Bytes, first: rec.ID, index: uint32(i)}
	if !rec.SyncEpoch {
		h.boot = s.boot // somebody is about to write
	}
	return s.reached("create:synced", s.writeHeader(f, h, rec))
}

// Commit runs steps 6 and 7: the record becomes ready, and from then on the window can be attached
// to by name. The caller must have attached by ID before, if it wants to use a volatile window.
func (c *Creation) Commit() error {
	if err := c.s.syncDir(c.s.allocPath()); err != nil {
		return err
	}
	err := change(c.s, (*txn).byID, c.rec.ID, func(tx *txn, rec *Record) error {
		if rec.State != Creating {
			return fmt.Errorf("%w: %q was removed while it was made", ErrName, rec.Name)
		}
		rec.State = Ready
		if err := c.s.reached("create:committing", tx.put(rec)); err != nil {
			return err
		}
		if err := tx.commit(); err != nil || rec.Volatile {
			return err
		}
		c.s.step("create:committed")
		if err := c.s.setFlags(rec, 0, headVolatile); err != nil {
			return errors.Join(err, c.s.doomLocked(tx, rec)) // what fails leaves nothing behind
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.s.step("create:ready")
	c.rec.State = Ready
	err = c.s.close(c.first)
	c.first = nil
	return err
}

// Abort removes what was made, also after a Commit: what fails behind it leaves nothing either.
func (c *Creation) Abort() error {
	if c.rec.State == Ready {
		return c.s.Doom(c.rec.ID)
	}
	if c.first == nil {
		return nil
	}
	err := c.s.close(c.first)
	c.first = nil
	return errors.Join(err, c.s.Reclaim(c.rec.ID))
}

// removeFiles undoes a Create that did not get as far as a record.
func (c *Creation) removeFiles() {
	if c.first == nil {
		return
	}
	for _, f := range c.rec.Files {
		c.s.remove(c.s.path(f.ID))
	}
	c.first.Close()
	c.first = nil
}
