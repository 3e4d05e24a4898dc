// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"weft/internal/shmem"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// Each call of the operating system passes its arguments to Config.System and returns its result.
// If Config.System returns an error, the call is not made.
func TestCallsOfTheSystem(t *testing.T) {
	var said []string
	var answer error
	system := func(op, path string, off, n int, call func() error) error {
		said = append(said, fmt.Sprintf("%s %s %d+%d", op, filepath.Base(path), off, n))
		if answer != nil {
			return answer
		}
		return call()
	}
	for _, between := range []bool{false, true} {
		s := &Store{}
		if between {
			s.cfg.System = system
		}
		var dir string
		path := func(name string) string { return filepath.Join(dir, name) }
		file := func(good bool) *os.File {
			f, err := os.OpenFile(path("file"), os.O_RDWR|os.O_CREATE, 0o600)
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			if !good {
				f.Close()
			}
			return f
		}
		name := func(good bool) string {
			if good {
				return path("file")
			}
			return path("none/none")
		}
		there := func(name string) bool { _, err := os.Lstat(path(name)); return err == nil }
		var got any
		mapped, err := unix.Mmap(-1, 0, 2*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
		require.NoError(t, err)
		for _, row := range []struct {
			says string
			call func(good bool) error
			done func() bool // what there is then
		}{
			{"open file 0+0", func(good bool) (err error) {
				f, err := s.open(name(good), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o640)
				if err == nil {
					st, _ := f.Stat()
					got = st.Mode().Perm()
					f.Close()
				}
				return err
			}, func() bool { return got == fs.FileMode(0o640) && there("file") }},
			{"close file 0+0", func(good bool) error { f := file(good); got = f; return s.close(f) }, func() bool { _, err := got.(*os.File).Stat(); return err != nil }},
			{"readDir dir 0+0", func(good bool) error {
				if good {
					require.NoError(t, os.MkdirAll(path("dir/in"), 0o700))
				}
				list, err := s.readDir(path("dir"))
				got = len(list)
				return err
			}, func() bool { return got == 1 }},
			{"read file 0+0", func(good bool) error {
				f := file(good)
				f.WriteAt([]byte("abc"), 0)
				b := make([]byte, 2)
				n, err := s.readAt(f, b, 1)
				got = fmt.Sprintf("%d %s", n, b)
				return err
			}, func() bool { return got == "2 bc" }},
			{"write file 0+0", func(good bool) error { return s.writeAt(file(good), []byte("xyz"), 2) },
				func() bool { b, _ := os.ReadFile(path("file")); return string(b) == "\x00\x00xyz" }},
			{"syncFile file 0+0", func(good bool) error { return s.syncFile(file(good)) }, nil},
			{"remove file 0+0", func(good bool) error {
				if good {
					file(true)
				}
				return s.remove(path("file"))
			}, func() bool { return !there("file") }},
			{"rename file 0+0", func(good bool) error {
				if good {
					file(true)
				}
				return s.rename(path("file"), path("to"))
			}, func() bool { return !there("file") && there("to") }},
			{"link file 0+0", func(good bool) error {
				if good {
					file(true)
				}
				return s.link(path("file"), path("to"))
			}, func() bool { return there("file") && there("to") }},
			{"reserve file 0+0", func(good bool) error { return s.reserve(file(good), 5000) }, func() bool { st, _ := os.Stat(path("file")); return st.Size() == 5000 }},
			{"map file 0+0", func(good bool) error {
				f := file(good)
				_ = f.Truncate(headerSize)
				m, err := s.mapFile(f, headerSize, false)
				if got = len(m); err == nil {
					require.NoError(t, shmem.Unmap(m))
				}
				return err
			}, func() bool { return got == headerSize }},
			{"lock file 0+0", func(good bool) error { ok, err := s.tryLock(file(good), true); got = ok; return err }, func() bool { return got == true }},
			{"lockRange file 0+0", func(good bool) error { return s.lockRange(file(good), 1, 2) }, nil},
			{"syncRange file 100+9", func(good bool) error {
				m := mapped
				if !good {
					gone, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_ANON)
					require.NoError(t, err)
					require.NoError(t, unix.Munmap(gone))
					m = gone
				}
				return s.syncRange(file(true), m, 100, 9)
			}, nil},
		} {
			for _, good := range []bool{true, false} {
				dir, said, got = t.TempDir(), nil, nil
				answer = nil
				err := row.call(good)
				require.Equal(t, good, err == nil, "%s: %v", row.says, err)
				require.True(t, !good || row.done == nil || row.done(), "%s: it has not been done: %v", row.says, got)
				if between {
					want := row.says
					if want == "open file 0+0" && !good {
						want = "open none 0+0"
					}
					require.Equal(t, []string{want}, said)
				}
			}
			if between {
				dir, said, got = t.TempDir(), nil, nil
				answer = syscall.EDQUOT
				require.ErrorIs(t, row.call(true), syscall.EDQUOT, row.says)
				require.False(t, row.done != nil && row.says != "close file 0+0" && row.done(), "%s: it has been done all the same", row.says)
			}
		}
		require.NoError(t, unix.Munmap(mapped))

		// Calls that consist of several.
		dir, said, answer = t.TempDir(), nil, nil
		require.NoError(t, s.syncDir(dir))
		fds := left(filepath.Dir(dir))
		require.NoError(t, s.syncDir(dir))
		require.Equal(t, fds, left(filepath.Dir(dir)))
		require.ErrorIs(t, s.syncDir(path("none")), fs.ErrNotExist)
		said = nil
		require.NoError(t, s.mkdirAll(path("a/b")))
		require.True(t, there("a/b"))
		if between {
			top := filepath.Base(dir)
			require.Equal(t, []string{"mkdir a 0+0", "open " + top + " 0+0", "syncFile " + top + " 0+0", "mkdir b 0+0", "open a 0+0", "syncFile a 0+0"}, said)
		}
		said = nil
		require.NoError(t, s.mkdirAll(path("a/b")))
		require.Empty(t, said, "it is there")
		require.NoError(t, os.WriteFile(path("file"), nil, 0o600))
		require.ErrorIs(t, s.mkdirAll(path("file")), syscall.ENOTDIR)
		require.ErrorIs(t, s.mkdirAll(path("file/b")), syscall.ENOTDIR)
		for _, why := range []error{syscall.EROFS, syscall.EACCES} {
			if !between {
				break
			}
			answer = why
			require.ErrorIs(t, s.mkdirAll(path("c")), why)
			answer = nil
		}
	}
}

