// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// orphanStore makes a store with one window of three files that has no entry. open opens the store
// again.
func orphanStore(t *testing.T) (dir string, ent *Entry, open func(cfg Config) *Store) {
	t.Helper()
	dir = memDir(t)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	h, err := makeWindow(s, Request{Name: "w", Structure: 3, Files: []uint64{100, 5000, 8}, Mode: 0o640,
		Regions: []Region{{Size: 100, Unit: 1}, {Size: 5000, Unit: 1, File: 1}, {Size: 8, Unit: 1, File: 2}}})
	require.NoError(t, err)
	h.Region(0)[99] = 1
	mustRaise(h, 5)
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
	emptyDatabase(t, dir)
	return dir, h.entry, func(cfg Config) *Store {
		t.Helper()
		cfg.Boot = testBoot
		s, err := Open(dir, cfg)
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
}

// oneAside returns the only orphan that is set aside.
func oneAside(t *testing.T, s *Store) Aside {
	t.Helper()
	all, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// What happens to orphans, by their contents.
func TestOrphanFiles(t *testing.T) {
	patch := func(at int64, b ...byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			require.NoError(t, err)
			_, err = f.WriteAt(b, at)
			require.NoError(t, errors.Join(err, f.Close()))
		}
	}
	cut := func(size int64) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { require.NoError(t, os.Truncate(path, size)) }
	}
	instead := func(put func(path string) error) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { require.NoError(t, errors.Join(os.Remove(path), put(path))) }
	}
	const whole, gone = "whole", "" // it can be restored; it was removed
	for name, row := range map[string]struct {
		which  int // of the files
		damage func(t *testing.T, path string)
		wants  string // why the window cannot be restored
		is     error
		files  int // files that are left
	}{
		"nothing":            {0, func(*testing.T, string) {}, whole, nil, 3},
		"no header, data":    {0, patch(0, make([]byte, headerSize)...), "its header is lost", ErrCorrupt, 3},
		"no header, nor any": {0, cut(0), gone, nil, 0},
		"only zeros":         {0, instead(func(p string) error { return os.WriteFile(p, make([]byte, 3*headerSize), 0o600) }), gone, nil, 0},
		"being made":         {0, patch(0, []byte(headerMaking)...), gone, nil, 0},
		"doomed":             {0, patch(offFlags, flagsBytes(packFlags(headDoomed))...), gone, nil, 0},
		"volatile":           {0, patch(offFlags, flagsBytes(packFlags(headVolatile))...), gone, nil, 0},
		"broken":             {0, patch(offFlags, flagsBytes(packFlags(headBroken))...), whole, nil, 3},
		"damaged flags":      {0, patch(offFlags, flagsBytes(headDoomed)...), whole, nil, 3},
		"cut":                {0, cut(2*headerSize - 1), "has 8191 bytes of 8192", ErrGone, 3},
		"not cut":            {0, cut(2 * headerSize), whole, nil, 3},
		"cut in the header":  {0, cut(headerSize - 1), "is cut: there are 4095 bytes", ErrCorrupt, 3},
		"no first file":      {0, instead(func(string) error { return nil }), "its first file", ErrGone, 2},
		"a pipe":             {0, instead(func(p string) error { return syscall.Mkfifo(p, 0o600) }), "its first file", ErrGone, 3},
		"a directory":        {0, instead(func(p string) error { return os.Mkdir(p, 0o700) }), "its first file", ErrGone, 3},
		"no second file":     {1, instead(func(string) error { return nil }), "its file", ErrGone, 2},
		"a link":             {1, instead(func(p string) error { return os.Symlink("lock", p) }), "its file", ErrGone, 3},
		"a newer one":        {0, patch(0, append([]byte("WEFTNAM3"), flagsBytes(3)...)...), "has layout 3", ErrVersion, 3},
	} {
		dir, ent, open := orphanStore(t)
		row.damage(t, filepath.Join(dir, allocDir, ent.Files[row.which].ID.String()+suffix))
		var said notices
		s := open(Config{Notice: said.add})
		all, err := s.SetAside()
		require.NoError(t, err, name)
		entries, err := os.ReadDir(filepath.Join(dir, allocDir))
		require.NoError(t, err)
		require.True(t, slices.IsSortedFunc(all, func(a, b Aside) int { return strings.Compare(a.ID.String(), b.ID.String()) }))
		i := slices.IndexFunc(all, func(a Aside) bool { return a.ID == ent.ID })
		switch row.wants {
		case whole:
			require.NoError(t, all[i].Problem, name)
			require.Equal(t, "w", all[i].Entry.Name)
			require.EqualValues(t, 5, all[i].Epochs)
			_, err := s.Restore("w", "")
			require.NoError(t, err, name)
			requireSound(t, s)
		case gone: // with all its files
			require.Empty(t, all, name)
			require.Empty(t, said.String(), name)
		default:
			require.GreaterOrEqual(t, i, 0, name)
			require.ErrorIs(t, all[i].Problem, row.is, name)
			require.ErrorContains(t, all[i].Problem, row.wants, name)
			_, err := s.Restore(ent.ID.String(), "")
			require.ErrorIs(t, err, row.is, name)
			require.ErrorContains(t, err, "cannot be restored: ")
			require.NoError(t, s.Drop(ent.ID.String()), name)
		}
		if row.files > 0 {
			require.Contains(t, said.String(), "without a database entry: set aside", name)
		}
		require.Len(t, entries, row.files, name)
	}
}

