//go:build linux && !explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"weft/internal/shmem"
)

// makeInbox makes the memory of an inbox for n ranks. The descriptor must stay open while others may come.
func makeInbox(n int) (*inbox, *os.File, error) {
	_, _, end := place(n)
	f, err := shmem.Create("weft inbox", end)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: %w", err)
	}
	mem, err := shmem.Map(f, 0, end, false)
	if err != nil {
		return nil, nil, fmt.Errorf("shm: %w", errors.Join(err, f.Close()))
	}
	b := newInbox(mem, n)
	_, _ = rand.Read(b.head.token[:]) // never fails
	return b, f, nil
}

// openInbox maps the parts of another rank's inbox that the sender src needs.
func openInbox(path string, n, src int, token [16]byte) (*inbox, error) {
	_, rings, end := place(n)
	f, err := shmem.Open(path, end)
	if err != nil {
		return nil, fmt.Errorf("the inbox of a run of %d ranks: %w", n, err)
	}
	defer func() { _ = f.Close() }()
	mem, err := shmem.Map(f, 0, rings, false)
	if err != nil {
		return nil, err
	}
	b := &inbox{mem: mem, head: shmem.View[inboxHead](mem, 0)}
	if b.head.magic != magic || b.head.size != uint64(n) || b.head.token != token {
		b.unmap()
		return nil, fmt.Errorf("%s is not the inbox that was named", path)
	}
	if b.ring, err = shmem.Map(f, int64(rings)+int64(src)*ringSize, ringSize, false); err != nil {
		b.unmap()
		return nil, err
	}
	return b, nil
}

// prefault has the kernel map the memory now, and not when messages come: there is a page for every 64 small frames of the first lap, and each
// costs as much as twenty frames.
func prefault(mem []byte) { shmem.Populate(mem, 0, len(mem)) }

func (b *inbox) unmap() {
	_ = shmem.Unmap(b.mem)
	if b.ring != nil {
		_ = shmem.Unmap(b.ring)
	}
}
