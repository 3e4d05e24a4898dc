// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"runtime"
	"testing"
	"weak"

	"weft/comm"
	"weft/rma"
)

// The memory of a window that is freed is kept by nothing, though the run keeps the last
// communicators that were made.
func TestMemoryOfFreedWindow(t *testing.T) {
	run(t, 3, func(c *comm.Comm) error {
		use := func() (weak.Pointer[int64], error) {
			mem := make([]int64, 1<<16)
			w, err := rma.Create(c, mem)
			if err != nil {
				return weak.Pointer[int64]{}, err
			}
			return weak.Make(&mem[0]), errors.Join(w.Fence(0), w.Put(comm.Of(mem[:100]), (c.Rank()+1)%c.Size(), 200), w.Fence(0), w.Free())
		}
		mem, err := use()
		if err := errors.Join(err, c.Barrier()); err != nil { // ranks of one process have the memory in common
			return err
		}
		for range 5 {
			runtime.GC()
		}
		if mem.Value() != nil {
			return fmt.Errorf("rank %d: the memory of a freed window is kept", c.Rank())
		}
		return c.Barrier()
	})
}
