//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// makeInbox makes the memory of an inbox for n ranks. The descriptor must stay open while others may come.
func makeInbox(n int) (*inbox, *os.File, error) {
	fd, err := unix.MemfdCreate("weft", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "weft inbox")
	_, _, end := place(n)
	b, err := func() (*inbox, error) {
		err := errors.Join(unix.Fchmod(fd, 0o600), f.Truncate(int64(end)))
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
		}
		if err != nil {
			return nil, err
		}
		mem, err := unix.Mmap(fd, 0, int(end), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		return &inbox{mem: mem, head: (*inboxHead)(unsafe.Pointer(&mem[0]))}, nil
	}()
	if err != nil {
		return nil, nil, fmt.Errorf("shm: making %d bytes of memory: %w", end, errors.Join(err, f.Close()))
	}
	_, _ = rand.Read(b.head.token[:]) // never fails
	b.head.size = uint64(n)
	b.head.magic = magic
	return b, f, nil
}

// openInbox maps the parts of another rank's inbox that the sender src needs.
func openInbox(path string, n, src int, token [16]byte) (*inbox, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	_, rings, end := place(n)
	has, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	var st unix.Stat_t
	// The rank may have closed its inbox, and have something else under the number of its descriptor.
	if err != nil || unix.Fstat(fd, &st) != nil || has&unix.F_SEAL_SHRINK == 0 || st.Size != int64(end) {
		return nil, fmt.Errorf("%s is no inbox of a run of %d ranks, or not any more", path, n)
	}
	mem, err := unix.Mmap(fd, 0, int(rings), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	b := &inbox{mem: mem, head: (*inboxHead)(unsafe.Pointer(&mem[0]))}
	if b.head.magic != magic || b.head.size != uint64(n) || b.head.token != token {
		b.unmap()
		return nil, fmt.Errorf("%s is not the inbox that was named", path)
	}
	b.ring, err = unix.Mmap(fd, int64(rings)+int64(src)*ringSize, ringSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		b.unmap()
		return nil, fmt.Errorf("mapping %s: %w", path, err)
	}
	return b, nil
}

// prefault has the kernel map the memory now, at a quarter of what it costs page by page, and not when messages come: there is a page for
// every 64 small frames of the first lap, and each costs as much as twenty frames. Where the kernel does not know the call (before Linux 5.14), it
// comes later.
func prefault(mem []byte) { _ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE) }

func (b *inbox) unmap() {
	_ = unix.Munmap(b.mem)
	if b.ring != nil {
		_ = unix.Munmap(b.ring)
	}
}
