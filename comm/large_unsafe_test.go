// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package comm

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

const (
	largePage = 64 << 20
	largeSize = 2<<30 + 2*largePage // more than a signed 32-bit number can hold
)

// largeBuffer returns memory of largeSize bytes that costs 128 MiB: one file is mapped many times,
// and another one at the end.
func largeBuffer(t *testing.T) []byte {
	t.Helper()
	open := func() int {
		f, err := os.Create(filepath.Join(t.TempDir(), "page"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() })
		require.NoError(t, f.Truncate(largePage))
		return int(f.Fd())
	}
	all, err := syscall.Mmap(-1, 0, largeSize, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skipf("%d bytes of address space are needed: %v", largeSize, err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Munmap(all)) })
	body, end := open(), open()
	for off := 0; off < largeSize; off += largePage {
		fd := body
		if off+largePage == largeSize {
			fd = end
		}
		_, _, errno := syscall.Syscall6(syscall.SYS_MMAP, uintptr(unsafe.Pointer(&all[off])), largePage, syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_SHARED|syscall.MAP_FIXED, uintptr(fd), 0)
		require.Zero(t, errno)
	}
	return all
}

// Messages may have more than 2^31 bytes: in one process, and over a fabric, in pieces and not.
func TestLargeMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("it copies gigabytes")
	}
	var fs syscall.Statfs_t
	require.NoError(t, syscall.Statfs(t.TempDir(), &fs))
	var mem syscall.Sysinfo_t
	require.NoError(t, syscall.Sysinfo(&mem))
	if free := uint64(mem.Freeram+mem.Bufferram) * uint64(mem.Unit); fs.Bavail*uint64(fs.Bsize) < 1<<30 || free < 512<<20 {
		t.Skipf("it needs 1 GiB of disk and 512 MiB of memory; there are %d and %d bytes", fs.Bavail*uint64(fs.Bsize), free)
	}
	src, dst := largeBuffer(t), largeBuffer(t)
	for i := range largePage {
		src[i] = byte(i >> 8)
	}
	copy(src[largeSize-8:], "the end.")
	ways := map[string]func(ctx context.Context, cfg Config, body func(c *Comm) error) error{"together": Run, "apart": runApart, "tcp": runTCP}
	for way, run := range ways {
		t.Run(way, func(t *testing.T) {
			dst[largeSize-1], dst[12345] = 0, 0
			require.NoError(t, run(context.Background(), Config{Ranks: 2}, func(c *Comm) error {
				if c.Rank() == 0 {
					return c.Send(Of(src), 1, 1)
				}
				st, err := c.Recv(Of(dst), 0, 1)
				if err != nil {
					return err
				}
				if err := expect("bytes", largeSize, st.Bytes); err != nil {
					return err
				}
				if err := expect("the end", "the end.", string(dst[largeSize-8:])); err != nil {
					return err
				}
				return expect("a byte", src[12345], dst[12345])
			}))
		})
	}
}
