// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/nam"
)

// A default directory is used only if it belongs to this user and no other user may write it, in
// the cache directory and in the directory for temporary files, which every user may write.
func TestDefaultDirOfAnotherUserIsRefused(t *testing.T) {
	mkdir := func(t *testing.T, dir string, mode os.FileMode, uid int) {
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, os.Chmod(dir, mode))
		if uid >= 0 {
			if err := os.Chown(dir, uid, uid); err != nil {
				t.Skipf("only root can make a directory of another user: %v", err)
			}
		}
	}
	for _, place := range []string{"cache", "temp"} {
		for name, test := range map[string]struct {
			make  func(t *testing.T, top string)
			wants string
		}{
			"none":            {func(*testing.T, string) {}, ""},
			"own":             {func(t *testing.T, top string) { mkdir(t, top, 0o700, -1) }, ""},
			"own, readable":   {func(t *testing.T, top string) { mkdir(t, top, 0o755, -1) }, ""},
			"another user's":  {func(t *testing.T, top string) { mkdir(t, top, 0o700, 12345) }, "it belongs to user 12345"},
			"group may write": {func(t *testing.T, top string) { mkdir(t, top, 0o770, -1) }, "0770 lets other users write"},
			"all may write":   {func(t *testing.T, top string) { mkdir(t, top, 0o707, -1) }, "0707 lets other users write"},
			"a file":          {func(t *testing.T, top string) { require.NoError(t, os.WriteFile(top, nil, 0o600)) }, "it is not a directory"},
			"below: another user's": {func(t *testing.T, top string) {
				mkdir(t, top, 0o700, -1)
				mkdir(t, filepath.Join(top, "nam"), 0o777, 12345)
			}, "nam is not safe to use: it belongs to user 12345"},
			"own link to one that others may write": {func(t *testing.T, top string) {
				require.NoError(t, os.Symlink(t.TempDir(), top))
			}, "mode"}, // TempDir is 0777 less the mask
			"own link to own": {func(t *testing.T, top string) {
				to := filepath.Join(t.TempDir(), "to")
				mkdir(t, to, 0o700, -1)
				require.NoError(t, os.Symlink(to, top))
			}, ""},
			"another user's link to own": {func(t *testing.T, top string) {
				to := filepath.Join(t.TempDir(), "to")
				mkdir(t, to, 0o700, -1)
				require.NoError(t, os.Symlink(to, top))
				if err := os.Lchown(top, 12345, 12345); err != nil {
					t.Skip(err)
				}
			}, "it belongs to user 12345"},
			"own link to another user's": {func(t *testing.T, top string) {
				to := filepath.Join(t.TempDir(), "to")
				mkdir(t, to, 0o700, 12345)
				require.NoError(t, os.Symlink(to, top))
			}, "it belongs to user 12345"},
		} {
			t.Run(place+"/"+name, func(t *testing.T) {
				base := t.TempDir()
				t.Setenv(nam.EnvDir, "")
				t.Setenv("HOME", "")
				t.Setenv("XDG_CACHE_HOME", "")
				t.Setenv("TMPDIR", base)
				if place == "cache" {
					t.Setenv("XDG_CACHE_HOME", base)
				}
				top := filepath.Dir(nam.DefaultDir())
				require.Equal(t, base, filepath.Dir(top))
				test.make(t, top)
				if name == "own link to one that others may write" {
					require.NoError(t, os.Chmod(top, 0o775))
				}
				if name == "none" {
					_, err := nam.Open("", nam.Config{MustExist: true})
					require.ErrorIs(t, err, fs.ErrNotExist)
					require.NoDirExists(t, top, "opening for reading makes nothing")
				}
				s, err := nam.Open("", nam.Config{})
				if test.wants == "" {
					require.NoError(t, err)
					require.NoError(t, s.Close())
					return
				}
				require.ErrorIs(t, err, nam.ErrAccess)
				require.ErrorContains(t, err, test.wants)
				require.ErrorContains(t, err, nam.EnvDir, "it says what to do")
				_, err = nam.Open("", nam.Config{MustExist: true})
				require.ErrorIs(t, err, nam.ErrAccess, "opening for reading checks it too")

				// A directory that the user names is not checked.
				t.Setenv(nam.EnvDir, filepath.Join(base, "named"))
				require.NoError(t, os.MkdirAll(nam.DefaultDir(), 0o777))
				require.NoError(t, os.Chmod(nam.DefaultDir(), 0o777))
				s, err = nam.Open("", nam.Config{})
				require.NoError(t, err)
				require.NoError(t, s.Close())
			})
		}
	}
}

// A directory that cannot be read or made is an error. Opening for reading makes no directory.
func TestDefaultDirThatCannotBe(t *testing.T) {
	base := t.TempDir()
	t.Setenv(nam.EnvDir, "")
	t.Setenv("HOME", "")
	file := filepath.Join(base, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(file, "cache"))
	_, err := nam.Open("", nam.Config{})
	require.ErrorIs(t, err, nam.ErrAccess)
	require.ErrorContains(t, err, "not a directory")

	t.Setenv("XDG_CACHE_HOME", base)
	for _, cfg := range []nam.Config{{MustExist: true}, {ReadOnly: true}} {
		_, err = nam.Open("", cfg)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NoDirExists(t, filepath.Join(base, "weft"))
	}
	_, err = nam.Repair("", nam.Config{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoDirExists(t, filepath.Join(base, "weft"))
	loop := filepath.Join(base, "weft")
	require.NoError(t, os.Symlink(loop, loop))
	for _, cfg := range []nam.Config{{}, {MustExist: true}} {
		_, err = nam.Open("", cfg)
		require.ErrorContains(t, err, "stat "+loop)
	}
	_, err = nam.Repair("", nam.Config{})
	require.ErrorContains(t, err, "stat "+loop)
	require.NoError(t, os.Remove(loop))
	require.NoError(t, os.Mkdir(loop, 0o777))
	require.NoError(t, os.Chmod(loop, 0o777))
	_, err = nam.Repair("", nam.Config{})
	require.ErrorIs(t, err, nam.ErrAccess)
	require.ErrorContains(t, err, "0777 lets other users write")
}
