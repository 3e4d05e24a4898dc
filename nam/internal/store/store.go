// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sort"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Config of Open. The zero value works.
type Config struct {
	// Capacity limits the footprint of all allocations together, in bytes. 0: only the disk is the limit.
	Capacity uint64
	// LockWait bounds how long a metadata transaction waits for other processes. 0: 10 seconds.
	LockWait time.Duration
	// MustExist makes Open fail with fs.ErrNotExist where there is no store, instead of making one.
	MustExist bool
	// Step, if set, is called at each numbered step of the protocols in nam/README.md. Tests use it to end the process
	// there. It must not call the store.
	Step func(name string)
}

const (
	layoutVersion = "1"
	lockName      = "lock"
	metaName      = "meta.db"
	metaTemp      = "meta.db.new"
	allocDir      = "alloc"
	suffix        = ".seg"
)

var (
	bucketLayout  = []byte("layout")
	bucketRecords = []byte("records") // id → record
	bucketNames   = []byte("names")   // name → id, of allocations that are creating or ready
	keyVersion    = []byte("version")
)

// Store is an open store directory.
type Store struct {
	// constant after construction
	dir   string
	cfg   Config
	place [2]uint64 // of the lock file

	mu      sync.Mutex
	lock    *os.File              // guarded by mu; nil when closed and unused
	closing bool                  // guarded by mu; Close was called
	handles map[handleKey]*Handle // guarded by mu; the mappings of this process
}

// Open opens or makes the store in dir, and reclaims what dead processes left behind.
func Open(dir string, cfg Config) (*Store, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: network-attached memory needs Linux (flock, fallocate, shared mappings)", ErrUnsupported)
	}
	if dir == "" {
		return nil, errors.New("store directory: empty path")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("store directory: %w", err)
	}
	if cfg.LockWait == 0 {
		cfg.LockWait = 10 * time.Second
	}
	if cfg.LockWait < 0 {
		return nil, fmt.Errorf("LockWait %v: must not be negative", cfg.LockWait)
	}
	if cfg.MustExist {
		// The metadata file appears last, complete.
		if _, err := os.Stat(filepath.Join(dir, metaName)); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no store in this directory: %w", fs.ErrNotExist)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, allocDir), 0o700); err != nil {
		return nil, accessError(fmt.Errorf("store directory: %w", err))
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, accessError(fmt.Errorf("store directory: %w", err))
	}
	s := &Store{dir: dir, cfg: cfg, lock: lock, handles: make(map[handleKey]*Handle)}
	if s.place, err = placeOf(lock); err != nil {
		lock.Close()
		return nil, err
	}
	if err := s.update(func(tx *txn) error { return s.recoverLocked(tx) }); err != nil {
		lock.Close()
		return nil, err
	}
	return s, nil
}

// Dir is the absolute path of the store's directory.
func (s *Store) Dir() string { return s.dir }

// Place tells stores of one machine apart, whatever path they were opened by.
func (s *Store) Place() [2]uint64 { return s.place }

// Capacity is the limit given to Open; 0 means none.
func (s *Store) Capacity() uint64 { return s.cfg.Capacity }

