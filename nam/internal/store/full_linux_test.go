// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	s, err := Open(filepath.Join(dir, "store"), Config{})
	require.NoError(t, err)
	_, err = makeWindow(s, oneRegion("big", 8<<20))
	require.ErrorIs(t, err, ErrNoSpace)
	require.ErrorIs(t, err, syscall.ENOSPC)
	requireSound(t, s)

	// Fill the rest to the last page. All granted memory can be written, and removing still works.
	var held []*Handle
	for size := uint64(512 << 10); ; {
		h, err := makeWindow(s, oneRegion("", size))
		if err == nil {
			held = append(held, h)
			continue
		}
		require.ErrorIs(t, err, ErrNoSpace)
		if size == 0 {
			break
		}
		size /= 2
	}
	require.NotEmpty(t, held)
	for _, h := range held {
		m := h.Region(0)
		for i := range m {
			m[i] = 0xff
		}
	}
	for _, h := range held {
		require.NoError(t, s.Remove(h.Entry().Name))
		require.NoError(t, h.Release())
	}
	requireSound(t, s)
	h, err := makeWindow(s, oneRegion("", 512<<10))
	require.NoError(t, err)
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
}

// Open on a full disk fails and leaves nothing that takes space.
func TestStoreOnAFullDisk(t *testing.T) {
	for _, pages := range []int{1, 3, 5} {
		dir := t.TempDir()
		if err := unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", pages*os.Getpagesize())); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v", err)
		}
		_, err := Open(filepath.Join(dir, "store"), Config{})
		assert.ErrorIs(t, err, ErrNoSpace)
		assert.NoFileExists(t, filepath.Join(dir, "store", metaTemp))
		require.NoError(t, unix.Unmount(dir, 0))
	}
}
