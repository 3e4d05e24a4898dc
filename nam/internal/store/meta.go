// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// txn is one metadata transaction. It exists only while the store lock is held.
type txn struct {
	tx    *bolt.Tx
	dirty bool // something was written since the last commit
	// commit ends the present bbolt transaction durably and begins another one, under the same
	// store lock.
	commit func() error
}

// update runs fn in a read-write transaction, with the exclusive store lock, and commits if fn
// returns nil.
func (s *Store) update(fn func(*txn) error) error { return s.opened(s.updateLocked, fn) }

// change is update for the entry that find returns for key.
func change[K any](s *Store, find func(*txn, K) (*Entry, error), key K, fn func(*txn, *Entry) error) error {
	return s.update(func(tx *txn) error {
		ent, err := find(tx, key)
		if err != nil {
			return err
		}
		return fn(tx, ent)
	})
}

// opened runs a transaction. It returns ErrClosed after Close.
func (s *Store) opened(run func(func(*txn) error) error, fn func(*txn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	return run(fn)
}

// updateLocked: preconditions: s.mu is held.
func (s *Store) updateLocked(fn func(*txn) error) error {
	if s.readOnly != nil {
		return fmt.Errorf("%w: the store is open for reading only: %w", ErrAccess, s.readOnly)
	}
	return s.locked(true, func() error {
		db, err := s.openMeta(false)
		if err != nil {
			return err
		}
		defer db.Close()
		t := &txn{}
		if t.tx, err = db.Begin(true); err != nil {
			return err
		}
		t.commit = func() error {
			if !t.dirty {
				return nil
			}
			t.dirty = false
			if err := s.commit(t.tx); err != nil {
				t.tx = nil
				return spaceError(err, "write metadata")
			}
			t.tx, err = db.Begin(true)
			return err
		}
		defer func() { // also after a panic: Close waits for open transactions
			if t.tx != nil {
				t.tx.Rollback()
			}
		}()
		if err := fn(t); err != nil {
			return err
		}
		return t.commit()
	})
}

// writeEntryLocked writes an entry, commits it, and then calls step. Preconditions: the exclusive
// store lock is held.
func (s *Store) writeEntryLocked(tx *txn, ent *Entry, step string) error {
	err := tx.put(ent)
	if err == nil {
		err = tx.commit()
	}
	return s.reached(step, err)
}

// view runs fn in a read-only transaction, with the shared store lock.
func (s *Store) view(fn func(*txn) error) error { return s.opened(s.viewLocked, fn) }

// viewLocked: preconditions: s.mu is held.
func (s *Store) viewLocked(fn func(*txn) error) error {
	return s.locked(false, func() error {
		db, err := s.openMeta(true)
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.Begin(false)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return fn(&txn{tx: tx})
	})
}

// locked runs fn with the store lock. The database panics when it reads damaged pages; such a panic
// becomes an error. Preconditions: s.mu is held.
func (s *Store) locked(exclusive bool, fn func() error) (err error) {
	if s.lock != nil { // a store without a lock file is on a read-only file system
		if err := s.takeLock(exclusive); err != nil {
			return err
		}
		defer unlock(s.lock)
	}
	// A damaged page may also make the database read outside of its mapping.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v", ErrCorrupt, metaName, p)
		}
		if s.metaFile != nil {
			// The database has usually closed the file already. If it lost track of its mapping,
			// the mapping would hold the lock without the file.
			unlock(s.metaFile)
			s.metaFile.Close()
			s.metaFile = nil
		}
	}()
	return fn()
}

// takeLock waits for the lock file, at most LockWait. flock has no time limit, so takeLock tries at
// growing intervals. Transactions of other processes take milliseconds.
func (s *Store) takeLock(exclusive bool) error {
	deadline := time.Now().Add(s.cfg.LockWait)
	pause := 100 * time.Microsecond
	for {
		ok, err := s.tryLock(s.lock, exclusive)
		if ok || err != nil {
			return err
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("%w: %s was not free for %v", ErrBusy, s.lock.Name(), s.cfg.LockWait)
		}
		time.Sleep(pause)
		pause = min(2*pause, 10*time.Millisecond)
	}
}

