// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// A second process can open and map the memory by its path, and the size cannot be changed.
func TestCreateAndOpen(t *testing.T) {
	size := 3 * pageSize
	f, err := Create("some", size)
	require.NoError(t, err)
	defer f.Close()
	mem, err := Map(f, 0, size, false)
	require.NoError(t, err)
	require.Len(t, mem, size)
	require.Equal(t, make([]byte, size), mem)
	path := Path(os.Getpid(), f.Fd())
	g, err := Open(path, size)
	require.NoError(t, err)
	last, err := Map(g, int64(2*pageSize), pageSize, false)
	require.NoError(t, err)
	last[5] = 7
	require.EqualValues(t, 7, mem[2*pageSize+5])
	require.NoError(t, g.Close())
	require.EqualValues(t, 7, last[5], "a mapping lasts longer than its file")
	require.NoError(t, Unmap(last))
	require.Error(t, f.Truncate(0))
	require.Error(t, f.Truncate(int64(size+1)))
	st, err := f.Stat()
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	require.NoError(t, Unmap(mem))
	require.Error(t, Unmap(mem), "twice")

	for _, n := range []int{0, size - 1, size + 1} {
		_, err = Open(path, n)
		require.ErrorContains(t, err, "is not, or is no longer, shared memory of")
	}
	plain, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	require.NoError(t, err)
	defer plain.Close()
	require.NoError(t, plain.Truncate(int64(size)))
	_, err = Open(plain.Name(), size)
	require.ErrorContains(t, err, "is not, or is no longer, shared memory of", "it can shrink")
	_, err = Open(path+"9999", size)
	require.ErrorIs(t, err, unix.ENOENT)
	_, err = Create("some", -1)
	require.ErrorIs(t, err, unix.EINVAL)
}

// Map reports errors with the size and the file's name, and a read-only mapping is read-only.
func TestMap(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Truncate(int64(pageSize)))
	r, err := os.Open(f.Name())
	require.NoError(t, err)
	defer r.Close()
	_, err = Map(r, 0, pageSize, false)
	require.ErrorIs(t, err, unix.EACCES)
	require.ErrorContains(t, err, f.Name())
	_, err = Map(f, 1, pageSize, false)
	require.ErrorIs(t, err, unix.EINVAL, "not a page")
	_, err = Map(f, 0, 1<<60, false)
	require.ErrorIs(t, err, unix.ENOMEM)
	require.ErrorContains(t, err, "1152921504606846976 bytes")
	m, err := Map(r, 0, pageSize, true)
	require.NoError(t, err)
	require.Zero(t, m[0])
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, f.Name()) {
			require.Contains(t, line, " r--s ")
		}
	}
	require.NoError(t, Unmap(m))
}

// present returns a P for each page of a mapping that is present, and a dot for each other page.
func present(t *testing.T, m []byte) string {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	var all strings.Builder
	for at := 0; at < len(m); at += pageSize {
		var b [8]byte
		if _, err := f.ReadAt(b[:], int64(address(m[at:]))/int64(pageSize)*8); err != nil {
			t.Skip(err)
		}
		all.WriteByte(".P"[binary.NativeEndian.Uint64(b[:])>>63])
	}
	return all.String()
}

// requirePopulate skips a test on kernels before 5.14, which refuse MADV_POPULATE_WRITE.
func requirePopulate(t *testing.T) {
	t.Helper()
	m, err := unix.Mmap(-1, 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	if err := unix.Madvise(m, unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("this kernel does not populate pages: %v", err)
	}
}

// Populate makes exactly the pages present that contain the bytes.
func TestPopulate(t *testing.T) {
	p := pageSize
	requirePopulate(t)
	for _, row := range []struct {
		off, n int
		wants  string
	}{
		{0, 0, "......"}, {p + 1, 0, "......"}, {p, 1, ".P...."}, {2*p - 1, 1, ".P...."}, {2*p - 1, 2, ".PP..."}, {p, p, ".P...."}, {p, p + 1, ".PP..."},
		{3*p + 5, 3*p - 5, "...PPP"}, {0, 6 * p, "PPPPPP"}, {5*p + 1, 1, ".....P"},
	} {
		m, err := unix.Mmap(-1, 0, 6*p, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		require.NoError(t, err)
		_ = unix.Madvise(m, unix.MADV_NOHUGEPAGE) // kernels without huge pages refuse it
		Populate(m, row.off, row.n)
		require.Equal(t, row.wants, present(t, m), "%d+%d", row.off, row.n)
		require.NoError(t, unix.Munmap(m))
	}
}

// Sync writes exactly the pages that contain the bytes, and makes no call for zero bytes. The
// kernel returns ENOMEM if one of the pages is not mapped.
func TestSync(t *testing.T) {
	p := pageSize
	for _, row := range []struct {
		off, n int
		fails  bool
	}{
		{0, 0, false}, {p, 0, false}, {2 * p, 0, false}, {2*p + 1, 0, false}, {2 * p, 1, true}, {3*p - 1, 1, true}, {2*p - 1, 1, false}, {2*p - 1, 2, true}, {p, p, false},
		{p, p + 1, true}, {3 * p, p, false}, {3*p + 1, p - 1, false}, {3*p - 1, 2, true}, {0, 4 * p, true}, {p + 7, p - 7, false},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(int64(4*p)))
		m, err := unix.Mmap(int(f.Fd()), 0, 4*p, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		require.NoError(t, err)
		_, _, e := unix.Syscall(unix.SYS_MUNMAP, address(m)+uintptr(2*p), uintptr(p), 0)
		require.Zero(t, e)
		err = Sync(m, row.off, row.n)
		if row.fails {
			require.ErrorIs(t, err, unix.ENOMEM, "%d+%d", row.off, row.n)
		} else {
			require.NoError(t, err, "%d+%d", row.off, row.n)
		}
		require.NoError(t, unix.Munmap(m), "holes do not matter")
		require.NoError(t, f.Close())
	}
}
