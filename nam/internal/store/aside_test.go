// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// emptyDatabase replaces a store's database by that of an empty store, as an older backup would.
func emptyDatabase(t *testing.T, dir string) {
	t.Helper()
	other := memDir(t)
	s, err := Open(other, Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), readAll(t, filepath.Join(other, metaName)), 0o600))
}

func TestSetAside(t *testing.T) {
	dir := makeWorld(t, nil)
	emptyDatabase(t, dir)
	var said notices
	s, err := Open(dir, Config{Boot: testBoot, Capacity: 1 << 20, Notice: said.add})
	require.NoError(t, err)
	require.Contains(t, said.String(), "7 windows in "+dir+" without a database entry: set aside")
	list, err := s.List()
	require.NoError(t, err)
	require.Empty(t, list)
	all, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, all, 7)
	var bytes uint64
	for _, a := range all {
		require.NoError(t, a.Problem)
		require.NotNil(t, a.Entry)
		require.Positive(t, a.Epochs)
		bytes += a.Bytes
	}

	// They count towards the capacity.
	_, err = makeWindow(s, oneRegion("new", 1<<20-bytes))
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorContains(t, err, "7 that are set aside")

	// The name of a new window is not taken away; the old window gets another name.
	h, err := makeWindow(s, oneRegion("raw0", 10))
	require.NoError(t, err)
	require.NoError(t, h.Release())
	_, err = s.Restore("raw0", "")
	require.ErrorIs(t, err, ErrExist)
	_, err = s.Restore("raw0", "a name with blanks")
	require.ErrorIs(t, err, ErrSize)
	_, err = s.Restore("nothing", "")
	require.ErrorIs(t, err, ErrName)
	ent, err := s.Restore("raw0", "raw")
	require.NoError(t, err)
	require.Equal(t, "raw", ent.Name)
	require.NoError(t, s.Remove("raw0"))
	_, err = s.Restore("raw", "")
	require.ErrorIs(t, err, ErrName, "it is set aside no more")

	// A window with a lost file cannot be restored; it can be dropped.
	d, err := s.findForTest("distributed0")
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.path(d.Entry.Files[1].ID)))
	_, err = s.Restore("distributed0", "")
	require.ErrorIs(t, err, ErrLost)
	require.NoError(t, s.Drop("distributed0"))
	require.NoFileExists(t, s.path(d.ID))

	// The same if the first file is lost: the name is not known.
	d, err = s.findForTest("distributed1")
	require.NoError(t, err)
	require.NoError(t, os.Remove(s.path(d.ID)))
	_, err = s.Restore(d.ID.String(), "")
	require.ErrorIs(t, err, ErrLost)
	require.NoError(t, s.Drop(d.ID.String()))
	require.NoFileExists(t, s.path(d.Entry.Files[1].ID))

	for _, name := range []string{"contiguous0", "contiguous1", "raw1", "many"} {
		_, err = s.Restore(name, "")
		require.NoError(t, err)
	}
	requireWhole(t, s, "raw0", "distributed0", "distributed1")
	requireSound(t, s)

	// The new name is in the header, too.
	require.NoError(t, s.Close())
	emptyDatabase(t, dir)
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	_, err = s.Restore("raw", "raw0")
	require.NoError(t, err)
	for i := range 3 { // a long entry moves each time, and takes no more space than it needs
		_, err = s.Restore("many"+strings.Repeat("y", i), "many"+strings.Repeat("y", i+1))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		emptyDatabase(t, dir)
		s, err = Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
	}
	_, err = s.Restore("manyyyy", "many")
	require.NoError(t, err)
	_, err = s.Restore("raw0", "")
	require.NoError(t, err)
	requireWhole(t, s, "distributed0", "distributed1", "contiguous0", "contiguous1", "raw1")
	require.NoError(t, s.Close())
}

func (s *Store) findForTest(name string) (Aside, error) {
	all, err := s.SetAside()
	for _, a := range all {
		if a.Entry != nil && a.Entry.Name == name {
			return a, err
		}
	}
	return Aside{}, err
}

// Files in use are left alone, whatever their headers say; so are files with other names.
func TestLiveFilesWithoutEntry(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	req := oneRegion("volatile", 100)
	req.Volatile = true
	h, err := makeWindow(s, req)
	require.NoError(t, err)
	emptyDatabase(t, dir)
	s2, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	require.FileExists(t, s.path(h.Entry().ID))
	all, err := s2.SetAside()
	require.NoError(t, err)
	require.Empty(t, all)
	h.Region(0)[0] = 1
	require.NoError(t, h.Release())
	require.NoError(t, s2.Close())
	s2, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	requireSound(t, s2)
	require.NoFileExists(t, s.path(h.Entry().ID), "its last user has released it")
	require.NoError(t, s2.Close())
	require.NoError(t, s.Close())
}

