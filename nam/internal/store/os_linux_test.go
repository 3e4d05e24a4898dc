// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weft/internal/shmem"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// closed returns a closed file.
func closed(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "closed"))
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return f
}

func create(t *testing.T, b []byte) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(memDir(t), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.Write(b)
	require.NoError(t, err)
	return f
}

func TestNotRegular(t *testing.T) {
	for err, want := range map[error]bool{unix.ELOOP: true, unix.EISDIR: true, unix.ENXIO: true, unix.ENODEV: true, unix.ENOENT: false, unix.EACCES: false} {
		require.Equal(t, want, notRegular(&fs.PathError{Op: "open", Path: "p", Err: err}), "%v", err)
	}
	require.False(t, notRegular(nil))
}

func TestBootID(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip(err)
	}
	id, ok := bootID()
	require.True(t, ok)
	require.Equal(t, strings.ReplaceAll(strings.TrimSpace(string(b)), "-", ""), id.String())
	s := newTestStore(t, Config{})
	require.Equal(t, id, s.boot)
	require.Equal(t, ID{5}, newTestStore(t, Config{Boot: ID{5}}).boot)
}

// A file has data if any byte is not zero. Holes, reserved blocks and zeros are no data.
func TestHasData(t *testing.T) {
	const block = 1 << 16
	for _, size := range []int64{0, 1, block - 1, block, block + 1, 3*block + 5} {
		f := create(t, nil)
		require.NoError(t, f.Truncate(size))
		for _, written := range []bool{false, true} {
			if written && size > 0 {
				require.NoError(t, writeZeros(f, uint64(size)))
			}
			data, err := hasData(f)
			require.NoError(t, err)
			require.False(t, data, "%d bytes", size)
		}
		for _, at := range []int64{0, 1, block - 1, block, 2*block + 7, size - 1} {
			for _, hole := range []bool{false, true} {
				if at < 0 || at >= size {
					continue
				}
				require.NoError(t, f.Truncate(0))
				require.NoError(t, f.Truncate(size))
				if !hole {
					require.NoError(t, writeZeros(f, uint64(size)))
				}
				for _, b := range []byte{1, 2, 0xff} {
					_, err := f.WriteAt([]byte{b}, at)
					require.NoError(t, err)
					data, err := hasData(f)
					require.NoError(t, err)
					require.True(t, data, "%d bytes, data at %d", size, at)
				}
			}
		}
	}
	// A hole is not read, however large it is.
	f := create(t, nil)
	require.NoError(t, f.Truncate(1<<40))
	data, err := hasData(f)
	require.NoError(t, err)
	require.False(t, data)
	_, err = f.WriteAt([]byte{1}, 1<<40-1)
	require.NoError(t, err)
	data, err = hasData(f)
	require.NoError(t, err)
	require.True(t, data)
	_, err = hasData(closed(t))
	require.Error(t, err)
	f, err = os.OpenFile(create(t, []byte{0, 0, 0}).Name(), os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = hasData(f)
	require.ErrorIs(t, err, unix.EBADF, "it cannot be read")
}

// tryLock takes the lock, or finds it taken, or returns an error that names the file.
func TestTryLock(t *testing.T) {
	a := create(t, nil)
	b, err := os.Open(a.Name())
	require.NoError(t, err)
	defer b.Close()
	for _, row := range []struct{ first, second, free bool }{{false, false, true}, {false, true, false}, {true, false, false}, {true, true, false}} {
		ok, err := tryLock(a, row.first)
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = tryLock(b, row.second)
		require.NoError(t, err)
		require.Equal(t, row.free, ok, "exclusive: %v, then %v", row.first, row.second)
		require.NoError(t, unlock(a))
		ok, err = tryLock(b, true)
		require.NoError(t, err)
		require.True(t, ok, "an unlocked file is free")
		require.NoError(t, unlock(b))
	}
	c := closed(t)
	ok, err := tryLock(c, true)
	require.ErrorContains(t, err, "lock "+c.Name())
	require.False(t, ok)
	require.Error(t, unlock(c))
}

func TestIdentities(t *testing.T) {
	dir := t.TempDir()
	a, b := create(t, nil), create(t, nil)
	again, err := os.Open(a.Name())
	require.NoError(t, err)
	defer again.Close()
	seen := map[[2]uint64]bool{}
	for _, f := range []*os.File{a, b, again} {
		p, err := identityOf(f)
		require.NoError(t, err)
		st, err := f.Stat()
		require.NoError(t, err)
		sys := st.Sys().(*syscall.Stat_t)
		require.Equal(t, [2]uint64{uint64(sys.Dev), sys.Ino}, p)
		seen[p] = true
		uid, ok := Owner(st)
		require.True(t, ok)
		require.EqualValues(t, os.Geteuid(), uid)
	}
	require.Len(t, seen, 2)
	_, err = identityOf(closed(t))
	require.ErrorContains(t, err, "closed")
	p, err := identityOfDir(dir)
	require.NoError(t, err)
	d, err := os.Open(dir)
	require.NoError(t, err)
	defer d.Close()
	want, err := identityOf(d)
	require.NoError(t, err)
	require.Equal(t, want, p)
	fds := left(filepath.Dir(dir))
	for range 3 {
		_, err = identityOfDir(filepath.Join(dir, "none"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = identityOfDir(dir)
		require.NoError(t, err)
	}
	require.Equal(t, fds, left(filepath.Dir(dir)), "a descriptor is left")
	_, ok := Owner(fakeInfo{})
	require.False(t, ok)
}

// fakeInfo describes a file whose owner is not known.
type fakeInfo struct{ fs.FileInfo }

func (fakeInfo) Sys() any { return nil }

// reserve gives a file its size and its blocks, also if the kernel cannot reserve them; up to the
// limit of this process, and not one byte more.
func TestReserve(t *testing.T) {
	const piece = 1 << 20
	for _, size := range []uint64{1, headerSize, piece - 1, piece, piece + 1, 2*piece + 5} {
		for name, reserve := range map[string]func(*os.File, uint64) error{"fallocate": reserve, "zeros": writeZeros} {
			f := create(t, nil)
			require.NoError(t, reserve(f, size))
			st, err := f.Stat()
			require.NoError(t, err)
			require.EqualValues(t, size, st.Size(), name)
			require.GreaterOrEqual(t, uint64(st.Sys().(*syscall.Stat_t).Blocks)*512, size, name)
			require.Equal(t, make([]byte, size), readAll(t, f.Name()), name)
		}
	}
	f := create(t, nil)
	require.NoError(t, writeZeros(f, 0))
	err := reserve(closed(t), 1)
	require.ErrorContains(t, err, "reserve 1 bytes on disk")
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err == nil {
		defer full.Close()
		err = writeZeros(full, 10)
		require.ErrorIs(t, err, ErrNoSpace)
		require.ErrorContains(t, err, "reserve 10 bytes on disk")
	}

	const limit = 1 << 20
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: old.Max}))
	at, above := reserve(f, limit), reserve(create(t, nil), limit+1)
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, at)
	require.ErrorIs(t, above, ErrNoSpace)
	require.ErrorContains(t, above, "1048577 bytes are more than the limit of this process for one file (1048576)")
}

