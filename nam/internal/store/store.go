// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config of Open. The zero value works.
type Config struct {
	// Capacity limits the footprint of all allocations together, in bytes. 0: only the disk is the
	// limit.
	Capacity uint64
	// LockWait bounds how long a metadata transaction waits for other processes. 0: 10 seconds.
	LockWait time.Duration
	// MustExist makes Open fail with fs.ErrNotExist where there is no store, instead of making one.
	MustExist bool
	// ReadOnly opens the store for reading even if it could be written. Nothing in it is changed.
	ReadOnly bool
	// Notice is called with damage and what was done about it. mended: this process has repaired
	// it, so no other process finds it; otherwise each process that opens the store finds it. nil:
	// no notices.
	Notice func(text string, mended bool)
	// Boot replaces the kernel's boot ID in tests. Zero: ask the kernel.
	Boot ID
	// Step, if set, is called at each numbered step of the protocols in nam/README.md. Tests end
	// the process there. It must not call the store.
	Step func(name string)
	// System, if set, makes each call of the operating system, or returns an error instead. For
	// tests.
	System func(op, path string, off, n int, call func() error) error
}

const (
	layoutVersion  = "2"
	layoutVersion1 = "1"
	lockName       = "lock"
	metaName       = "meta.db"
	metaTemp       = "meta.db.new"
	metaDamaged    = "meta.db.damaged"
	allocDir       = "alloc"
	suffix         = ".seg"
)

var (
	bucketLayout  = []byte("layout")
	bucketEntries = []byte("records") // id → record
	bucketNames   = []byte("names")   // name → id, of allocations that are creating or ready
	keyVersion    = []byte("version")
)

// Store is an open store directory.
type Store struct {
	// constant after construction
	dir      string
	cfg      Config
	identity [2]uint64 // device and inode of the lock file
	boot     ID        // ID of the machine's current boot; zero: not known
	// Why the store can only be read; nil: it can be written. Constant once Open has returned.
	readOnly error

	mu      sync.Mutex
	lock    *os.File              // guarded by mu; nil when closed and unused
	closing bool                  // guarded by mu; Close was called
	handles map[handleKey]*Handle // guarded by mu; the mappings of this process

	settling int      // guarded by mu; running calls of settle, which need the lock
	metaFile *os.File // guarded by mu; the database's file during a transaction
}

// Open opens or makes the store in dir, and reclaims what dead processes left. A store that this
// process cannot write is opened for reading.
func Open(dir string, cfg Config) (*Store, error) {
	s, err := newStore(dir, cfg)
	if err != nil {
		return nil, err
	}
	if cfg.ReadOnly {
		return s.openForReading(errors.New("Config.ReadOnly is set"))
	}
	werr := s.openForWriting()
	if werr == nil {
		return s, nil
	}
	s.closeLock()
	if !errors.Is(werr, ErrAccess) && !errors.Is(werr, ErrNoSpace) {
		return nil, werr
	}
	r, err := s.openForReading(werr)
	if err == nil {
		s.notice("%s cannot be written (%v): it is open for reading only", s.dir, werr)
		return r, nil
	}
	if s.hasFiles() && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion)) {
		return nil, fmt.Errorf("%w; and it cannot be written: %w", err, werr)
	}
	return nil, werr
}

// newStore checks the arguments of Open and Repair.
func newStore(dir string, cfg Config) (*Store, error) {
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
	cfg.LockWait = cmp.Or(cfg.LockWait, 10*time.Second)
	if cfg.LockWait < 0 {
		return nil, fmt.Errorf("LockWait %v: must not be negative", cfg.LockWait)
	}
	s := &Store{dir: dir, cfg: cfg, boot: cfg.Boot, handles: make(map[handleKey]*Handle)}
	if s.boot == (ID{}) {
		s.boot, _ = bootID()
	}
	if cfg.MustExist || cfg.ReadOnly {
		// The metadata file appears last, complete. Without it there is no store, unless there are
		// files of windows.
		if _, err := os.Lstat(s.metaPath()); errors.Is(err, fs.ErrNotExist) && !s.hasFiles() {
			return nil, fmt.Errorf("there is no store in this directory: %w", fs.ErrNotExist)
		}
	}
	return s, nil
}

func (s *Store) openForWriting() error {
	if err := s.mkdirAll(s.allocPath()); err != nil {
		return accessError(fmt.Errorf("store directory: %w", err))
	}
	if err := s.openLock(os.O_RDWR | os.O_CREATE); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var oneMeta bool
	if err := s.locked(true, func() (err error) {
		oneMeta, err = s.prepareMeta()
		return err
	}); err != nil {
		return err
	}
	// Another process may hold the lock in between. It does no more than this process may do.
	return s.updateLocked(func(tx *txn) error { return s.recoverLocked(tx, oneMeta) })
}

