// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Open and Repair check their arguments before they make anything.
func TestOpenArguments(t *testing.T) {
	dir := filepath.Join(memDir(t), "s")
	for _, row := range []struct {
		dir   string
		cfg   Config
		is    error
		wants string
	}{
		{"", Config{}, nil, "store directory: empty path"},
		{dir, Config{LockWait: -1}, nil, "LockWait -1ns: must not be negative"},
		{dir, Config{MustExist: true}, fs.ErrNotExist, "there is no store in this directory"},
		{dir, Config{ReadOnly: true}, fs.ErrNotExist, "there is no store in this directory"},
	} {
		for name, call := range map[string]func() error{
			"open":   func() error { _, err := Open(row.dir, row.cfg); return err },
			"repair": func() error { _, err := Repair(row.dir, row.cfg); return err },
		} {
			err := call()
			require.ErrorContains(t, err, row.wants, name)
			require.True(t, row.is == nil || errors.Is(err, row.is))
			require.NoDirExists(t, dir)
		}
	}
	empty := memDir(t)
	_, err := Repair(empty, Config{})
	require.ErrorContains(t, err, "there is no store in this directory")
	entries, err := os.ReadDir(empty)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing was made")
	wd, err := os.Getwd()
	require.NoError(t, err)
	s, err := Open(dir, Config{Capacity: 7 * headerSize})
	require.NoError(t, err)
	rel, err := filepath.Rel(wd, dir)
	require.NoError(t, err)
	other, err := Open(rel, Config{LockWait: 1})
	require.NoError(t, err)
	require.Equal(t, dir, other.Dir())
	require.Equal(t, s.Identity(), other.Identity())
	require.NotEqual(t, [2]uint64{}, s.Identity())
	require.EqualValues(t, 7*headerSize, s.cfg.Capacity)
	require.EqualValues(t, 0, other.cfg.Capacity)
	require.Equal(t, 10*time.Second, s.cfg.LockWait)
	require.EqualValues(t, 1, other.cfg.LockWait)
	require.NoError(t, other.Close())
	require.NoError(t, s.Close())
	for path, mode := range map[string]fs.FileMode{".": 0o700, allocDir: 0o700, lockName: 0o600, metaName: 0o600} {
		st, err := os.Stat(filepath.Join(dir, path))
		require.NoError(t, err)
		require.Equal(t, mode, st.Mode().Perm(), path)
	}
	require.NoFileExists(t, filepath.Join(dir, metaTemp))
	require.NoError(t, os.Remove(filepath.Join(dir, metaName)))
	_, err = Open(dir, Config{MustExist: true})
	require.ErrorIs(t, err, fs.ErrNotExist, "nothing in it says that it is one")
}

// A store that cannot be written, for lack of rights or of space, is opened for reading, and the
// cause is reported. With any other cause Open fails. No file of the failed attempt stays open.
func TestStoreThatCannotBeWritten(t *testing.T) {
	for why, opens := range map[error]bool{syscall.EACCES: true, syscall.EROFS: true, syscall.EPERM: true, syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EIO: false} {
		for _, op := range []string{"open", "commit"} {
			if op == "open" && (why == syscall.ENOSPC || why == syscall.EDQUOT) || op == "commit" && (why == syscall.EACCES || why == syscall.EPERM || why == syscall.EROFS) {
				continue // such a call does not return this error
			}
			dir := makeWorld(t, nil)
			s, err := Open(dir, Config{Boot: testBoot})
			require.NoError(t, err)
			c, err := s.Create(oneRegion("half", 8))
			require.NoError(t, err)
			c.first.Close() // its creator dies: there is something to commit
			require.NoError(t, s.Close())
			failed := false
			var said notices
			s, err = Open(dir, Config{Boot: testBoot, Notice: said.add, System: func(o, path string, _, _ int, call func() error) error {
				if o == op && !failed && (op == "commit" || filepath.Base(path) == lockName) {
					failed = true
					return &fs.PathError{Op: o, Path: path, Err: why}
				}
				return call()
			}})
			require.True(t, failed)
			if !opens {
				require.ErrorIs(t, err, why)
				require.Empty(t, left(dir))
				require.Empty(t, said.String())
				continue
			}
			require.NoError(t, err, "%s: %v", op, why)
			require.ErrorIs(t, s.ReadOnly(), why)
			require.Contains(t, said.String(), dir+" cannot be written (")
			require.Contains(t, said.String(), "it is open for reading only")
			requireWhole(t, s)
			_, err = s.Create(oneRegion("new", 1))
			require.ErrorIs(t, err, ErrAccess)
			require.NoError(t, s.Close())
			require.Empty(t, left(dir))
		}
	}
}