// On a file system without fallocate, zeros are written; everything works.
func TestStoreWithoutFallocate(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	f, err := os.Create(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.ErrorIs(t, unix.Fallocate(int(f.Fd()), 0, 0, 1), unix.EOPNOTSUPP)
	require.NoError(t, f.Close())
	s, err := Open(filepath.Join(dir, "s"), Config{})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 3*headerSize+1))
	require.NoError(t, err)
	h.Region(0)[3*headerSize] = 7
	require.NoError(t, h.Release())
	requireSound(t, s)
	require.NoError(t, s.Remove("w"))
	require.NoError(t, s.Close())
}

// Blocks for removals are reserved when a store is made; the file does not become longer.
func TestReserveMeta(t *testing.T) {
	f := create(t, []byte("data"))
	reserveMeta(f)
	st, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 4, st.Size())
	if blocks := st.Sys().(*syscall.Stat_t).Blocks * 512; blocks < 1<<20 {
		t.Skipf("this file system reserves nothing: %d bytes", blocks)
	}
	dir := memDir(t)
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	st, err = os.Stat(filepath.Join(dir, metaName))
	require.NoError(t, err)
	require.GreaterOrEqual(t, st.Sys().(*syscall.Stat_t).Blocks*512, int64(1<<20))
}

// present says which pages of a mapping are present.
func present(t *testing.T, m []byte) string {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	var all strings.Builder
	for at := 0; at < len(m); at += os.Getpagesize() {
		var b [8]byte
		if _, err := f.ReadAt(b[:], int64(addressOf(m[at:]))/int64(os.Getpagesize())*8); err != nil {
			t.Skip(err)
		}
		all.WriteByte(".P"[binary.NativeEndian.Uint64(b[:])>>63])
	}
	return all.String()
}

