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
	// Capacity is the limit for all windows of the store together, in bytes, counted in whole pages
	// with one page for each allocation's header. 0: only the disk is the limit. It binds what this
	// Store allocates.
	Capacity int64
	// LockWait is how long a call waits while other processes change the store's metadata. 0: 10
	// seconds.
	LockWait time.Duration
	// MustExist makes Open fail with fs.ErrNotExist where there is no store, instead of making one.
	MustExist bool
	// ReadOnly opens a store for looking and for Attach with ReadOnly, and changes nothing in it. A
	// store that this process cannot write is opened so without being asked. It must exist.
	ReadOnly bool
	// Logger is told what is wrong with the store and what was done about it: damage that was
	// mended, windows that are set aside, a store that cannot be written. nil: standard error. Of
	// the ranks of a launched job one tells of each.
	Logger *slog.Logger

	step func(string) // tests end the process here
	boot string       // tests: stands for the name of the machine's present run, 16 bytes
	// Tests stand between the store and the operating system here.
	system func(op, path string, off, n int, call func() error) error
}

func (c *Config) internal(dir string) store.Config {
	k := store.Config{Capacity: uint64(c.Capacity), LockWait: c.LockWait, MustExist: c.MustExist, ReadOnly: c.ReadOnly, Step: c.step, System: c.system}
	copy(k.Boot[:], c.boot)
	k.Notice = func(text string, mended bool) {
		// What stays as it is, all ranks find; what was mended, only the one that was first.
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
// goroutine may call any method; several processes may have the same directory open.
type Store struct {
	st *store.Store // constant after construction
}

// Open opens the store in dir, or makes it. An empty dir is DefaultDir, which is refused
// (ErrAccess) if $WEFT_NAM_DIR does not name it and another user has made it or may write it. It
// reclaims what dead processes left: windows that were being made or removed, and volatile ones.
// Files without a record are set aside: see SetAside. A store that cannot be written is opened for
// reading only: see ReadOnly. Errors: ErrAccess, ErrCorrupt, ErrVersion, ErrBusy, ErrNoSpace.
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

// ReadOnly says why the store is open for reading only; nil: it can be written.
func (s *Store) ReadOnly() error { return s.st.ReadOnly() }

// Close closes the store. Windows that are still in use go on working until they are freed.
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
	ID   string `json:"id"` // of its files
	// creating, ready, deleting; unsynced, damaged; set aside
	State       string      `json:"state"`
	Structure   Structure   `json:"structure"`
	Consistency Consistency `json:"consistency"`
	Sync        Sync        `json:"sync"`
	Bytes       int64       `json:"bytes"`     // sum of the regions
	Footprint   int64       `json:"footprint"` // what it takes of the capacity
	Epochs      uint64      `json:"epochs"`    // completed fences of the group that made it
	// those of them that are certainly there: fewer only if it is unsynced
	Vouched uint64       `json:"vouched"`
	Mode    fs.FileMode  `json:"mode"`
	UID     int          `json:"uid"`
	GID     int          `json:"gid"`
	Created time.Time    `json:"created"`
	Creator string       `json:"creator"` // program, process and host
	Regions []RegionInfo `json:"regions"` // by rank of the group that made it
	// why it cannot be used, if it is damaged or may not be read; why it cannot be restored, if it
	// is set aside
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
		// of another user, and nothing is known to be wrong with it
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

// List describes all windows of the store by name, also those that are being made or removed.
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

// Remove takes a window's name away at once; its memory goes when its last user frees it or dies.
// Errors: ErrName, ErrAccess, ErrBusy if it is being made.
func (s *Store) Remove(name string) error {
	return fail("remove", name, s.hint(s.st.Remove(name), name))
}

// CheckName says what is wrong with a name for a window: legal are 1 to 255 bytes of UTF-8, without
// blanks and control characters. Allocate and Restore refuse others with ErrSize.
func CheckName(name string) error { return store.CheckName(name) }

// EnvDir is the environment variable that names the default store directory.
const EnvDir = "WEFT_NAM_DIR"

// DefaultDir is the directory that Open("") opens: $WEFT_NAM_DIR, or else weft/nam in the user's
// cache directory, or else, for a user without one, a directory of that user in the system's place
// for temporary files.
func DefaultDir() string {
	if dir := env.NamDir.Text(); dir != "" {
		return dir
	}
	base, own := ownDirs()
	return filepath.Join(append([]string{base}, own...)...)
}

func init() { env.NamDir.Standard = DefaultDir }

// ownDirs is the default directory where the environment names none: one that weft did not make,
// and those below it that weft makes.
func ownDirs() (base string, own []string) {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir, []string{"weft", "nam"}
	}
	return os.TempDir(), []string{"weft-" + strconv.Itoa(os.Geteuid()), "nam"}
}

// checkDefaultDir refuses a default directory that another user has made or may change. Nobody has
// named it, and in the place for temporary files everybody can guess it: whoever makes it first
// would read and change what this user's programs keep. With make it makes what is missing, one
// directory after the other: MkdirAll would go through a symbolic link of somebody else's.
func checkDefaultDir(makeIt bool) error {
	if env.NamDir.Text() != "" {
		return nil // somebody has named it, and may have reasons
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
			// What exists, of whatever kind, is looked at below; a file system that cannot be
			// written is the store's affair.
			_ = os.Mkdir(dir, 0o700)
		}
		if err := checkOwned(dir); errors.Is(err, fs.ErrNotExist) {
			return nil // and so has nothing that could be wrong
		} else if err != nil {
			return err
		}
	}
	return nil
}

// checkOwned says whether dir is a directory of this user that nobody else may write. A symbolic
// link to one is fine if it is this user's too.
func checkOwned(dir string) error {
	me := uint32(os.Geteuid())
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		st, err := look(dir)
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
