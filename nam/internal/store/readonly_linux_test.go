// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// readOnlyMount mounts dir read-only on another directory.
func readOnlyMount(t *testing.T, dir string) string {
	t.Helper()
	at := t.TempDir()
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, 0)) })
	require.NoError(t, unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	return at
}

// A store on a read-only file system can be read: whole stores, those of layout 1, damaged and
// older ones.
func TestReadOnlyStore(t *testing.T) {
	dir := makeWorld(t, nil)
	requireReadOnly := func(t *testing.T, s *Store) {
		t.Helper()
		require.Error(t, s.ReadOnly())
		_, err := s.Create(oneRegion("new", 1))
		require.ErrorIs(t, err, ErrAccess)
		require.ErrorContains(t, err, "open for reading only")
		require.ErrorIs(t, s.Remove("raw0"), ErrAccess)
		_, err = s.Attach("raw0", false, false)
		require.ErrorIs(t, err, ErrAccess)
		_, err = s.Restore("raw0", "")
		require.ErrorIs(t, err, ErrAccess)
		require.NoError(t, s.Close())
	}
	t.Run("mount", func(t *testing.T) {
		var said notices
		at := readOnlyMount(t, dir)
		s, err := Open(at, Config{Boot: testBoot, Notice: said.add})
		require.NoError(t, err)
		require.Contains(t, said.String(), "cannot be written")
		require.Contains(t, said.String(), "read-only file system")
		requireWhole(t, s)
		requireReadOnly(t, s)
	})
	t.Run("asked for", func(t *testing.T) {
		var said notices
		before := segments(t, dir)
		s, err := Open(dir, Config{Boot: testBoot, ReadOnly: true, Notice: said.add})
		require.NoError(t, err)
		require.Empty(t, said.String())
		requireWhole(t, s)
		requireReadOnly(t, s)
		require.Equal(t, before, segments(t, dir))
	})
	t.Run("without a lock file", func(t *testing.T) {
		c := copyStore(t, dir)
		require.NoError(t, os.Remove(filepath.Join(c, lockName)))
		s, err := Open(readOnlyMount(t, c), Config{Boot: testBoot})
		require.NoError(t, err)
		requireWhole(t, s)
		requireReadOnly(t, s)
	})
	t.Run("unsynced", func(t *testing.T) {
		c := makeWorld(t, nil)
		s, err := Open(c, Config{Boot: testBoot})
		require.NoError(t, err)
		h, err := s.Attach("raw0", false, false)
		require.NoError(t, err)
		at := readOnlyMount(t, crashed(t, c))
		require.NoError(t, h.Release())
		require.NoError(t, s.Close())
		s, err = Open(at, Config{Boot: otherBoot})
		require.NoError(t, err)
		e, err := s.Stat("raw0")
		require.NoError(t, err)
		require.True(t, e.Unsynced)
		requireWhole(t, s, "raw0")
		requireReadOnly(t, s)
	})
	t.Run("one meta", func(t *testing.T) {
		c := copyStore(t, dir)
		b := readAll(t, filepath.Join(c, metaName))
		b[boltPage+20] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(c, metaName), b, 0o600))
		var said notices
		s, err := Open(readOnlyMount(t, c), Config{Boot: testBoot, Notice: said.add})
		require.NoError(t, err)
		require.Contains(t, said.String(), "one of its two meta pages is damaged")
		requireReadOnly(t, s)
	})
	t.Run("set aside", func(t *testing.T) {
		c := copyStore(t, dir)
		emptyDatabase(t, c)
		s, err := Open(readOnlyMount(t, c), Config{Boot: testBoot})
		require.NoError(t, err)
		all, err := s.SetAside()
		require.NoError(t, err)
		require.Len(t, all, 7)
		require.NoError(t, s.Close())
	})
	t.Run("no database", func(t *testing.T) {
		c := copyStore(t, dir)
		require.NoError(t, os.Remove(filepath.Join(c, metaName)))
		_, err := Open(readOnlyMount(t, c), Config{Boot: testBoot})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorIs(t, err, ErrAccess)
		require.ErrorContains(t, err, "7 windows can be brought back from the files")
	})
	t.Run("no store", func(t *testing.T) {
		_, err := Open(filepath.Join(readOnlyMount(t, t.TempDir()), "new"), Config{})
		require.ErrorIs(t, err, ErrAccess)
	})
	t.Run("layout 1", func(t *testing.T) {
		s, err := Open(readOnlyMount(t, layout1(t)), Config{Boot: testBoot})
		require.NoError(t, err)
		requireLayout1(t, s, true)
		require.NoError(t, s.Close())
	})
}

// setImmutable makes a file immutable: even root cannot remove it.
func setImmutable(t *testing.T, path string, on bool) {
	t.Helper()
	const immutable = 0x10
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		flags &^= immutable
		if on {
			flags |= immutable
		}
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	if err != nil {
		t.Skipf("files cannot be made immutable here: %v", err)
	}
}

// Leftovers that cannot be reclaimed are reported; the store opens and works.
func TestLeftoverThatCannotBeReclaimed(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("kept", 10))
	require.NoError(t, err)
	require.NoError(t, h.Release())
	c, err := s.Create(oneRegion("half", 10))
	require.NoError(t, err)
	c.first.Close() // its creator dies
	path := s.path(c.Entry().ID)
	require.NoError(t, s.Close())
	setImmutable(t, path, true)
	t.Cleanup(func() {
		if _, err := os.Lstat(path); err == nil {
			setImmutable(t, path, false)
		}
	})

	var said notices
	s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.NoError(t, s.ReadOnly(), "all else can be written")
	require.Contains(t, said.String(), `"half" (`+c.Entry().ID.String()+`) cannot be reclaimed`)
	_, err = s.Stat("kept")
	require.NoError(t, err)
	h, err = makeWindow(s, oneRegion("half", 10))
	require.NoError(t, err, "the name is free")
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())

	setImmutable(t, path, false)
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	requireSound(t, s)
	require.NoError(t, s.Close())
}
