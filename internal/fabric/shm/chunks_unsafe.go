//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// numCounters is the number of transfers that both sides copy at one time, for one pair of ranks
// and one direction. The receiver copies further ones alone.
const numCounters = 8

// chunkCounter hands out the chunks of a transfer to its two sides. It lies in the receiver's
// inbox.
type chunkCounter struct {
	next atomic.Uint64 // generation << 32 | next chunk
	_    [lineSize - 8]byte
	over atomic.Uint64 // generation << 32 | chunks that are copied
	_    [lineSize - 8]byte
}

// start begins a new transfer, with the next generation. Only the receiver calls it, after it has
// seen the previous transfer end.
func (c *chunkCounter) start() (generation uint32) {
	generation = uint32(c.next.Load()>>32) + 1
	c.over.Store(uint64(generation) << 32)
	c.next.Store(uint64(generation) << 32)
	return generation
}

// take returns a chunk that the caller must copy; false if none is left, or the transfer has ended.
func (c *chunkCounter) take(generation uint32, chunks uint64) (uint64, bool) {
	for {
		w := c.next.Load()
		if uint32(w>>32) != generation || w&(1<<32-1) >= chunks {
			return 0, false
		}
		if c.next.CompareAndSwap(w, w+1) {
			return w & (1<<32 - 1), true
		}
	}
}

// end counts a chunk as copied, and reports whether it was the last.
func (c *chunkCounter) end(chunks uint64) bool { return c.over.Add(1)&(1<<32-1) == chunks }

// readPeer copies from the memory of another process.
func readPeer(pid int, dst []byte, addr uint64) error {
	return across(pid, dst, addr, unix.ProcessVMReadv)
}

// writePeer copies to the memory of another process.
func writePeer(pid int, src []byte, addr uint64) error {
	return across(pid, src, addr, unix.ProcessVMWritev)
}

// across copies all of mem with move, which is process_vm_readv or process_vm_writev.
func across(pid int, mem []byte, addr uint64, move func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error)) error {
	for len(mem) > 0 {
		local := [1]unix.Iovec{{Base: &mem[0]}}
		local[0].SetLen(len(mem))
		remote := [1]unix.RemoteIovec{{Base: uintptr(addr), Len: len(mem)}}
		n, err := move(pid, local[:], remote[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		case n <= 0:
			return unix.EFAULT
		}
		mem, addr = mem[n:], addr+uint64(n)
	}
	return nil
}

func address(mem []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) }
