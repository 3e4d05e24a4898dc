// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

var sink byte

// Truncating a mapped file gives ErrLost on all paths to the memory, and ends no program.
func TestFileCutUnderAMapping(t *testing.T) {
	for _, size := range []int64{0, headerSize} {
		for _, readOnly := range []bool{false, true} {
			s, err := Open(memDir(t), Config{})
			require.NoError(t, err)
			h, err := makeWindow(s, oneRegion("w", 3*headerSize))
			require.NoError(t, err)
			other, err := s.Attach("w", readOnly, false)
			require.NoError(t, err)
			require.NoError(t, os.Truncate(s.path(h.Entry().ID), size))
			m := other.Region(0)
			require.ErrorIs(t, other.Guard(func() { sink = m[2*headerSize] }), ErrLost)
			require.ErrorIs(t, h.Guard(func() { copy(h.Region(0), make([]byte, 100)) }), ErrLost)
			_, err = h.Epochs()
			_, ferr := h.flags()
			if size == 0 {
				for _, err := range []error{err, ferr, h.Raise(1), h.markInUse(&header{boot: otherBoot})} {
					require.ErrorIs(t, err, ErrLost)
				}
				h.Break()
				require.True(t, h.Broken())
			} else {
				require.NoError(t, err)
				require.NoError(t, ferr)
				require.NoError(t, h.Raise(1))
			}
			h.Populate(0, func() bool { return false })
			e, err := s.Stat("w")
			require.NoError(t, err)
			require.ErrorIs(t, e.Problem, ErrLost)
			require.ErrorIs(t, e.Problem, ErrCorrupt)
			require.NoError(t, other.Release())
			require.NoError(t, h.Release())
			_, err = s.Attach("w", readOnly, false)
			require.ErrorIs(t, err, ErrLost)
			require.ErrorIs(t, err, ErrCorrupt)
			require.NoError(t, s.Remove("w"), "what is lost can still be removed")
			requireSound(t, s)
			require.NoError(t, s.Close())
		}
	}
}

// A fault outside of the mapping is not hidden.
func TestOtherFaultsStayWhatTheyAre(t *testing.T) {
	s := newTestStore(t, Config{})
	h, err := makeWindow(s, oneRegion("w", 10))
	require.NoError(t, err)
	require.PanicsWithValue(t, "of the caller", func() { _ = h.Guard(func() { panic("of the caller") }) })
	require.Panics(t, func() { _ = h.Guard(func() { var p *int; *p = 1 }) })
	require.NoError(t, h.Release())
}

// A window's file that is replaced by something other than a regular file is ErrLost, at once.
func TestNoFileInPlaceOfASegment(t *testing.T) {
	for kind, put := range map[string]func(path string) error{
		"nothing":   func(path string) error { return nil },
		"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"device":    func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		for _, which := range []int{0, 1} {
			dir := makeWorld(t, nil)
			s, err := Open(dir, Config{Boot: testBoot})
			require.NoError(t, err)
			e, err := s.Stat("distributed0")
			require.NoError(t, err)
			path := s.path(e.Files[which].ID)
			require.NoError(t, os.Remove(path))
			require.NoError(t, put(path))
			for _, readOnly := range []bool{false, true} {
				_, err = s.Attach("distributed0", readOnly, false)
				require.ErrorIs(t, err, ErrLost, kind)
				require.ErrorIs(t, err, ErrCorrupt, kind)
			}
			e, err = s.Stat("distributed0")
			require.NoError(t, err)
			require.ErrorIs(t, e.Problem, ErrLost, kind)
			require.NoError(t, s.Close())
			s, err = Open(dir, Config{Boot: testBoot})
			require.NoError(t, err, kind)
			requireWhole(t, s, "distributed0")
			require.NoError(t, s.Remove("distributed0"), kind)
			require.NoError(t, s.Close())
		}
	}
}