// If there is no store and none can be made, the error is the cause, and not damage.
func TestNoStoreAndNoRights(t *testing.T) {
	dir := filepath.Join(memDir(t), "s")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, allocDir), 0o700))
	_, err := Open(dir, Config{System: func(op, path string, _, _ int, call func() error) error {
		if filepath.Base(path) == metaTemp {
			return &fs.PathError{Op: op, Path: path, Err: syscall.EACCES}
		}
		return call()
	}})
	require.ErrorIs(t, err, ErrAccess)
	require.NotErrorIs(t, err, ErrCorrupt)
	require.Empty(t, left(dir))
}

// A store opened for reading reports damaged entries, like one opened for writing.
func TestReadOnlyStoreOfDamagedEntries(t *testing.T) {
	dir := makeWorld(t, nil)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	id := mustStat(s, "raw0").ID
	require.NoError(t, s.update(func(tx *txn) error {
		tx.dirty = true
		return tx.tx.Bucket(bucketEntries).Put(id[:], []byte("damaged"))
	}))
	require.NoError(t, s.Close())
	_, err = Open(dir, Config{Boot: testBoot, ReadOnly: true})
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, fmt.Sprintf("database entry %x: ", id[:]))
	require.Empty(t, left(dir))
}

// The lock of a store is held as long as the store is open, also after its first user has left. A
// store that is closed while a window is in use holds it until the window is released.
func TestLockStaysWithTheStore(t *testing.T) {
	s, err := Open(memDir(t), Config{LockWait: time.Millisecond})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 8))
	require.NoError(t, err)
	require.NoError(t, h.Release())
	f, err := os.Open(filepath.Join(s.Dir(), lockName))
	require.NoError(t, err)
	for _, exclusive := range []bool{true, false} {
		ok, err := tryLock(f, exclusive)
		require.True(t, ok && err == nil)
		_, err = s.List()
		require.Equal(t, exclusive, errors.Is(err, ErrBusy), "%v", err)
		err = s.Remove("w")
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorContains(t, err, "was not free for 1ms")
		require.NoError(t, unlock(f))
		ok, err = tryLock(f, true)
		require.True(t, ok && err == nil, "a call that has failed holds it")
		require.NoError(t, unlock(f))
	}
	require.NoError(t, f.Close())
	h, err = s.Attach("w", false, false)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NotEmpty(t, left(s.Dir()))
	_, err = s.Attach("w", false, false)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, h.Release())
	require.Empty(t, left(s.Dir()))
	require.ErrorIs(t, s.Close(), ErrClosed)
}

// A later file of a window is damaged if it is no regular file, whatever its size, or if it is one
// byte too short.
func TestStatusChecksAllFiles(t *testing.T) {
	for name, row := range map[string]struct {
		put    func(path string) error
		wrong  bool
		itsOwn bool
	}{
		"as it is": {func(string) error { return nil }, false, true},
		"longer":   {func(p string) error { return os.Truncate(p, 2*headerSize) }, false, true},
		"shorter":  {func(p string) error { return os.Truncate(p, headerSize-1) }, true, true},
		"gone":     {func(string) error { return nil }, true, false},
		"a directory that is as large": {func(p string) error {
			err := os.Mkdir(p, 0o700)
			for i := range 300 {
				err = errors.Join(err, os.WriteFile(filepath.Join(p, fmt.Sprint("a file with a long name", i)), nil, 0o600))
			}
			return err
		}, true, false},
	} {
		s := newTestStore(t, Config{})
		h, err := makeWindow(s, Request{Name: "w", Structure: 3, Files: []uint64{8, 0, 0}, Regions: []Region{{Size: 8, Unit: 1}}})
		require.NoError(t, err)
		require.NoError(t, h.Release())
		path := s.path(h.entry.Files[2].ID)
		if !row.itsOwn {
			require.NoError(t, os.Remove(path))
		}
		require.NoError(t, row.put(path))
		e := mustStat(s, "w")
		require.Equal(t, row.wrong, e.Problem != nil, "%s: %v", name, e.Problem)
		if row.wrong {
			require.ErrorIs(t, e.Problem, ErrGone)
			require.ErrorContains(t, e.Problem, `"w": file `+h.entry.Files[2].ID.String()+" is missing or too short")
		}
	}
}