// A process dies at each step of restoring, dropping and repairing. Nothing is lost, and no files
// accumulate.
func TestKillWhileBringingBack(t *testing.T) {
	dir := makeWorld(t, nil)
	restored := func(t *testing.T, dir, step string) {
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err, step)
		all, err := s.SetAside()
		require.NoError(t, err, step)
		for _, a := range all {
			name := ""
			if a.Entry.Name == "many-and-more" {
				name = "many"
			}
			_, err := s.Restore(a.ID.String(), name)
			require.NoError(t, err, step)
		}
		if _, err := s.Stat("many-and-more"); err == nil {
			require.NoError(t, s.Close())
			emptyDatabase(t, dir)
			s, err = Open(dir, Config{Boot: testBoot})
			require.NoError(t, err)
			for _, name := range []string{"raw0", "raw1", "contiguous0", "contiguous1", "distributed0", "distributed1"} {
				if _, err := s.Restore(name, ""); err != nil {
					require.ErrorIs(t, err, ErrName)
				}
			}
			_, err := s.Restore("many-and-more", "many")
			require.NoError(t, err, step)
		}
		requireWhole(t, s, "raw0")
		if _, err := s.Stat("raw0"); err == nil {
			requireWhole(t, s)
		}
		list, err := s.List()
		require.NoError(t, err)
		for _, e := range list {
			require.NoError(t, s.Remove(e.Name))
		}
		requireSound(t, s)
		require.NoError(t, s.Close())
		left := segments(t, dir)
		require.Empty(t, left, step)
	}
	for role, wants := range map[string][]string{
		"restore": {"restore:filing#1", "restore:filed#1", "header:entry#1", "header:written#1", "drop:flagged#1", "drop:unlinked#1"},
		"repair":  {"repair:kept#1", "init:made#1", "init:filled#1", "repair:made#1"},
	} {
		start := copyStore(t, dir)
		emptyDatabase(t, start)
		if role == "repair" {
			require.NoError(t, os.WriteFile(filepath.Join(start, metaName), []byte("damaged"), 0o600))
		}
		all := steps(t, role, copyStore(t, start))
		for _, want := range wants {
			require.Contains(t, all, want)
		}
		for _, step := range all {
			c := copyStore(t, start)
			requireKilled(t, role, c, step)
			if role == "repair" {
				_, err := Repair(c, Config{Boot: testBoot})
				require.NoError(t, err, step)
			}
			restored(t, c, step)
			require.NoError(t, os.RemoveAll(c))
		}
	}
}

// A process dies while it completes, from the files, a database with one damaged meta.
func TestKillWhileCompleting(t *testing.T) {
	start := makeWorld(t, nil)
	emptyDatabase(t, start)
	b := readAll(t, filepath.Join(start, metaName))
	b[boltPage+20] ^= 1
	require.NoError(t, os.WriteFile(filepath.Join(start, metaName), b, 0o600))
	all := steps(t, "recover", copyStore(t, start))
	require.Contains(t, all, "restore:filed#7")
	for _, step := range all {
		dir := copyStore(t, start)
		requireKilled(t, "recover", dir, step)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err, step)
		asides, err := s.SetAside() // the first Open has repaired the database
		require.NoError(t, err, step)
		for _, a := range asides {
			_, err := s.Restore(a.ID.String(), "")
			require.NoError(t, err, step)
		}
		requireWhole(t, s)
		requireSound(t, s)
		require.NoError(t, s.Close())
	}
}

// A process dies at each step. Then an empty database replaces the store's. Committed windows are
// set aside, whole, and nothing else is left.
func TestKillAndOlderDatabase(t *testing.T) {
	kept := 0
	for _, step := range steps(t, "lifecycle", memDir(t)) {
		dir := memDir(t)
		requireKilled(t, "lifecycle", dir, step)
		emptyDatabase(t, dir)
		s, err := Open(dir, Config{})
		require.NoError(t, err, step)
		all, err := s.SetAside()
		require.NoError(t, err, step)
		files := 0
		for _, a := range all {
			require.NoError(t, a.Problem, step)
			files += len(a.Entry.Files)
			kept++
			_, err := s.Restore(a.ID.String(), "")
			require.NoError(t, err, step)
		}
		require.Len(t, segments(t, dir), files, step)
		if h, err := s.Attach("keep", true, false); err == nil {
			if epochsOf(h) == 1 {
				require.Equal(t, "kept", string(h.Region(1)[:4]), step)
			}
			require.NoError(t, h.Release())
		} else {
			require.Regexp(t, "^(init|create|header):", step, "a committed window is lost")
		}
		requireSound(t, s)
		require.NoError(t, s.Close())
	}
	require.Greater(t, kept, 20)
}

// The ranks of a distributed window write their headers in any order. A complete header does not
// keep an incomplete window.
func TestHalfMadeWithoutEntry(t *testing.T) {
	for reserved := range 2 {
		dir := memDir(t)
		s, err := Open(dir, Config{})
		require.NoError(t, err)
		c, err := s.Create(Request{Name: "half", Files: []uint64{10, 10}, Regions: []Region{{Size: 10, Unit: 1}, {Size: 10, Unit: 1, File: 1}}})
		require.NoError(t, err)
		require.NoError(t, c.Reserve(reserved))
		require.NoError(t, c.first.Close()) // the process dies
		require.NoError(t, s.Close())
		emptyDatabase(t, dir)
		s, err = Open(dir, Config{})
		require.NoError(t, err)
		require.Empty(t, segments(t, dir))
		require.NoError(t, s.Close())
	}
}
