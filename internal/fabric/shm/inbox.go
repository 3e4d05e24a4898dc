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

// inboxHead is the beginning of an inbox. Rings and their controls follow: see layout.
type inboxHead struct {
	magic        uint64
	size         uint64 // number of ranks that have a ring
	token        [16]byte
	_            [lineSize - 32]byte
	doorbellWord xatomic.Uint32 // package comment, "The states of an inbox"
	_            [lineSize - 4]byte
	joins        xatomic.Uint32 // number of producers that have connected
	_            [lineSize - 4]byte
}

var controlSize = (shmem.SizeOf[ringControl]() + lineSize - 1) &^ (lineSize - 1)

func align(n int) int { return (n + pageSize - 1) &^ (pageSize - 1) }

// layout returns the offsets in an inbox of n ranks: where the controls begin, after the shared
// memory; where the rings begin; where the inbox ends.
func layout(n int) (controls, rings, end int) {
	controls = pageSize + sharedSize
	rings = align(controls + n*controlSize)
	return controls, rings, rings + n*ringSize
}

// inbox is a mapped inbox.
type inbox struct {
	mem  []byte // the owner's: all of it; a producer's: all but the rings
	ring []byte // a producer's: its ring
	head *inboxHead
}

// newInbox makes an inbox for n ranks in mem, which is zero.
func newInbox(mem []byte, n int) *inbox {
	b := &inbox{mem: mem, head: shmem.View[inboxHead](mem, 0)}
	b.head.size = uint64(n)
	b.head.magic = magic
	return b
}

// shared returns the memory for the layers above: Endpoint.Shared.
func (b *inbox) shared() []byte { return b.mem[pageSize : pageSize+sharedSize : pageSize+sharedSize] }

func (b *inbox) control(src int) *ringControl {
	controls, _, _ := layout(0)
	return shmem.View[ringControl](b.mem, controls+src*controlSize)
}

// incoming returns the consumer's side of the ring of src. For the owner only.
func (b *inbox) incoming(src int) ring {
	_, rings, _ := layout(int(b.head.size))
	off := rings + src*ringSize
	return ring{data: b.mem[off : off+ringSize : off+ringSize], ctl: b.control(src)}
}

// prepare maps the pages of a ring now. Where there are many ranks, it maps only the beginning, to
// save memory.
func (r *ring) prepare(ranks int) {
	n := ringSize
	if ranks > allOfRing {
		n = partOfRing
	}
	prefault(r.data[:n])
}

// outgoing returns the producer's side of the ring of src.
func (b *inbox) outgoing(src int) ring { return ring{data: b.ring, ctl: b.control(src)} }