// openForReading opens a store for reading only; why is the reason.
func (s *Store) openForReading(why error) (*Store, error) {
	s.readOnly = why
	err := s.openLock(os.O_RDONLY)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil { // a copy on a read-only medium: there are no writers to exclude
		if s.identity, err = identityOfDir(s.dir); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	err = s.locked(false, func() error {
		m, err := s.inspectMeta()
		switch {
		case err != nil:
			return err
		case m.missing || m.damaged != nil:
			return s.unusable(m)
		case m.oneMeta:
			s.notice("%s: one of its two meta pages is damaged: what the last transaction did may be missing", s.metaPath())
		}
		return nil
	})
	if err == nil {
		err = s.viewLocked(func(tx *txn) error {
			_, err := tx.entries()
			return err
		})
	}
	s.mu.Unlock()
	if err != nil {
		s.closeLock()
		return nil, err
	}
	return s, nil
}

func (s *Store) openLock(flags int) error {
	path := filepath.Join(s.dir, lockName)
	f, err := s.open(path, flags|openSafely, 0o600)
	if err != nil {
		return accessError(fmt.Errorf("store directory: %w", err))
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file (%v)", ErrCorrupt, path, st.Mode())
	}
	if err == nil {
		s.identity, err = identityOf(f)
	}
	if err != nil {
		f.Close()
		return err
	}
	s.lock = f
	return nil
}

func (s *Store) closeLock() error {
	if s.lock == nil {
		return nil
	}
	err := s.close(s.lock)
	s.lock = nil
	return err
}

// notice reports what every process finds that opens the store.
func (s *Store) notice(format string, args ...any) { s.report(false, format, args) }

// mended reports a repair, which no other process will find.
func (s *Store) mended(format string, args ...any) { s.report(true, format, args) }

func (s *Store) report(mended bool, format string, args []any) {
	if s.cfg.Notice != nil {
		s.cfg.Notice(fmt.Sprintf(format, args...), mended)
	}
}

// ReadOnly returns why the store can only be read; nil: it can be written.
func (s *Store) ReadOnly() error { return s.readOnly }

// Dir is the absolute path of the store's directory.
func (s *Store) Dir() string { return s.dir }

// Identity is the same for stores of one machine if and only if they are one directory, whatever
// path they were opened by.
func (s *Store) Identity() [2]uint64 { return s.identity }

// Close closes the store. Mappings that are still in use stay until their last Release.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.closing = true
	return s.closedLocked() // or the last Release does it, which may still have to reclaim
}

// Status is an entry, and what the header of its first file says.
type Status struct {
	*Entry
	Epochs   uint64 // fences of the creating group that are complete
	Vouched  uint64 // epochs that are certainly on the disk, if Unsynced; otherwise Epochs
	Unsynced bool   // the machine stopped before the window was on the disk
	Problem  error  // why the window cannot be used; nil: it can
}

// List returns all allocations by name, including those in state creating or deleting.
func (s *Store) List() ([]Status, error) {
	var all []Status
	err := s.view(func(tx *txn) error {
		ents, err := tx.entries()
		for _, ent := range ents {
			all = append(all, s.status(ent))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Status) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// Stat returns the allocation of a window.
func (s *Store) Stat(name string) (Status, error) {
	return s.find(func(tx *txn) (*Entry, error) { return tx.byName(name) })
}

// StatID is Stat by ID.
func (s *Store) StatID(id ID) (Status, error) {
	return s.find(func(tx *txn) (*Entry, error) { return tx.byID(id) })
}

func (s *Store) find(get func(*txn) (*Entry, error)) (e Status, err error) {
	err = s.view(func(tx *txn) error {
		ent, err := get(tx)
		if err == nil {
			e = s.status(ent)
		}
		return err
	})
	return e, err
}

// status adds to an entry what the header says, and whether the files exist.
func (s *Store) status(ent *Entry) Status {
	e := Status{Entry: ent}
	if ent.State != Ready {
		return e
	}
	h, err := s.header(ent)
	if err != nil {
		e.Problem = err
		return e
	}
	e.Epochs, e.Vouched, e.Unsynced = h.epochs, h.epochs, s.unsynced(ent, h)
	if e.Unsynced {
		e.Vouched = h.vouched
	}
	if h.badEpochs {
		e.Problem = badEpochs(ent)
	}
	for i := 1; i < len(ent.Files) && e.Problem == nil; i++ {
		st, err := os.Lstat(s.path(ent.Files[i].ID))
		if err != nil || !st.Mode().IsRegular() || uint64(st.Size()) < fileSize(ent.Files[i].Bytes) {
			e.Problem = fmt.Errorf("%w: %q: file %v is missing or too short", ErrGone, ent.Name, ent.Files[i].ID)
		}
	}
	return e
}

func (s *Store) step(name string) {
	if s.cfg.Step != nil {
		s.cfg.Step(name)
	}
}

// reached calls step if err is nil, and returns err.
func (s *Store) reached(name string, err error) error {
	if err == nil {
		s.step(name)
	}
	return err
}