// A file of another window is never accepted, whatever the two files have in common.
func TestFilesOfOtherWindows(t *testing.T) {
	s := newTestStore(t, Config{})
	var ents []*Entry
	for _, name := range []string{"a", "b"} {
		h, err := makeWindow(s, slotted(name))
		require.NoError(t, err)
		ents = append(ents, h.entry)
		require.NoError(t, h.Release())
	}
	swap := func(a, b ID) {
		temp := filepath.Join(s.Dir(), "temp")
		require.NoError(t, errors.Join(os.Rename(s.path(a), temp), os.Rename(s.path(b), s.path(a)), os.Rename(temp, s.path(b))))
	}
	for name, pair := range map[string][2]ID{"the other file of the window": {ents[0].ID, ents[0].Files[1].ID}, "another window's": {ents[0].Files[1].ID, ents[1].Files[1].ID},
		"another window's first": {ents[0].ID, ents[1].ID}} {
		swap(pair[0], pair[1])
		for _, readOnly := range []bool{true, false} {
			_, err := s.Attach("a", readOnly, false)
			require.ErrorIs(t, err, ErrCorrupt, name)
			require.ErrorContains(t, err, "describes another file", name)
		}
		swap(pair[0], pair[1])
	}
	// The entry is of another size.
	require.NoError(t, s.update(func(tx *txn) error {
		ent, err := tx.byName("a")
		require.NoError(t, err)
		ent.Files[1].Bytes -= headerSize
		ent.Regions[1].Size -= headerSize
		return tx.put(ent)
	}))
	_, err := s.Attach("a", true, false)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "describes another file")
	h, err := s.Attach("b", false, false)
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

// The error of a window that does not fit says how much space there is, and names windows that are
// set aside if there are any. A refused call examines no files of other windows, and leaves none.
func TestCapacityIsNamed(t *testing.T) {
	dir := memDir(t)
	for n := range 3 {
		s, err := Open(dir, Config{Capacity: uint64(2*n+3) * headerSize})
		require.NoError(t, err)
		h, err := makeWindow(s, oneRegion("w", 8))
		require.NoError(t, err)
		require.NoError(t, h.Release())
		before := segments(t, dir)
		_, err = s.Create(oneRegion("x", 8))
		require.ErrorIs(t, err, ErrNoSpace)
		text := fmt.Sprintf("8192 bytes asked for, %d of the store's capacity of %d are in use by 1 windows", (2*n+2)*headerSize, (2*n+3)*headerSize)
		require.ErrorContains(t, err, text)
		require.Equal(t, n > 0, strings.HasSuffix(err.Error(), fmt.Sprintf(" and %d that are set aside", n)), "%v", err)
		_, err = s.Create(oneRegion("w", 8))
		require.ErrorIs(t, err, ErrExist)
		require.Equal(t, before, segments(t, dir))
		c, err := s.Create(oneRegion("y", 0)) // one page: all the remaining space
		require.NoError(t, err)
		require.NoError(t, c.Abort())
		require.NoError(t, s.Close())
		emptyDatabase(t, dir)
	}
}

// Abort removes the window and its name, also after the commit. A user that has it attached can
// still use it.
func TestAbortAfterCommit(t *testing.T) {
	s := newTestStore(t, Config{})
	for _, volatile := range []bool{false, true} {
		req := oneRegion("w", 8)
		req.Volatile = volatile
		c, err := s.Create(req)
		require.NoError(t, err)
		require.NoError(t, c.Reserve(0))
		h, err := s.AttachID(c.entry.ID, false, false)
		require.NoError(t, err)
		require.NoError(t, c.Commit())
		require.Equal(t, Ready, mustStat(s, "w").State)
		require.NoError(t, c.Abort())
		_, err = s.Stat("w")
		require.ErrorIs(t, err, ErrName)
		h.Region(0)[0] = 1
		require.NoError(t, h.Release())
		requireSound(t, s)
		require.NoError(t, c.Abort(), "twice")
	}
}