// A mapping that fails for lack of memory is ErrNoSpace.
func TestMapFile(t *testing.T) {
	s := newTestStore(t, Config{})
	f := create(t, make([]byte, headerSize))
	m, err := s.mapFile(f, headerSize, false)
	require.NoError(t, err)
	m[0] = 1
	require.NoError(t, shmem.Unmap(m))
	r, err := os.Open(f.Name())
	require.NoError(t, err)
	defer r.Close()
	_, err = s.mapFile(r, headerSize, false)
	require.ErrorIs(t, err, unix.EACCES)
	require.NotErrorIs(t, err, ErrNoSpace)
	m, err = s.mapFile(r, headerSize, true)
	require.NoError(t, err)
	require.EqualValues(t, 1, m[0])
	err = guard([][]byte{m}, func() { m[0] = 2 })
	require.ErrorIs(t, err, ErrLost, "it can be written")
	require.NoError(t, shmem.Unmap(m))
	_, err = s.mapFile(f, 1<<60, false)
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorIs(t, err, unix.ENOMEM)
}

// requirePopulate skips a test on kernels before 5.14, which refuse the advice.
func requirePopulate(t *testing.T) {
	t.Helper()
	m, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	if err := unix.Madvise(m, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("this kernel makes no pages present: %v", err)
	}
}

// Populate makes a region present from the first page to the last, in pieces. It stops between two
// pieces.
func TestPopulateRegion(t *testing.T) {
	requirePopulate(t)
	const size = 2*populateBytes + 5
	steps, stopAt := 0, 0
	s, err := Open(memDir(t), Config{Step: func(name string) {
		if name == "prefault" {
			steps++
		}
	}})
	require.NoError(t, err)
	h, err := makeWindow(s, Request{Name: "w", Files: []uint64{size + 128}, Regions: []Region{{Size: 64, Unit: 1}, {Size: size, Unit: 1, Offset: 64}, {Size: 1, Unit: 1, Offset: 64 + size}}})
	require.NoError(t, err)
	first := strings.Count(present(t, h.maps[0]), "P")
	for _, row := range []struct{ stopAt, steps int }{{0, 0}, {1, 1}, {2, 2}, {99, 3}} {
		steps, stopAt = 0, row.stopAt
		h.Populate(1, func() bool { return steps >= stopAt })
		require.Equal(t, row.steps, steps)
		if stopAt == 0 {
			require.Equal(t, first, strings.Count(present(t, h.maps[0]), "P"))
		}
	}
	there := present(t, h.maps[0])
	require.NotContains(t, there[1:1+(64+size+os.Getpagesize()-1)/os.Getpagesize()], ".")
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
}

// lockRange excludes others from exactly these bytes, until it is unlocked or its file is closed.
func TestLockRange(t *testing.T) {
	s := newTestStore(t, Config{})
	h, err := makeWindow(s, Request{Name: "w", Files: []uint64{100}, Regions: []Region{{Size: 50, Unit: 1}, {Size: 36, Unit: 1, Offset: 64}}})
	require.NoError(t, err)
	other, err := os.OpenFile(s.path(h.entry.ID), os.O_RDWR, 0)
	require.NoError(t, err)
	defer other.Close()
	free := func(at int64) bool {
		lk := unix.Flock_t{Type: unix.F_WRLCK, Start: at, Len: 1}
		err := unix.FcntlFlock(other.Fd(), unix.F_OFD_SETLK, &lk)
		if err == nil {
			require.NoError(t, unlockRange(other, at, 1))
		} else {
			require.ErrorIs(t, err, unix.EAGAIN)
		}
		return err == nil
	}
	const at = headerSize + 64 + 3
	ran := false
	require.NoError(t, h.Exclusive(1, 3, 5, func() {
		for i, want := range map[int64]bool{-1: true, 0: false, 4: false, 5: true} {
			require.Equal(t, want, free(at+i), "byte %d", i)
		}
		ran = true
	}))
	require.True(t, ran)
	require.True(t, free(at))

	c := closed(t)
	require.Error(t, lockRange(c, 0, 1))
	require.Error(t, unlockRange(c, 0, 1))
	file := h.files[0]
	h.files[0] = c
	err = h.Exclusive(1, 3, 5, func() { t.Error("without the lock") })
	require.ErrorContains(t, err, "lock bytes 3 to 8 of a window")
	h.files[0] = file
	require.NoError(t, h.Release())
}
