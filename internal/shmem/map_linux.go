// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shmem

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Create makes size bytes of memory, all zero. Pages take no space until they are accessed. name is
// the name of the returned file. The size is sealed: no process can change it, so an access to a
// mapping never faults. Only processes of the same user can open the memory.
func Create(name string, size int) (*os.File, error) {
	fd, err := unix.MemfdCreate("weft", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("shmem: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = errors.Join(unix.Fchmod(fd, 0o600), f.Truncate(int64(size))); err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, fmt.Errorf("shmem: making %d bytes of memory: %w", size, errors.Join(err, f.Close()))
	}
	return f, nil
}

// Path returns the path by which other processes open the memory that process pid has open as
// descriptor fd.
func Path(pid int, fd uintptr) string { return fmt.Sprintf("/proc/%d/fd/%d", pid, fd) }

// Open opens memory that another process has made by Create with the same size.
func Open(path string, size int) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var st unix.Stat_t
	// The process may have closed the memory, and may use the descriptor's number for another file.
	if err != nil || unix.Fstat(fd, &st) != nil || seals&unix.F_SEAL_SHRINK == 0 || st.Size != int64(size) {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("%s is not, or is no longer, shared memory of %d bytes", path, size)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Map maps n bytes of a file, beginning at off, which must be a multiple of the page size.
func Map(f *os.File, off int64, n int, readOnly bool) ([]byte, error) {
	prot := unix.PROT_READ | unix.PROT_WRITE
	if readOnly {
		prot = unix.PROT_READ
	}
	b, err := unix.Mmap(int(f.Fd()), off, n, prot, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %d bytes of %s: %w", n, f.Name(), err)
	}
	return b, nil
}

// Unmap ends a mapping. b must be the slice that Map returned.
func Unmap(b []byte) error { return unix.Munmap(b) }

// Sync writes the pages of b[off:off+n] to the disk of their file. b is a mapping.
func Sync(b []byte, off, n int) error {
	if n == 0 {
		return nil
	}
	return unix.Msync(b[pageOf(off):off+n], unix.MS_SYNC)
}

// Populate makes the pages of b[off:off+n] present and writable now. That costs a quarter of page
// faults at first access. b is a mapping. Before Linux 5.14 Populate does nothing.
func Populate(b []byte, off, n int) {
	if n > 0 {
		_ = unix.Madvise(b[pageOf(off):off+n], unix.MADV_POPULATE_WRITE)
	}
}

var pageSize = os.Getpagesize()

func pageOf(off int) int { return off / pageSize * pageSize }
