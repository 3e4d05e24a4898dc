// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"archive/tar"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layout1 unpacks a store that a program with layout 1 has made: windows "contiguous",
// "distributed" and "raw", "epoch" with sync=epoch, "many" with 200 ranks, and "volatile", whose
// program has died. Element i of rank r is r<<32 + i + 1, and two epochs are complete.
func layout1(t *testing.T) string {
	t.Helper()
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the store in testdata is of a little-endian machine")
	}
	dir := memDir(t)
	f, err := os.Open("testdata/layout1.tar.gz")
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		require.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			require.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, b, h.FileInfo().Mode()))
	}
}

// requireLayout1 checks that s has the contents of the store of layout 1.
func requireLayout1(t *testing.T, s *Store, readOnly bool) {
	t.Helper()
	for name, ranks := range map[string]int{"contiguous": 3, "distributed": 3, "raw": 1, "epoch": 2, "many": 200} {
		e, err := s.Stat(name)
		require.NoError(t, err, name)
		require.NoError(t, e.Problem, name)
		require.EqualValues(t, 2, e.Epochs, name)
		require.False(t, e.Unsynced)
		require.Len(t, e.Regions, ranks, name)
		h, err := s.Attach(name, readOnly, false)
		require.NoError(t, err, name)
		for r := range ranks {
			m := h.Region(r)
			require.Len(t, m, map[bool]int{false: 256, true: 64}[name == "many"])
			for i := 0; i < len(m); i += 8 {
				require.EqualValues(t, uint64(r)<<32+uint64(i/8)+1, binary.NativeEndian.Uint64(m[i:]), "%s rank %d", name, r)
			}
		}
		require.EqualValues(t, 2, epochsOf(h))
		if !readOnly {
			require.NoError(t, h.Raise(3))
			require.EqualValues(t, 3, epochsOf(h))
		}
		require.NoError(t, h.Release())
	}
}

// Open upgrades a store of layout 1 and reports it. Its contents are unchanged, and its files
// describe themselves from then on.
func TestLayout1IsUpgraded(t *testing.T) {
	dir := layout1(t)
	var said notices
	s, err := Open(dir, Config{ReadOnly: true})
	require.NoError(t, err)
	e, err := s.Stat("raw")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	// The creator died before it cleared the flag.
	f, err := os.OpenFile(s.path(e.ID), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(flagsBytes(headVolatile), offFlags)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.Contains(t, said.String(), "had layout 1 and has layout 2 now")
	requireSound(t, s)
	require.NoError(t, s.Close())
	said = notices{}
	emptyDatabase(t, dir)
	s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.Contains(t, said.String(), "5 windows")
	for _, name := range []string{"contiguous", "distributed", "raw", "epoch", "many"} {
		_, err := s.Restore(name, "")
		require.NoError(t, err)
	}
	requireLayout1(t, s, false)
	requireSound(t, s)
	require.NoError(t, s.Close())
}

// A damaged file does not prevent the upgrade of the others. Its window keeps layout 1, which is
// reported once, and only that window cannot be attached to.
func TestDamagedLayout1IsUpgraded(t *testing.T) {
	dir := layout1(t)
	s, err := Open(dir, Config{ReadOnly: true})
	require.NoError(t, err)
	e, err := s.Stat("distributed")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	for _, file := range e.Files[1:] {
		f, err := os.OpenFile(s.path(file.ID), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte("damaged"), 0)
		require.NoError(t, errors.Join(err, f.Close()))
	}
	var said notices
	s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(said.String(), "keeps layout 1"), said.String())
	require.Contains(t, said.String(), `"distributed" keeps layout 1: `)
	require.Contains(t, said.String(), "had layout 1 and has layout 2 now")
	for _, name := range []string{"contiguous", "distributed", "raw", "epoch", "many"} {
		h, err := s.Attach(name, false, false)
		if name == "distributed" {
			require.ErrorIs(t, err, ErrCorrupt)
			continue
		}
		require.NoError(t, err, name)
		require.NoError(t, h.Release())
	}
	require.NoError(t, s.Close())
	said = notices{}
	s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.NotContains(t, said.String(), "layout", "it is done once")
	require.NoError(t, s.Close())
}

