// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	bolt "go.etcd.io/bbolt"

	"weft/internal/shmem"
)

// The store's calls of the operating system pass through do if they can fail, or if they change
// what a disk has. Config.System, if set, intercepts them. Calls that only examine a name or an
// open file do not pass through it.

// do makes one call. path is that of the file or directory. off and n are the bytes of a
// "syncRange".
func (s *Store) do(op, path string, off, n int, call func() error) error {
	if s.cfg.System == nil {
		return call()
	}
	return s.cfg.System(op, path, off, n, call)
}

// get is do for a call that returns a value.
func get[T any](s *Store, op, path string, call func() (T, error)) (result T, err error) {
	err = s.do(op, path, 0, 0, func() (err error) {
		result, err = call()
		return err
	})
	return result, err
}

// open is os.OpenFile.
func (s *Store) open(path string, flags int, mode fs.FileMode) (*os.File, error) {
	return get(s, "open", path, func() (*os.File, error) { return os.OpenFile(path, flags, mode) })
}

func (s *Store) close(f *os.File) error { return s.do("close", f.Name(), 0, 0, f.Close) }

func (s *Store) readDir(path string) ([]fs.DirEntry, error) {
	return get(s, "readDir", path, func() ([]fs.DirEntry, error) { return os.ReadDir(path) })
}

func (s *Store) readAt(f *os.File, b []byte, off int64) (int, error) {
	return get(s, "read", f.Name(), func() (int, error) { return f.ReadAt(b, off) })
}

func (s *Store) writeAt(f *os.File, b []byte, off int64) error {
	_, err := get(s, "write", f.Name(), func() (int, error) { return f.WriteAt(b, off) })
	return err
}

// syncFile forces a file, or the entries of an open directory, to the disk.
func (s *Store) syncFile(f *os.File) error { return s.do("syncFile", f.Name(), 0, 0, f.Sync) }

// syncDir forces the entries of a directory to the disk.
func (s *Store) syncDir(path string) error {
	d, err := s.open(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	return s.syncFile(d)
}

// syncRange forces m[off:off+n] to the disk; m is a mapping of f.
func (s *Store) syncRange(f *os.File, m []byte, off, n int) error {
	return s.do("syncRange", f.Name(), off, n, func() error { return shmem.Sync(m, off, n) })
}

func (s *Store) remove(path string) error {
	return s.do("remove", path, 0, 0, func() error { return os.Remove(path) })
}

func (s *Store) rename(from, to string) error {
	return s.do("rename", from, 0, 0, func() error { return os.Rename(from, to) })
}

func (s *Store) link(from, to string) error {
	return s.do("link", from, 0, 0, func() error { return os.Link(from, to) })
}

// mkdirAll makes a directory and the missing ones above it, durably.
func (s *Store) mkdirAll(path string) error {
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		return nil
	}
	up := filepath.Dir(path)
	if up != path {
		if err := s.mkdirAll(up); err != nil {
			return err
		}
	}
	// Another process may have made it by now, or it may be a file: MkdirAll says so.
	if err := s.do("mkdir", path, 0, 0, func() error { return os.MkdirAll(path, 0o700) }); err != nil {
		return err
	}
	if err := s.syncDir(up); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// a directory that can be written and not read cannot be forced; its owner wants it so
	return nil
}

func (s *Store) reserve(f *os.File, size uint64) error {
	return s.do("reserve", f.Name(), 0, 0, func() error { return reserve(f, size) })
}

func (s *Store) mapFile(f *os.File, size uint64, readOnly bool) ([]byte, error) {
	m, err := get(s, "map", f.Name(), func() ([]byte, error) { return shmem.Map(f, 0, int(size), readOnly) })
	if errors.Is(err, syscall.ENOMEM) {
		err = fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return m, err
}

func (s *Store) tryLock(f *os.File, exclusive bool) (bool, error) {
	return get(s, "lock", f.Name(), func() (bool, error) { return tryLock(f, exclusive) })
}

func (s *Store) lockRange(f *os.File, off, n int64) error {
	return s.do("lockRange", f.Name(), 0, 0, func() error { return lockRange(f, off, n) })
}

// commit ends a transaction of the database: it writes pages, forces them, writes a meta page, and
// forces that.
func (s *Store) commit(tx *bolt.Tx) error {
	err := s.do("commit", tx.DB().Path(), 0, 0, tx.Commit)
	if err != nil {
		_ = tx.Rollback() // or Close would wait for it; a failed transaction is over already
	}
	return err
}

// guard runs fn and turns a fault on one of the mappings into ErrLost: the file was truncated, or
// its file system can no longer read or write a page. Without guard, the kernel's SIGBUS ends the
// program. A fault elsewhere, for example on a buffer of the caller, panics as before.
//
// What fn did before the fault is done. fn must release its locks by defer.
func guard(maps [][]byte, fn func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = faulted(maps, p)
		}
	}()
	fn()
	return nil
}

// faulted returns the error for a fault on one of the mappings. For every other panic it panics
// again.
func faulted(maps [][]byte, p any) error {
	fault, ok := p.(interface{ Addr() uintptr })
	if !ok {
		panic(p)
	}
	for i, m := range maps {
		if at := fault.Addr() - addressOf(m); at < uintptr(len(m)) {
			return fmt.Errorf("%w: byte %d of its file %d is not there any more: the file was cut or the disk has failed",
				ErrLost, at, i)
		}
	}
	panic(p)
}

// Guard runs fn, which accesses the memory of the handle. ErrLost: the memory is gone.
func (h *Handle) Guard(fn func()) error { return guard(h.maps, fn) }