// When the capacity is short, or the name is taken, Create reclaims what dead processes left.
func TestReclaimedWhenShort(t *testing.T) {
	for _, short := range []string{"capacity", "name"} {
		cfg := Config{Boot: testBoot}
		name := "half"
		if short == "capacity" {
			cfg.Capacity, name = 4*headerSize, "new"
		}
		fails := false
		cfg.System = func(op, path string, _, _ int, call func() error) error {
			if fails && op == "remove" {
				return syscall.EIO
			}
			return call()
		}
		s, err := Open(memDir(t), cfg)
		require.NoError(t, err)
		c, err := s.Create(oneRegion("half", headerSize+1))
		require.NoError(t, err)
		_, err = s.Create(oneRegion(name, headerSize+1))
		require.ErrorIs(t, err, map[string]error{"capacity": ErrNoSpace, "name": ErrExist}[short], "its creator lives")
		if short == "name" {
			require.ErrorContains(t, err, `"half" (creating, made `)
		}
		require.NoError(t, c.first.Close()) // its creator dies
		fails = true
		_, err = s.Create(oneRegion(name, headerSize+1))
		require.ErrorIs(t, err, syscall.EIO)
		fails = false
		h, err := makeWindow(s, oneRegion(name, headerSize+1))
		require.NoError(t, err)
		require.NoError(t, h.Release())
		require.NoError(t, s.Close())
		if short == "name" {
			// Its name was removed before the failure: the next Open does the rest.
			s, err = Open(s.Dir(), cfg)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
		s, err = Open(s.Dir(), Config{Boot: testBoot, ReadOnly: true})
		require.NoError(t, err)
		require.NoFileExists(t, s.path(c.entry.ID))
		requireSound(t, s)
		require.NoError(t, s.Close())
	}
}

// An interrupted upgrade writes only the remaining headers.
func TestUpgradeContinues(t *testing.T) {
	start := layout1(t)
	done := func(all []string) (n int) {
		for _, step := range all {
			if strings.HasPrefix(step, "header:written#") {
				n++
			}
		}
		return n
	}
	files := done(steps(t, "recover", copyStore(t, start)))
	require.Equal(t, 7, files)
	for step, left := range map[string]int{"header:written#1": files - 1, "header:synced#3": files - 3, "header:synced#7": 0, "upgrade:committing#1": 0, "upgrade:done#1": 0} {
		dir := copyStore(t, start)
		requireKilled(t, "recover", dir, step)
		require.Equal(t, left, done(steps(t, "recover", dir)), step)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		requireSound(t, s)
		require.NoError(t, s.Close())
	}
}

// Repair restores the youngest of several windows with one name, and volatile windows in use. It
// does not restore removed windows, leftovers, and orphans without a name.
func TestRepairedWindows(t *testing.T) {
	dir := memDir(t)
	var youngest ID
	at := func(s *Store, ent *Entry, created time.Time) {
		c := *ent
		c.Created = created
		require.NoError(t, s.rewriteHeader(&c))
	}
	now := time.Now()
	for i, age := range []time.Duration{time.Hour, time.Minute, time.Second * 90} {
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		h, err := makeWindow(s, oneRegion("w", 64))
		require.NoError(t, err)
		require.NoError(t, h.Release())
		at(s, h.entry, now.Add(-age))
		if i == 1 {
			youngest = h.entry.ID
		}
		require.NoError(t, s.Close())
		emptyDatabase(t, dir)
	}
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	volatile := oneRegion("volatile", 64)
	volatile.Volatile = true
	vol, err := makeWindow(s, volatile)
	require.NoError(t, err)
	removed, err := makeWindow(s, oneRegion("removed", 64))
	require.NoError(t, err)
	require.NoError(t, s.Remove("removed"))
	c, err := s.Create(oneRegion("half", 64))
	require.NoError(t, err)
	require.NoError(t, c.first.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), []byte("damaged"), 0o600))
	ents, err := Repair(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	got := map[string]ID{}
	for _, ent := range ents {
		got[ent.Name] = ent.ID
		require.Equal(t, Ready, ent.State)
		require.Equal(t, ent.Name == "volatile", ent.Volatile)
	}
	require.Equal(t, map[string]ID{"w": youngest, "volatile": vol.entry.ID}, got)
	require.Equal(t, "damaged", string(readAll(t, filepath.Join(dir, metaDamaged))))
	require.NoError(t, vol.Release())
	require.NoError(t, removed.Release())
	require.NoError(t, s.Close())
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	list, err := s.List()
	require.NoError(t, err)
	require.Len(t, list, 1)
	asides, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, asides, 2)
	require.NoFileExists(t, s.path(c.entry.ID))
	require.NoError(t, s.Close())

	// A second repair keeps the database that is damaged now.
	require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), []byte("again"), 0o600))
	ents, err = Repair(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	require.Len(t, ents, 1)
	require.Equal(t, "again", string(readAll(t, filepath.Join(dir, metaDamaged))))
	require.Empty(t, left(dir))
}