// A window cannot be restored if one of its files has the header of another file. A file that the
// entry does not name is not part of the window.
func TestOrphanFilesOfOtherWindows(t *testing.T) {
	dir, ent, open := orphanStore(t)
	path := func(id ID) string { return filepath.Join(dir, allocDir, id.String()+suffix) }
	first := readAll(t, path(ent.ID))
	require.NoError(t, os.WriteFile(path(ID{1}), first, 0o600))
	s := open(Config{})
	all, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, ID{1}, all[0].ID)
	require.ErrorIs(t, all[0].Problem, ErrCorrupt)
	require.ErrorContains(t, all[0].Problem, "its header belongs to file "+ent.ID.String())
	require.Nil(t, all[0].Entry)
	require.Zero(t, all[0].Epochs)
	_, err = s.Restore("w", "")
	require.NoError(t, err)

	// A copy of the second file, next to a complete window.
	require.NoError(t, os.Remove(path(ID{1})))
	require.NoError(t, os.WriteFile(path(ID{2}), readAll(t, path(ent.Files[1].ID)), 0o600))
	a := oneAside(t, s)
	require.Equal(t, ent.ID, a.ID)
	require.ErrorIs(t, a.Problem, ErrCorrupt)
	require.ErrorContains(t, a.Problem, "its window does not have this file")
	require.NoError(t, s.Drop(ent.ID.String()))
	require.NoFileExists(t, path(ID{2}))
	requireSound(t, s)
	h, err := s.Attach("w", false, false)
	require.NoError(t, err)
	require.NoError(t, h.Release())

	// An entry that names a file of another window.
	require.NoError(t, s.Close())
	emptyDatabase(t, dir)
	s = open(Config{})
	require.NoError(t, s.update(func(tx *txn) error {
		other := *ent
		other.ID, other.Name, other.State = ID{7}, "other", Ready
		other.Files = []File{{ID: ID{7}, Bytes: 100}, ent.Files[1]}
		other.Regions = []Region{{Size: 1, Unit: 1}}
		return tx.put(&other)
	}))
	a = oneAside(t, s)
	require.ErrorIs(t, a.Problem, ErrGone)
	require.ErrorContains(t, a.Problem, "its file "+ent.Files[1].ID.String()+" is lost")
}

// The first problem of an orphan is reported.
func TestOrphanWithTwoFaults(t *testing.T) {
	dir, ent, open := orphanStore(t)
	require.NoError(t, os.Truncate(filepath.Join(dir, allocDir, ent.ID.String()+suffix), headerSize))
	require.NoError(t, os.Remove(filepath.Join(dir, allocDir, ent.Files[1].ID.String()+suffix)))
	require.ErrorContains(t, oneAside(t, open(Config{})).Problem, "has 4096 bytes of 8192")
}

// A whole header is read once. A header with a torn word is read three times.
func TestHeadersAreReadAgain(t *testing.T) {
	reads := 0
	s, err := Open(memDir(t), Config{System: func(op, path string, _, _ int, call func() error) error {
		if op == "read" {
			reads++
		}
		return call()
	}})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 8))
	require.NoError(t, err)
	for name, row := range map[string]struct {
		flags, epochs bool // damaged
		reads         int
	}{"whole": {false, false, 1}, "flags": {true, false, 3}, "epochs": {false, true, 3}, "both": {true, true, 3}} {
		flagsWord(h.maps[0]).Store(packFlags(0))
		epochsWord(h.maps[0]).Store(packCount(2, h.entry.ID))
		if row.flags {
			flagsWord(h.maps[0]).Store(1)
		}
		if row.epochs {
			epochsWord(h.maps[0]).Store(packCount(2, h.entry.ID) ^ 1<<63)
		}
		reads = 0
		head, err := s.headerOf(h.entry.ID)
		require.NoError(t, err)
		require.Equal(t, row.reads, reads, name)
		require.Equal(t, [2]bool{row.flags, row.epochs}, [2]bool{head.badFlags, head.badEpochs}, name)
	}
	flagsWord(h.maps[0]).Store(packFlags(0))
	epochsWord(h.maps[0]).Store(packCount(2, h.entry.ID))
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
}

