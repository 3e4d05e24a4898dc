// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/rma"
)

// slowBacking completes its hooks on other goroutines, and fails at the hook failAt. Each rank has
// its own slowBacking; all share the memory.
type slowBacking struct {
	mem    []byte
	lock   *sync.Mutex
	failAt string // "put", "flush", "closed", "free"
	err    error

	flushed, closed, freed atomic.Int32
	wg                     sync.WaitGroup
}

func (b *slowBacking) Regions() []rma.Region { return []rma.Region{{Size: len(b.mem), Unit: 1}} }

func (b *slowBacking) result(at string) error {
	if b.failAt == at {
		return b.err
	}
	return nil
}

func (b *slowBacking) Put(_, off int, src comm.Buffer) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	if err := b.result("put"); err != nil {
		return err
	}
	src.CopyToBytes(b.mem[off:], 0)
	return nil
}

func (b *slowBacking) Get(_, off int, dst comm.Buffer) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	dst.CopyFromBytes(b.mem[off:], 0)
	return nil
}

func (b *slowBacking) Accumulate(_, off int, src comm.Buffer, op comm.Op) error {
	b.lock.Lock()
	defer b.lock.Unlock()
	return rma.Apply(b.mem[off:off+src.Bytes()], src, op)
}

func (b *slowBacking) Flush(done func(error)) {
	b.flushed.Add(1)
	b.wg.Go(func() { done(b.result("flush")) })
}

func (b *slowBacking) Closed(done func(error)) {
	if b.closed.Add(1) > b.flushed.Load() {
		panic("closed before flushed")
	}
	b.wg.Go(func() { done(b.result("closed")) })
}

func (b *slowBacking) Free() error {
	b.wg.Wait()
	if b.freed.Add(1) > 1 {
		panic("freed twice")
	}
	return b.result("free")
}

func newSlowBackings(n int) []*slowBacking {
	mem, lock := make([]byte, 64), &sync.Mutex{}
	bs := make([]*slowBacking, n)
	for i := range bs {
		bs[i] = &slowBacking{mem: mem, lock: lock, err: errors.New("backing failed")}
	}
	return bs
}

// Each error of a backing is returned to the right caller, and the other rank does not wait.
func TestBackingFailures(t *testing.T) {
	for _, at := range []string{"put", "flush", "closed", "free"} {
		for _, queued := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/queued=%v", at, queued), func(t *testing.T) {
				bs := newSlowBackings(2)
				bs[0].failAt = at
				runTogether(t, 2, func(c *comm.Comm) error {
					b := bs[c.Rank()]
					w, err := rma.New(c, b, comm.Info{})
					if err != nil {
						return err
					}
					first := w.Ifence(0)
					if !queued {
						if _, err := first.Wait(c.Context()); (err != nil) != (c.Rank() == 0 && (at == "flush" || at == "closed")) {
							return fmt.Errorf("first fence: %w", err)
						}
					}
					perr := w.Put(comm.Of([]byte{1}), 0, c.Rank())
					ferr := w.Fence(0)
					freeErr := w.Free()
					if c.Rank() == 1 {
						return errors.Join(perr, ferr, freeErr)
					}
					got := map[string]error{"put": perr, "flush": ferr, "closed": ferr, "free": freeErr}[at]
					if at == "put" && queued {
						// The put was queued, so the next fence returns its error; unless the first
						// fence was complete before the put.
						got = errors.Join(perr, ferr)
					}
					var e *rma.Error
					return errors.Join(wants(got, b.err), expect(errors.As(got, &e), "untyped %v", got))
				})
				for _, b := range bs {
					require.EqualValues(t, 1, b.freed.Load())
					require.EqualValues(t, 2, b.closed.Load(), "the fence of Free is not an epoch")
					require.EqualValues(t, 3, b.flushed.Load())
				}
			})
		}
	}
}

// A run that ends without Free frees its windows, after the operations in progress.
func TestForgottenWindowsAreFreed(t *testing.T) {
	for _, boom := range []error{nil, errors.New("boom")} {
		bs := newSlowBackings(3)
		var ws [3]*rma.Win
		err := comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) (err error) {
			if ws[c.Rank()], err = rma.New(c, bs[c.Rank()], comm.Info{}); err != nil {
				return err
			}
			if err := ws[c.Rank()].Fence(0); err != nil {
				return err
			}
			ws[c.Rank()].Ifence(0)
			if err := ws[c.Rank()].Put(comm.Of([]byte{1}), 0, 0); err != nil {
				return err
			}
			if c.Rank() == 1 {
				return boom
			}
			return nil
		})
		if boom == nil {
			require.NoError(t, err)
		}
		for r, w := range ws {
			if w == nil {
				continue // the run was aborted before New
			}
			require.ErrorIs(t, w.Free(), comm.ErrAborted, "rank %d", r)
			require.ErrorIs(t, w.Put(comm.Of([]byte{1}), 0, 0), rma.ErrFreed)
			require.ErrorIs(t, w.Fence(0), rma.ErrFreed)
		}
	}
}

// Long chains of fences do not deepen the stack, and asynchronous backings keep the order.
func TestManyFencesOnASlowBacking(t *testing.T) {
	const fences = 3000
	bs := newSlowBackings(2)
	runTogether(t, 2, func(c *comm.Comm) error {
		w, err := rma.New(c, bs[c.Rank()], comm.Info{})
		if err != nil {
			return err
		}
		var order []int
		var mu sync.Mutex
		reqs := make([]*comm.Request, fences)
		one := []uint32{1}
		for i := range reqs {
			reqs[i] = w.Ifence(0)
			reqs[i].OnDone(func(error) {
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
			})
			if err := w.Accumulate(comm.Of(one), 0, 0, comm.Sum); err != nil {
				return err
			}
		}
		if err := comm.WaitAll(c.Context(), reqs...); err != nil {
			return err
		}
		sum := []uint32{0}
		err = errors.Join(w.Fence(0), w.Get(comm.Of(sum), 0, 0), w.Fence(0), w.Free())
		mu.Lock()
		defer mu.Unlock()
		for i, o := range order {
			if o != i {
				return fmt.Errorf("fence %d completed as number %d", o, i)
			}
		}
		return errors.Join(err, expect(sum[0] == 2*fences, "%d", sum[0]))
	})
}
