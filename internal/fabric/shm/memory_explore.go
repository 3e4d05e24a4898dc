//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"os"

	"weft/internal/shmem"
)

// makeInbox makes an inbox in the memory of the process.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := place(n)
	return newInbox(shmem.Heap(end), n), nil, nil
}

// of returns the inbox as another rank has mapped it.
func (b *inbox) of(src int) *inbox {
	in := b.incoming(src)
	return &inbox{mem: b.mem, ring: in.data, head: b.head}
}

func prefault([]byte) {}

func (b *inbox) unmap() {}