// Close closes the store. Mappings that are still in use stay until their last Release.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	s.closing = true
	if len(s.handles) > 0 {
		return nil // the last Release does the rest; it may still have to reclaim
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// openLocked: preconditions: s.mu is held.
func (s *Store) openLocked() error {
	if s.closing {
		return ErrClosed
	}
	return nil
}

// Entry is a record and the epoch count of its allocation.
type Entry struct {
	*Record
	Epochs uint64
}

// List returns all allocations by name, those that are being made or removed included.
func (s *Store) List() ([]Entry, error) {
	var all []Entry
	err := s.view(func(tx *txn) error {
		recs, err := tx.records()
		for _, rec := range recs {
			all = append(all, s.entry(rec))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all, nil
}

// Stat returns the allocation of a window.
func (s *Store) Stat(name string) (Entry, error) {
	return s.find(func(tx *txn) (*Record, error) { return tx.byName(name) })
}

// StatID is Stat by ID.
func (s *Store) StatID(id ID) (Entry, error) {
	return s.find(func(tx *txn) (*Record, error) { return tx.byID(id) })
}

func (s *Store) find(get func(*txn) (*Record, error)) (e Entry, err error) {
	err = s.view(func(tx *txn) error {
		rec, err := get(tx)
		if err == nil {
			e = s.entry(rec)
		}
		return err
	})
	return e, err
}

// entry adds the epoch count if there is a header that may be trusted.
func (s *Store) entry(rec *Record) Entry {
	e := Entry{Record: rec}
	if rec.State == Ready {
		// A damaged file is reported by whoever attaches.
		_ = s.withHeader(rec, true, func(head []byte) { e.Epochs = epochsWord(head).Load() })
	}
	return e
}

func (s *Store) step(name string) {
	if s.cfg.Step != nil {
		s.cfg.Step(name)
	}
}

// syncDir makes creations and removals of allocation files durable.
func (s *Store) syncDir() error {
	d, err := os.Open(filepath.Join(s.dir, allocDir))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// txn is one metadata transaction. It exists only while the store lock is held.
type txn struct {
	tx    *bolt.Tx
	dirty bool // something was written since the last commit
	// commit ends the present bbolt transaction durably and begins another, still under the same store lock.
	commit func() error
}

// update runs fn with the exclusive store lock in a read-write transaction, and commits if fn returns nil.
func (s *Store) update(fn func(*txn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	return s.updateLocked(fn)
}

// updateLocked: preconditions: s.mu is held.
func (s *Store) updateLocked(fn func(*txn) error) error {
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
			if err := t.tx.Commit(); err != nil {
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

// view runs fn with the shared store lock in a read-only transaction.
func (s *Store) view(fn func(*txn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.openLocked(); err != nil {
		return err
	}
	return s.viewLocked(fn)
}

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

// locked holds the store lock around fn. A panic of the database, which is how it answers to damaged pages, becomes
// an error. Preconditions: s.mu is held.
func (s *Store) locked(exclusive bool, fn func() error) (err error) {
	if err := s.takeLock(exclusive); err != nil {
		return err
	}
	defer unlock(s.lock)
	// A damaged page may also lead the database out of its mapping.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v", ErrCorrupt, metaName, p)
		}
	}()
	return fn()
}

// takeLock waits a bounded time for the lock file. flock has no wait with a limit, so it is tried at growing
// intervals; transactions of others take milliseconds.
func (s *Store) takeLock(exclusive bool) error {
	deadline := time.Now().Add(s.cfg.LockWait)
	pause := 100 * time.Microsecond
	for {
		ok, err := tryLock(s.lock, exclusive)
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

// openMeta opens the database, making it first if this is a new store. Preconditions: the store lock is held, so
// bbolt's own lock is free.
func (s *Store) openMeta(readOnly bool) (*bolt.DB, error) {
	path := filepath.Join(s.dir, metaName)
	if !readOnly {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := s.makeMeta(path); err != nil {
				return nil, err
			}
		}
	}
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: readOnly, Timeout: s.cfg.LockWait, NoStatistics: true})
	if err != nil {
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil, accessError(err)
		}
		return nil, fmt.Errorf("%w: open %s: %w", ErrCorrupt, path, err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{bucketLayout, bucketRecords, bucketNames} {
			if tx.Bucket(b) == nil {
				return fmt.Errorf("%w: %s has no table %q", ErrCorrupt, path, b)
			}
		}
		if v := tx.Bucket(bucketLayout).Get(keyVersion); string(v) != layoutVersion {
			return fmt.Errorf("%w: %s has layout %q, this program knows %q", ErrVersion, path, v, layoutVersion)
		}
		return nil
	})
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// makeMeta makes the database under another name and renames it when it is complete: a process killed in the middle
// leaves a file that nobody opens. Preconditions: the exclusive store lock is held.
func (s *Store) makeMeta(path string) error {
	temp := filepath.Join(s.dir, metaTemp)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return accessError(err)
	}
	db, err := bolt.Open(temp, 0o600, &bolt.Options{Timeout: s.cfg.LockWait, NoStatistics: true})
	if err != nil {
		return accessError(spaceError(err, "write metadata"))
	}
	s.step("init:made")
	err = db.Update(func(tx *bolt.Tx) error {
		for _, b := range [][]byte{bucketLayout, bucketRecords, bucketNames} {
			if _, err := tx.CreateBucket(b); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketLayout).Put(keyVersion, []byte(layoutVersion))
	})
	err = errors.Join(err, db.Close())
	if err != nil {
		return spaceError(err, "write metadata")
	}
	if f, err := os.OpenFile(temp, os.O_RDWR, 0); err == nil {
		reserveMeta(f)
		f.Close()
	}
	s.step("init:filled")
	return os.Rename(temp, path)
}

func (t *txn) byName(name string) (*Record, error) {
	id := t.tx.Bucket(bucketNames).Get([]byte(name))
	if id == nil {
		return nil, fmt.Errorf("%w: %q", ErrName, name)
	}
	if len(id) != len(ID{}) {
		return nil, fmt.Errorf("%w: name %q leads to an id of %d bytes", ErrCorrupt, name, len(id))
	}
	return t.byID(ID(id))
}

func (t *txn) byID(id ID) (*Record, error) {
	b := t.tx.Bucket(bucketRecords).Get(id[:])
	if b == nil {
		return nil, fmt.Errorf("%w: id %v", ErrName, id)
	}
	rec, err := Decode(b)
	if err != nil {
		return nil, err
	}
	if rec.ID != id {
		return nil, fmt.Errorf("%w: record %v is filed under %v", ErrCorrupt, rec.ID, id)
	}
	return rec, nil
}

// records returns all records; damaged ones are an error that names them.
func (t *txn) records() ([]*Record, error) {
	var all []*Record
	err := t.tx.Bucket(bucketRecords).ForEach(func(k, v []byte) error {
		rec, err := Decode(v)
		if err != nil {
			return fmt.Errorf("record %x: %w", k, err)
		}
		all = append(all, rec)
		return nil
	})
	return all, err
}

// put files the record, and its name unless it is being removed.
func (t *txn) put(rec *Record) error {
	t.dirty = true
	rec.Generation++
	if err := t.tx.Bucket(bucketRecords).Put(rec.ID[:], rec.Encode()); err != nil {
		return err
	}
	names := t.tx.Bucket(bucketNames)
	if rec.State != Deleting {
		return names.Put([]byte(rec.Name), rec.ID[:])
	}
	if cur := names.Get([]byte(rec.Name)); string(cur) == string(rec.ID[:]) {
		return names.Delete([]byte(rec.Name))
	}
	return nil
}

// forget removes the record and its name.
func (t *txn) forget(rec *Record) error {
	t.dirty = true
	names := t.tx.Bucket(bucketNames)
	if cur := names.Get([]byte(rec.Name)); string(cur) == string(rec.ID[:]) {
		if err := names.Delete([]byte(rec.Name)); err != nil {
			return err
		}
	}
	return t.tx.Bucket(bucketRecords).Delete(rec.ID[:])
}