func (s *Store) metaPath() string { return filepath.Join(s.dir, metaName) }

// openMeta opens the database, which Open has made or checked. Preconditions: the store lock is
// held, so bbolt's own lock is free.
func (s *Store) openMeta(readOnly bool) (*bolt.DB, error) {
	path := s.metaPath()
	// bbolt would turn a missing or empty file into a new database, and would block on a pipe.
	open := func(path string, flags int, _ fs.FileMode) (*os.File, error) {
		f, err := s.openFile(path, flags&^os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if st, err := f.Stat(); err != nil || st.Size() == 0 {
			f.Close()
			return nil, errors.Join(errors.New("it is empty"), err)
		}
		return f, nil
	}
	db, err := s.openBolt(path, bolt.Options{ReadOnly: readOnly, Timeout: s.cfg.LockWait, NoStatistics: true, OpenFile: open})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s is missing", ErrCorrupt, path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, accessError(err)
	case err != nil:
		return nil, fmt.Errorf("%w: open %s: %w", ErrCorrupt, path, err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{bucketLayout, bucketEntries, bucketNames} {
			if tx.Bucket(b) == nil {
				return fmt.Errorf("%w: %s has no table %q", ErrCorrupt, path, b)
			}
		}
		// Open upgrades layout 1. A store that cannot be written is read in layout 1.
		if v := tx.Bucket(bucketLayout).Get(keyVersion); string(v) != layoutVersion && string(v) != layoutVersion1 {
			return fmt.Errorf("%w: %s has layout %q, this program knows %s and %s", ErrVersion, path, v, layoutVersion1, layoutVersion)
		}
		return nil
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// openBolt is bolt.Open. The file that it opens is closed by locked: if the database panics, it
// does not close the file, and the file's lock would stay. Preconditions: called under locked.
func (s *Store) openBolt(path string, opts bolt.Options) (*bolt.DB, error) {
	open := opts.OpenFile
	opts.OpenFile = func(path string, flags int, mode fs.FileMode) (*os.File, error) {
		f, err := open(path, flags, mode)
		s.metaFile = f
		return f, err
	}
	return bolt.Open(path, 0o600, &opts)
}

// metaState is the result of inspectMeta.
type metaState struct {
	missing bool  // there is no database
	oneMeta bool  // one of its two metas is damaged, so it may be older than the files
	damaged error // why it cannot be used; nil: it can
}

// inspectMeta checks the database without opening it. Preconditions: the store lock is held.
func (s *Store) inspectMeta() (m metaState, err error) {
	f, err := s.openFile(s.metaPath(), os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return metaState{missing: true}, nil
	case errors.Is(err, ErrGone):
		return metaState{damaged: err}, nil
	case err != nil:
		return m, accessError(err)
	}
	defer f.Close()
	b, err := get(s, "read", f.Name(), func() ([]byte, error) { return io.ReadAll(f) })
	if err != nil {
		return metaState{damaged: fmt.Errorf("%w: read %s: %w", ErrCorrupt, s.metaPath(), err)}, nil
	}
	metas, err := checkMeta(b)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.metaPath(), err)
	}
	return metaState{oneMeta: metas == 1, damaged: err}, nil
}

// makeMeta makes a database with the given entries under another name, and renames it when it is
// complete. A process killed in the middle leaves a file that no process opens. Preconditions: the
// exclusive store lock is held.
func (s *Store) makeMeta(ents []*Entry) (err error) {
	temp := filepath.Join(s.dir, metaTemp)
	if err := s.remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return accessError(err)
	}
	defer func() {
		if err != nil {
			s.remove(temp) // on a full disk, it would take space from others
		}
	}()
	db, err := s.openBolt(temp, bolt.Options{Timeout: s.cfg.LockWait, NoStatistics: true, OpenFile: s.open})
	if err != nil {
		return accessError(spaceError(err, "write metadata"))
	}
	s.step("init:made")
	update := func(fn func(*bolt.Tx) error) error {
		tx, err := db.Begin(true)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return s.commit(tx)
	}
	layout := func(tx *bolt.Tx) error { return tx.Bucket(bucketLayout).Put(keyVersion, []byte(layoutVersion)) }
	err = update(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{bucketLayout, bucketEntries, bucketNames} {
			if _, err := tx.CreateBucket(b); err != nil {
				return err
			}
		}
		t := &txn{tx: tx}
		for _, ent := range ents {
			if err := t.put(ent); err != nil {
				return err
			}
		}
		return layout(tx)
	})
	if err == nil { // a second transaction: each of the two metas leads to a database with tables
		err = update(layout)
	}
	err = errors.Join(err, db.Close())
	if err != nil {
		return spaceError(err, "write metadata")
	}
	if f, err := s.open(temp, os.O_RDWR, 0); err == nil {
		reserveMeta(f)
		f.Close()
	}
	s.step("init:filled")
	if err := s.rename(temp, s.metaPath()); err != nil {
		return err
	}
	return s.syncDir(s.dir)
}