// Writing a long entry again does not touch the valid one before the new one is complete.
func TestLongEntryIsNotOverwritten(t *testing.T) {
	dir := withoutDatabase(t)
	var s *Store
	var id ID
	offsets := map[uint64]bool{}
	name := "long"
	s, err := Open(filepath.Join(dir, "s"), Config{Boot: testBoot, Step: func(step string) {
		if step == "header:entry" {
			h, err := s.headerOf(id)
			require.NoError(t, err)
			require.Equal(t, name, h.entry.Name)
		}
		if step == "header:synced" {
			b := readAll(t, s.path(id))
			offsets[binary.NativeEndian.Uint64(b[offEntryAt:])] = true
		}
	}})
	require.NoError(t, err)
	a, err := s.findForTest("long")
	require.NoError(t, err)
	id = a.ID
	for _, as := range []string{"longer", "longest"} {
		_, err := s.Restore(id.String(), as)
		require.NoError(t, err)
		name = as
		require.NoError(t, s.update(func(tx *txn) error { return tx.forget(&Entry{ID: id}) }))
	}
	require.Len(t, offsets, 2)
	require.NoError(t, s.Close())
}

// An orphan that is set aside has the size of all its files and the time of the youngest, whether
// its first file exists or not.
func TestOrphanSizeAndTime(t *testing.T) {
	for _, lost := range []int{-1, 0} {
		for youngest := range 3 {
			dir, ent, open := orphanStore(t)
			var want uint64
			at := time.Now().Add(-time.Hour).Truncate(time.Second)
			for i, f := range ent.Files {
				path := filepath.Join(dir, allocDir, f.ID.String()+suffix)
				if i == lost {
					require.NoError(t, os.Remove(path))
					continue
				}
				want += fileSize(f.Bytes)
				age := time.Duration(i+1) * time.Minute
				if i == youngest {
					age = 0
				}
				require.NoError(t, os.Chtimes(path, at, at.Add(-age)))
			}
			a := oneAside(t, open(Config{}))
			require.Equal(t, want, a.Bytes)
			if youngest != lost {
				require.True(t, a.Changed.Equal(at), "%v, want %v", a.Changed, at)
			}
			require.Equal(t, lost < 0, a.Entry != nil && a.Problem == nil)
		}
	}
}

// A file that vanishes during the inspection is no orphan. One that cannot be opened or read is set
// aside, with the cause.
func TestOrphanThatCannotBeRead(t *testing.T) {
	dir, ent, open := orphanStore(t)
	for _, row := range []struct {
		op    string
		why   error
		is    error
		known bool // its size
	}{{"open", syscall.EACCES, ErrAccess, true}, {"open", syscall.EIO, syscall.EIO, true}, {"read", syscall.EIO, ErrCorrupt, true}, {"open", fs.ErrNotExist, nil, false}} {
		failing := false
		s := open(Config{System: func(op, path string, _, _ int, call func() error) error {
			if failing && op == row.op && strings.Contains(path, ent.ID.String()) {
				return &fs.PathError{Op: op, Path: path, Err: row.why}
			}
			return call()
		}})
		failing = true
		all, err := s.SetAside()
		require.NoError(t, err)
		i := slices.IndexFunc(all, func(a Aside) bool { return a.ID == ent.ID })
		if row.is == nil {
			require.ErrorIs(t, all[i].Problem, ErrGone, "what is left has no first file")
			require.EqualValues(t, 4*headerSize+headerSize, all[i].Bytes)
		} else {
			require.ErrorIs(t, all[i].Problem, row.is)
			require.ErrorIs(t, all[i].Problem, row.why)
			require.Nil(t, all[i].Entry)
			require.NotZero(t, all[i].Changed)
			require.Equal(t, fileSize(100)+fileSize(5000)+fileSize(8), all[i].Bytes)
		}
		failing = false
		require.NoError(t, s.Close())
	}
	// If reading fails, the file is not removed.
	f := filepath.Join(dir, allocDir, ID{3}.String()+suffix)
	require.NoError(t, os.WriteFile(f, make([]byte, headerSize), 0o600))
	n := 0
	open(Config{System: func(op, path string, _, _ int, call func() error) error {
		if op == "read" && path == f {
			if n++; n == 1 {
				return call()
			}
			return syscall.EIO
		}
		return call()
	}})
	require.NoFileExists(t, f, "it was seen to be empty")
}