// A directory that this user cannot read need not be forced; every other error of the force is
// returned.
func TestDirectoryThatCannotBeRead(t *testing.T) {
	for why, told := range map[error]bool{syscall.EACCES: false, syscall.EPERM: false, syscall.EIO: true, syscall.EROFS: true} {
		dir := t.TempDir()
		s := &Store{cfg: Config{System: func(op, path string, _, _ int, call func() error) error {
			if op == "open" {
				return &fs.PathError{Op: op, Path: path, Err: why}
			}
			return call()
		}}}
		err := s.mkdirAll(filepath.Join(dir, "a"))
		require.Equal(t, told, errors.Is(err, why), "%v", err)
		require.Equal(t, told, err != nil)
		require.DirExists(t, filepath.Join(dir, "a"))
	}
}

// A failed commit leaves no open transaction: the database can be closed.
func TestCommitEndsATransaction(t *testing.T) {
	for _, fails := range []bool{false, true} {
		s := &Store{}
		if fails {
			s.cfg.System = func(string, string, int, int, func() error) error { return syscall.EIO }
		}
		path := filepath.Join(t.TempDir(), "db")
		db, err := bolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		tx, err := db.Begin(true)
		require.NoError(t, err)
		_, err = tx.CreateBucket([]byte("b"))
		require.NoError(t, err)
		require.Equal(t, fails, errors.Is(s.commit(tx), syscall.EIO))
		require.NoError(t, db.Close())
		db, err = bolt.Open(path, 0o600, nil)
		require.NoError(t, err)
		require.NoError(t, db.View(func(tx *bolt.Tx) error {
			require.Equal(t, !fails, tx.Bucket([]byte("b")) != nil)
			return nil
		}))
		require.NoError(t, db.Close())
	}
}

// A full disk and missing rights are recognised, however the error is wrapped.
func TestKindsOfErrors(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EACCES, syscall.EPERM, syscall.EROFS} {
		wrapped := &fs.PathError{Op: "write", Path: "p", Err: why}
		full := slices.Contains([]error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG}, why)
		denied := slices.Contains([]error{syscall.EACCES, syscall.EPERM, syscall.EROFS}, why)
		err := spaceError(wrapped, "do something")
		require.Equal(t, full, errors.Is(err, ErrNoSpace), "%v", why)
		require.ErrorIs(t, err, why)
		require.ErrorContains(t, err, "do something on disk: write p: ")
		err = accessError(wrapped)
		require.Equal(t, denied, errors.Is(err, ErrAccess), "%v", why)
		require.ErrorIs(t, err, why)
	}
	require.ErrorIs(t, ErrGone, ErrLost)
	require.ErrorIs(t, ErrGone, ErrCorrupt)
	require.NotErrorIs(t, ErrGone, ErrName)
	require.NotErrorIs(t, ErrGone, io.EOF)
	require.Equal(t, ErrLost.Error(), ErrGone.Error())
	for name, want := range map[string]bool{strings.Repeat("0a", 16) + suffix: true, strings.Repeat("0a", 16): false, strings.Repeat("0A", 16) + suffix: false,
		strings.Repeat("0a", 15) + "0" + suffix: false, strings.Repeat("0a", 16) + "0" + suffix: false, strings.Repeat("0g", 16) + suffix: false, "notes.txt": false} {
		id, ok := parseFileName(name)
		require.Equal(t, want, ok, name)
		require.True(t, !ok || id.String()+suffix == name)
	}
}