// A store of layout 1 that cannot be written is read as it is.
func TestLayout1IsRead(t *testing.T) {
	dir := layout1(t)
	before := segments(t, dir)
	s, err := Open(dir, Config{Boot: testBoot, ReadOnly: true})
	require.NoError(t, err)
	requireLayout1(t, s, true)
	require.NoError(t, s.Close())
	require.Equal(t, before, segments(t, dir))
}

// A process dies at each step of the upgrade, and the next Open continues.
func TestKillDuringUpgrade(t *testing.T) {
	start := layout1(t)
	all := steps(t, "recover", copyStore(t, start))
	for _, want := range []string{"header:entry#1", "header:written#1", "header:synced#7", "upgrade:committing#1", "upgrade:done#1"} {
		require.Contains(t, all, want)
	}
	for _, step := range all {
		dir := copyStore(t, start)
		requireKilled(t, "recover", dir, step)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err, step)
		requireLayout1(t, s, false)
		require.NoError(t, s.Close())
	}
}

// A window that is in use by a program with layout 1 is not upgraded.
func TestLayout1InUse(t *testing.T) {
	dir := layout1(t)
	s, err := Open(dir, Config{ReadOnly: true})
	require.NoError(t, err)
	h, err := s.Attach("raw", true, false)
	require.NoError(t, err)
	_, err = Open(dir, Config{Boot: testBoot})
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, `"raw" is in use by a program that knows no other`)
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	requireLayout1(t, s, false)
	require.NoError(t, s.Close())
}

// A removed window that is in use does not prevent the upgrade of the others.
func TestLayout1RemovedAndInUse(t *testing.T) {
	dir := layout1(t)
	s, err := newStore(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	require.NoError(t, s.openLock(os.O_RDWR))
	var ent *Entry
	require.NoError(t, s.update(func(tx *txn) (err error) {
		if ent, err = tx.byName("raw"); err != nil {
			return err
		}
		ent.State = Deleting
		return tx.put(ent)
	}))
	require.NoError(t, s.closeLock())
	f, err := os.Open(s.path(ent.ID))
	require.NoError(t, err)
	ok, err := tryLock(f, false)
	require.True(t, ok && err == nil)
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	h, err := s.headerOf(ent.ID)
	require.NoError(t, err)
	require.Equal(t, 1, h.layout)
	h, err = s.headerOf(mustStat(s, "contiguous").ID)
	require.NoError(t, err)
	require.Equal(t, 2, h.layout)
	require.NoError(t, f.Close())
	require.NoError(t, s.Reclaim(ent.ID))
	requireSound(t, s)
	require.NoError(t, s.Close())
}

// A file of layout 1 without an entry has no name and no regions; its bytes can be restored.
func TestLayout1WithoutEntry(t *testing.T) {
	dir := layout1(t)
	s, err := Open(dir, Config{ReadOnly: true})
	require.NoError(t, err)
	e, err := s.Stat("contiguous")
	require.NoError(t, err)
	require.NoError(t, s.Close())
	emptyDatabase(t, dir)
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	all, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, all, 8, "each file is an orphan: nothing says which belong together")
	_, err = s.Restore(e.ID.String(), "")
	require.ErrorIs(t, err, ErrName)
	_, err = s.Restore(e.ID.String(), "found")
	require.NoError(t, err)
	h, err := s.Attach("found", false, false)
	require.NoError(t, err)
	require.EqualValues(t, 2, epochsOf(h))
	require.EqualValues(t, 1<<32+1, binary.NativeEndian.Uint64(h.Region(0)[256:]))
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
}
