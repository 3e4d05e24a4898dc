// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"weft/comm"
	"weft/internal/env"
	"weft/nam/internal/store"
)

// Config of Open. The zero value works.
type Config struct {
	// Capacity limits all windows of the store together, in bytes, counted in whole pages with one
	// page for each allocation's header. 0: only the disk is the limit. It limits what this Store
	// allocates, not other Stores of the same directory.
	Capacity int64
	// LockWait is how long a call waits while other processes change the store's metadata. 0: 10
	// seconds.
	LockWait time.Duration
	// MustExist makes Open fail with fs.ErrNotExist if there is no store, instead of making one.
	MustExist bool
	// ReadOnly opens a store for List, Stat, SetAside and Attach with ReadOnly, and changes nothing
	// in it. A store that this process cannot write is opened in the same way without this option.
	// The store must exist.
	ReadOnly bool
	// Logger gets what is wrong with the store and what was done about it: damage that was
	// repaired, windows that are set aside, a store that cannot be written. nil: standard error. Of
	// the ranks of a launched job, one logs each message.
	Logger *slog.Logger

	step func(string) // tests end the process here
	boot string       // for tests: replaces the ID of the machine's current boot, 16 bytes
	// Tests intercept the store's calls of the operating system here.
	system func(op, path string, off, n int, call func() error) error
}

func (c *Config) internal(dir string) store.Config {
	k := store.Config{Capacity: uint64(c.Capacity), LockWait: c.LockWait, MustExist: c.MustExist, ReadOnly: c.ReadOnly, Step: c.step, System: c.system}
	copy(k.Boot[:], c.boot)
	k.Notice = func(text string, mended bool) {
		// All ranks find damage that stays; only the first rank finds damage that it repairs.
		if rank, _, launched, _ := comm.Launched(); launched && rank != 0 && !mended {
			return
		}
		if c.Logger != nil {
			c.Logger.Warn(text, "store", dir)
		} else {
			fmt.Fprintln(os.Stderr, "nam:", text)
		}
	}
	return k
}

// Store is an open store of network-attached memory: the manager, embedded in this process. Any
// goroutine may call any method. Several processes may have the same directory open.
type Store struct {
	st *store.Store // constant after construction
}

// Open opens the store in dir, or makes it. An empty dir is DefaultDir. A default directory that
// $WEFT_NAM_DIR does not name is refused (ErrAccess) if another user made it or may write it.
//
// Open reclaims what dead processes left: windows that were being made or removed, and volatile
// ones. Files without a database entry are set aside: see SetAside. A store that cannot be written
// is opened for reading only: see ReadOnly. Errors: ErrAccess, ErrCorrupt, ErrVersion, ErrBusy,
// ErrNoSpace.
func Open(dir string, cfg Config) (*Store, error) {
	if dir == "" {
		dir = DefaultDir()
		if err := checkDefaultDir(!cfg.MustExist && !cfg.ReadOnly); err != nil {
			return nil, fail("open", dir, err)
		}
	}
	if cfg.Capacity < 0 {
		return nil, fail("open", dir, fmt.Errorf("%w: capacity %d; it must be 0 (no limit) or more", ErrSize, cfg.Capacity))
	}
	st, err := store.Open(dir, cfg.internal(dir))
	if err != nil {
		return nil, fail("open", dir, err)
	}
	return &Store{st: st}, nil
}

// Dir is the absolute path of the store's directory.
func (s *Store) Dir() string { return s.st.Dir() }

// ReadOnly returns why the store is open for reading only; nil: it can be written.
func (s *Store) ReadOnly() error { return s.st.ReadOnly() }

// Close closes the store. Windows that are still in use work until they are freed.
func (s *Store) Close() error {
	return fail("close", s.Dir(), s.st.Close())
}

// RegionInfo describes a region of an allocation.
type RegionInfo struct {
	Size          int64         `json:"size"` // bytes
	Unit          int           `json:"unit"` // bytes per displacement
	Manifestation Manifestation `json:"manifestation"`
}

// Allocation describes a window in the store.
type Allocation struct {
	Name string `json:"name"`
	ID   string `json:"id"` // of its first file
	// one of creating, ready, deleting, unsynced, damaged, set aside
	State       string      `json:"state"`
	Structure   Structure   `json:"structure"`
	Consistency Consistency `json:"consistency"`
	Sync        Sync        `json:"sync"`
	Bytes       int64       `json:"bytes"`     // sum of the regions
	Footprint   int64       `json:"footprint"` // its part of the capacity
	Epochs      uint64      `json:"epochs"`    // completed fences of the group that made it
	// epochs that are certainly there: fewer than Epochs only if the window is unsynced
	Vouched uint64       `json:"vouched"`
	Mode    fs.FileMode  `json:"mode"`
	UID     int          `json:"uid"`
	GID     int          `json:"gid"`
	Created time.Time    `json:"created"`
	Creator string       `json:"creator"` // program, process and host
	Regions []RegionInfo `json:"regions"` // by rank of the group that made it
	// why the window cannot be used, if it is damaged or may not be read; why it cannot be
	// restored, if it is set aside
	Problem string `json:"problem,omitempty"`
}

// MarshalText gives the string forms in JSON.
func (m Manifestation) MarshalText() ([]byte, error) { return []byte(m.String()), nil }
func (c Consistency) MarshalText() ([]byte, error)   { return []byte(c.String()), nil }
func (s Structure) MarshalText() ([]byte, error)     { return []byte(s.String()), nil }
func (s Sync) MarshalText() ([]byte, error)          { return []byte(s.String()), nil }

