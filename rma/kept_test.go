// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
	"weak"

	"weft/comm"
	"weft/rma"
)

// No reference to the memory of a freed window remains, although the run keeps its last
// communicators.
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
		if err := errors.Join(err, c.Barrier()); err != nil {
			// ranks of one process share the references
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

// A queued operation releases its buffer when it is carried out, even while the next fence waits in
// the queue.
func TestMemoryOfQueuedOperation(t *testing.T) {
	run(t, 2, func(c *comm.Comm) error {
		w, _, err := rma.Allocate[int64](c, 8)
		if err := errors.Join(err, w.Fence(0)); err != nil {
			return err
		}
		token := comm.Of([]byte{1})
		if c.Rank() == 1 {
			for range 2 {
				if _, err := c.Recv(token, 0, 0); err != nil {
					return err
				}
				if err := w.Fence(0); err != nil {
					return err
				}
			}
			return w.Free()
		}
		put := func() (weak.Pointer[int64], error) {
			src := make([]int64, 8)
			return weak.Make(&src[0]), w.Put(comm.Of(src), 1, 0)
		}
		first := w.Ifence(0)
		mem, err := put()
		second := w.Ifence(0)
		if err := errors.Join(err, c.Send(token, 1, 0)); err != nil {
			return err
		}
		if _, err := first.Wait(context.Background()); err != nil {
			return err
		}
		for end := time.Now().Add(20 * time.Second); mem.Value() != nil; runtime.GC() {
			if time.Now().After(end) {
				return errors.New("the memory of a put is kept while the next fence waits")
			}
		}
		if second.Done() {
			return errors.New("the other rank is not in its fence")
		}
		err = c.Send(token, 1, 0)
		_, ferr := second.Wait(context.Background())
		return errors.Join(err, ferr, w.Free())
	})
}