func (t *txn) byName(name string) (*Entry, error) {
	id := t.tx.Bucket(bucketNames).Get([]byte(name))
	if id == nil {
		return nil, fmt.Errorf("%w: %q", ErrName, name)
	}
	if len(id) != len(ID{}) {
		return nil, fmt.Errorf("%w: name %q leads to an id of %d bytes", ErrCorrupt, name, len(id))
	}
	return t.byID(ID(id))
}

func (t *txn) byID(id ID) (*Entry, error) {
	b := t.tx.Bucket(bucketEntries).Get(id[:])
	if b == nil {
		return nil, fmt.Errorf("%w: id %v", ErrName, id)
	}
	ent, err := Decode(b)
	if err != nil {
		return nil, err
	}
	if ent.ID != id {
		return nil, fmt.Errorf("%w: database entry %v is filed under %v", ErrCorrupt, ent.ID, id)
	}
	return ent, nil
}

// entries returns all entries. Damaged ones are an error that names them.
func (t *txn) entries() (all []*Entry, err error) {
	all, damaged := t.load()
	for key, derr := range damaged {
		err = errors.Join(err, fmt.Errorf("database entry %x: %w", key, derr))
	}
	return all, err
}

// load returns all intact entries, and by key what is wrong with the damaged ones.
func (t *txn) load() (all []*Entry, damaged map[string]error) {
	damaged = make(map[string]error)
	for k, v := range each(t.tx.Bucket(bucketEntries)) {
		ent, err := Decode(v)
		if err == nil && string(k) != string(ent.ID[:]) {
			err = fmt.Errorf("%w: database entry %v is filed under %x", ErrCorrupt, ent.ID, k)
		}
		if err != nil {
			damaged[string(k)] = err
		} else {
			all = append(all, ent)
		}
	}
	return all, damaged
}

// each yields the keys and values of a table. The table must not change during the iteration.
func each(b *bolt.Bucket) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		c := b.Cursor()
		for k, v := c.First(); k != nil && yield(k, v); k, v = c.Next() {
		}
	}
}

func (t *txn) layout() string { return string(t.tx.Bucket(bucketLayout).Get(keyVersion)) }

// put writes the entry, and its name unless its state is deleting.
func (t *txn) put(ent *Entry) error {
	t.dirty = true
	ent.Generation++
	if err := t.tx.Bucket(bucketEntries).Put(ent.ID[:], ent.Encode()); err != nil {
		return err
	}
	names := t.tx.Bucket(bucketNames)
	if ent.State != Deleting {
		return names.Put([]byte(ent.Name), ent.ID[:])
	}
	if cur := names.Get([]byte(ent.Name)); string(cur) == string(ent.ID[:]) {
		return names.Delete([]byte(ent.Name))
	}
	return nil
}

// forget removes the entry. Its name was removed when its state became deleting.
func (t *txn) forget(ent *Entry) error {
	t.dirty = true
	return t.tx.Bucket(bucketEntries).Delete(ent.ID[:])
}