func consistencyOf(volatile bool) Consistency {
	if volatile {
		return Volatile
	}
	return Persistent
}

func syncOf(ent *store.Entry) Sync {
	if ent.SyncEpoch {
		return SyncEpoch
	}
	return SyncProcess
}

func describe(e store.Status) *Allocation {
	a := &Allocation{
		Name: e.Name, ID: e.ID.String(), State: e.State.String(), Structure: Structure(e.Structure), Consistency: consistencyOf(e.Volatile),
		Sync: syncOf(e.Entry), Bytes: int64(e.Bytes()), Footprint: int64(e.Footprint()), Epochs: e.Epochs, Vouched: e.Vouched, Mode: e.Mode,
		UID: int(e.UID), GID: int(e.GID), Created: e.Created, Creator: e.Creator,
	}
	switch {
	case errors.Is(e.Problem, ErrAccess):
		// It belongs to another user. Nothing is known to be wrong with it.
		a.Problem = e.Problem.Error()
	case e.Problem != nil:
		a.State, a.Problem = "damaged", e.Problem.Error()
	case e.Unsynced:
		a.State = "unsynced"
	}
	for _, g := range e.Regions {
		a.Regions = append(a.Regions, RegionInfo{Size: int64(g.Size), Unit: int(g.Unit), Manifestation: Manifestation(g.Manifestation)})
	}
	return a
}

// List describes all windows of the store by name, including those that are being made or removed.
func (s *Store) List() ([]*Allocation, error) {
	entries, err := s.st.List()
	if err != nil {
		return nil, fail("list", s.Dir(), err)
	}
	all := make([]*Allocation, 0, len(entries))
	for _, e := range entries {
		all = append(all, describe(e))
	}
	return all, nil
}

// Stat describes a window. Errors: ErrName.
func (s *Store) Stat(name string) (*Allocation, error) {
	e, err := s.st.Stat(name)
	if err != nil {
		return nil, fail("stat", name, s.hint(err, name))
	}
	return describe(e), nil
}

// Remove removes a window's name at once. The memory is released when its last user frees it or
// dies. Errors: ErrName, ErrAccess, ErrBusy if the window is being made.
func (s *Store) Remove(name string) error {
	return fail("remove", name, s.hint(s.st.Remove(name), name))
}

// CheckName returns what is wrong with a name for a window. Legal names have 1 to 255 bytes of
// UTF-8, without blanks and control characters. Allocate and Restore refuse other names with
// ErrSize.
func CheckName(name string) error { return store.CheckName(name) }

// EnvDir is the environment variable that names the default store directory.
const EnvDir = "WEFT_NAM_DIR"

// DefaultDir is the directory that Open("") opens: $WEFT_NAM_DIR, or else weft/nam in the user's
// cache directory, or else, for a user without one, a directory of that user in the system's
// directory for temporary files.
func DefaultDir() string {
	if dir := env.NamDir.Text(); dir != "" {
		return dir
	}
	base, own := ownDirs()
	return filepath.Join(append([]string{base}, own...)...)
}

func init() { env.NamDir.Standard = DefaultDir }

// ownDirs is the default directory if the environment names none: base, which weft does not make,
// and the directories below it, which weft makes.
func ownDirs() (base string, own []string) {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir, []string{"weft", "nam"}
	}
	return os.TempDir(), []string{"weft-" + strconv.Itoa(os.Geteuid()), "nam"}
}

// checkDefaultDir refuses a default directory that another user has made or may change. The user
// has not named it, and everybody can guess its name in the directory for temporary files: another
// user that makes it first would read and change the data of this user's programs. With makeIt it
// makes missing directories, one after the other: MkdirAll would follow a symbolic link of another
// user.
func checkDefaultDir(makeIt bool) error {
	if env.NamDir.Text() != "" {
		return nil // the user has named it, and may have reasons
	}
	dir, own := ownDirs()
	if makeIt {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: %w", ErrAccess, err)
		}
	}
	for _, name := range own {
		dir = filepath.Join(dir, name)
		if makeIt {
			// An existing file, of whatever kind, is checked below. On a read-only file system Open
			// decides.
			_ = os.Mkdir(dir, 0o700)
		}
		if err := checkOwned(dir); errors.Is(err, fs.ErrNotExist) {
			return nil // nothing to check
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkOwned checks that dir is a directory of this user that no other user may write. A symbolic
// link to one is legal if it belongs to this user too.
func checkOwned(dir string) error {
	me := uint32(os.Geteuid())
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		st, err := stat(dir)
		if err != nil {
			return err
		}
		link := st.Mode()&fs.ModeSymlink != 0
		problem := ""
		switch owner, ok := store.Owner(st); {
		case ok && owner != me:
			problem = fmt.Sprintf("it belongs to user %d, and this is user %d", owner, me)
		case !link && !st.IsDir():
			problem = "it is not a directory"
		case !link && st.Mode().Perm()&0o022 != 0:
			problem = fmt.Sprintf("its mode %#o lets other users write", st.Mode().Perm())
		}
		if problem != "" {
			return fmt.Errorf("%w: the default directory %s is not safe to use: %s; name another with %s",
				ErrAccess, dir, problem, EnvDir)
		}
	}
	return nil
}