// Of several orphans with one name, the ID selects one. A name in use cannot be taken.
func TestRestoreOneOfSeveral(t *testing.T) {
	dir := memDir(t)
	var ids []ID
	for range 2 {
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		h, err := makeWindow(s, oneRegion("w", 64))
		require.NoError(t, err)
		ids = append(ids, h.entry.ID)
		require.NoError(t, h.Release())
		require.NoError(t, s.Close())
		emptyDatabase(t, dir)
	}
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Restore("w", "")
	require.ErrorIs(t, err, ErrExist)
	require.ErrorContains(t, err, `2 windows called "w" are set aside: say which one by its id`)
	require.ErrorIs(t, s.Drop("w"), ErrExist)
	ent, err := s.Restore(ids[1].String(), "")
	require.NoError(t, err)
	require.Equal(t, ids[1], ent.ID)
	_, err = s.Restore("w", "")
	require.ErrorIs(t, err, ErrExist)
	require.ErrorContains(t, err, `"w" (ready, made `)

	// A process has opened it since.
	f, err := os.Open(s.path(ids[0]))
	require.NoError(t, err)
	ok, err := tryLock(f, false)
	require.True(t, ok && err == nil)
	_, err = s.Restore("w", "v")
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, `"v" is in use`)
	err = s.Drop("w")
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, ids[0].String()+" is in use")
	require.NoError(t, f.Close())
	require.Equal(t, ids[0], oneAside(t, s).ID)
	_, err = s.Restore("w", "v")
	require.NoError(t, err)
	requireSound(t, s)
}

// Before Drop removes files, it flags the first one as doomed, in its layout. The other files are
// removed before it.
func TestDropMarksFirst(t *testing.T) {
	for layout := 1; layout <= 2; layout++ {
		var dir string
		var id ID
		var files []ID
		if layout == 2 {
			var ent *Entry
			dir, ent, _ = orphanStore(t)
			id = ent.ID
			for _, f := range ent.Files {
				files = append(files, f.ID)
			}
		} else {
			dir = layout1(t)
			s, err := Open(dir, Config{ReadOnly: true})
			require.NoError(t, err)
			e, err := s.Stat("raw")
			require.NoError(t, err)
			id, files = e.ID, []ID{e.ID}
			require.NoError(t, s.Close())
			emptyDatabase(t, dir)
		}
		var s *Store
		var steps []string
		flagged := uint32(0)
		s, err := Open(dir, Config{Boot: testBoot, Step: func(name string) {
			if name == "drop:flagged" {
				h, err := s.headerOf(id)
				require.NoError(t, err)
				flagged = h.flags
				require.Equal(t, layout, h.layout)
			}
			if name == "drop:unlinked" {
				left := 0
				for _, f := range files {
					if _, err := os.Lstat(s.path(f)); err == nil {
						left++
					}
				}
				_, err := os.Lstat(s.path(id))
				require.Equal(t, left > 0, err == nil, "the first one is removed last")
			}
			steps = append(steps, name)
		}})
		require.NoError(t, err)
		steps = nil
		require.NoError(t, s.Drop(id.String()))
		require.Equal(t, headDoomed, flagged)
		require.Equal(t, append([]string{"drop:flagged"}, slices.Repeat([]string{"drop:unlinked"}, len(files))...), steps)
		require.NoError(t, s.Close())
	}
}

// A damaged epoch count is never trusted, whatever the entry says.
func TestDamagedCount(t *testing.T) {
	s := newTestStore(t, Config{})
	h, err := makeWindow(s, oneRegion("w", 64))
	require.NoError(t, err)
	mustRaise(h, 3)
	damaged := packCount(3, h.entry.ID) ^ 1<<63 // whatever the id is
	epochsWord(h.maps[0]).Store(damaged)
	_, err = h.Epochs()
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, h.Raise(4), ErrCorrupt)
	require.Equal(t, damaged, epochsWord(h.maps[0]).Load(), "it is not changed")
	e, err := s.Stat("w")
	require.NoError(t, err)
	require.ErrorIs(t, e.Problem, ErrCorrupt)
	require.ErrorContains(t, e.Problem, `"w": the count of its epochs is damaged`)
	require.NoError(t, h.Release())
	_, err = s.Attach("w", true, true)
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorIs(t, s.Accept("w"), ErrCorrupt)
	require.NoError(t, s.Remove("w"))
}
