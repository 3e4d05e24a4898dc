//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"weft/internal/shmem"
	"weft/internal/xatomic"
)

const (
	version = 4
	magic   = 0x7766747368_0000 | version // "wftsh"
)

// inboxHead is what an inbox begins with. Rings and their controls follow: see place.
type inboxHead struct {
	magic uint64
	size  uint64 // ranks that there is room for
	token [16]byte
	_     [lineSize - 32]byte
	look  xatomic.Uint32 // package comment, "Who polls"
	_     [lineSize - 4]byte
	joins xatomic.Uint32 // producers that have come
	_     [lineSize - 4]byte
}

var controlSize = (shmem.SizeOf[ringControl]() + lineSize - 1) &^ (lineSize - 1)

func align(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }

// place returns where in an inbox of n ranks the controls begin, behind the memory for others, and
// the rings, and where it ends.
func place(n int) (controls, rings, end int) {
	controls = pageSize + sharedSize
	rings = align(controls + n*controlSize)
	return controls, rings, rings + n*ringSize
}

// inbox is one that is mapped.
type inbox struct {
	mem  []byte // all but the rings; of the owner, all
	ring []byte // of others: the ring in it
	head *inboxHead
}

// newInbox makes an inbox for n ranks of memory that is zero.
func newInbox(mem []byte, n int) *inbox {
	b := &inbox{mem: mem, head: shmem.View[inboxHead](mem, 0)}
	b.head.size = uint64(n)
	b.head.magic = magic
	return b
}

// shared is the memory for others.
func (b *inbox) shared() []byte { return b.mem[pageSize : pageSize+sharedSize : pageSize+sharedSize] }

func (b *inbox) control(src int) *ringControl {
	controls, _, _ := place(0)
	return shmem.View[ringControl](b.mem, controls+src*controlSize)
}

// incoming returns the consumer's side of the ring of src. The owner.
func (b *inbox) incoming(src int) ring {
	_, rings, _ := place(int(b.head.size))
	off := rings + src*ringSize
	return ring{data: b.mem[off : off+ringSize : off+ringSize], ctl: b.control(src)}
}

// prepare has the memory of a ring mapped, as far as that is no waste where there are many ranks.
func (r *ring) prepare(ranks int) {
	n := ringSize
	if ranks > allOfRing {
		n = partOfRing
	}
	prefault(r.data[:n])
}

// outgoing returns the producer's side of the ring of src.
func (b *inbox) outgoing(src int) ring { return ring{data: b.ring, ctl: b.control(src)} }