// An entry that is older than the header of its file takes over what the header says. Other entries
// stay.
func TestEntriesOlderThanFiles(t *testing.T) {
	var said []string
	s := newTestStore(t, Config{Notice: func(text string, _ bool) { said = append(said, text) }})
	for i, row := range []struct {
		state        State
		volatile     bool
		flags        uint32 // of the header
		wantState    State
		wantVolatile bool
		wantFlags    uint32
	}{
		// no process has ever attached to it
		{Creating, false, headDoomed, Creating, false, headDoomed},
		{Creating, true, headDoomed | headVolatile, Creating, true, headDoomed | headVolatile},
		{Ready, false, headDoomed, Deleting, false, headDoomed},
		{Deleting, false, headDoomed, Deleting, false, headDoomed},
		{Deleting, true, 0, Deleting, true, 0},
		{Creating, false, 0, Ready, false, 0},
		{Creating, true, 0, Ready, false, 0},
		{Creating, true, headVolatile, Creating, true, headVolatile},
		{Creating, false, headVolatile, Creating, false, headVolatile},
		{Ready, true, 0, Ready, false, 0},
		{Ready, true, headVolatile, Ready, true, headVolatile},
		{Ready, false, headVolatile, Ready, false, 0},
		{Ready, false, 0, Ready, false, 0},
	} {
		name := fmt.Sprintf("w%d", i)
		h, err := makeWindow(s, oneRegion(name, 8))
		require.NoError(t, err)
		require.NoError(t, h.Release())
		said = nil
		require.NoError(t, s.update(func(tx *txn) error {
			ent, err := tx.byName(name)
			require.NoError(t, err)
			require.NoError(t, s.setFlags(ent, row.flags, headFlags))
			ent.State, ent.Volatile = row.state, row.volatile
			require.NoError(t, s.reconcile(tx, ent))
			require.Equal(t, []any{row.wantState, row.wantVolatile}, []any{ent.State, ent.Volatile}, "%+v", row)
			head, err := s.header(ent)
			require.NoError(t, err)
			require.Equal(t, row.wantFlags, head.flags, "%+v", row)
			changed := row.state != row.wantState || row.volatile != row.wantVolatile
			require.Equal(t, changed, len(said) == 1, "%+v: %q", row, said)
			if changed {
				require.Contains(t, said[0], "is older than its file, which says that it is "+row.wantState.String())
			}
			require.NoError(t, s.setFlags(ent, 0, headFlags))
			ent.State, ent.Volatile = Ready, false
			return tx.put(ent)
		}))
		require.NoError(t, s.Doom(mustStat(s, name).ID))
	}
}

// The first problem of a window is reported: that of the header, then those of the files in their
// order.
func TestFirstProblem(t *testing.T) {
	s := newTestStore(t, Config{})
	h, err := makeWindow(s, Request{Name: "w", Structure: 3, Files: []uint64{8, 0, 0}, Regions: []Region{{Size: 8, Unit: 1}}})
	require.NoError(t, err)
	require.NoError(t, h.Release())
	for i := 2; i > 0; i-- {
		require.NoError(t, os.Remove(s.path(h.entry.Files[i].ID)))
		e := mustStat(s, "w")
		require.ErrorIs(t, e.Problem, ErrGone)
		require.ErrorContains(t, e.Problem, h.entry.Files[i].ID.String())
	}
	f, err := os.OpenFile(s.path(h.entry.ID), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, packCount(7, ID{9})), offEpochs)
	require.NoError(t, errors.Join(err, f.Close()))
	require.ErrorIs(t, mustStat(s, "w").Problem, ErrCorrupt)
}
