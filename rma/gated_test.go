// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/rma"
)

// gatedBacking blocks operations until the test opens the gate.
type gatedBacking struct {
	*slowBacking
	begun, gate chan struct{}
}

func (b gatedBacking) block() {
	b.begun <- struct{}{}
	<-b.gate
}

func (b gatedBacking) Put(r, off int, src comm.Buffer) error {
	b.block()
	return b.slowBacking.Put(r, off, src)
}

func (b gatedBacking) Get(r, off int, dst comm.Buffer) error {
	b.block()
	return b.slowBacking.Get(r, off, dst)
}

func (b gatedBacking) Accumulate(r, off int, src comm.Buffer, op comm.Op) error {
	b.block()
	return b.slowBacking.Accumulate(r, off, src, op)
}

// operations has one operation of each kind, on one byte of rank 0.
var operations = map[string]func(w *rma.Win) error{
	"put":        func(w *rma.Win) error { return w.Put(comm.Of([]byte{1}), 0, 0) },
	"get":        func(w *rma.Win) error { return w.Get(comm.Of([]byte{1}), 0, 1) },
	"accumulate": func(w *rma.Win) error { return w.Accumulate(comm.Of([]byte{1}), 0, 2, comm.Sum) },
}

// A fence, and Free, wait for the operations of other goroutines of the rank, direct and queued,
// and for nothing else. They go on, at all ranks, when the last operation ends.
func TestFenceWaitsForOperationsOfOthers(t *testing.T) {
	const goroutines = 3
	for name, do := range operations {
		for _, how := range []string{"fence", "free", "queued"} {
			bs := newSlowBackings(2)
			begun, gate := make(chan struct{}), make(chan struct{})
			runTogether(t, 2, func(c *comm.Comm) error {
				b := gatedBacking{bs[c.Rank()], begun, gate}
				w, err := rma.New(c, b, comm.Info{})
				if err != nil {
					return err
				}
				if err := w.Fence(0); err != nil {
					return err
				}
				if c.Rank() == 1 {
					return errors.Join(w.Fence(0), w.Fence(0), w.Free())
				}
				errs := make(chan error, goroutines)
				for range goroutines {
					go func() { errs <- do(w) }()
				}
				for range goroutines {
					<-begun
				}
				flushed := b.flushed.Load()
				var first *comm.Request
				freed := make(chan error, 1)
				if how == "free" {
					go func() { freed <- errors.Join(w.Fence(0), w.Fence(0), w.Free()) }()
				} else {
					first = w.Ifence(0)
				}
				if how == "queued" {
					// carried out by the goroutine that completes the fence
					err = errors.Join(err, do(w))
				}
				for i := range goroutines {
					for range 100 {
						runtime.Gosched()
					}
					if n := b.flushed.Load(); n != flushed || first != nil && first.Done() {
						return fmt.Errorf("%s, %s: %d flushes, and %d operations in progress", name, how, n-flushed, goroutines-i)
					}
					gate <- struct{}{}
					err = errors.Join(err, <-errs)
				}
				if how == "free" {
					return errors.Join(err, <-freed)
				}
				_, ferr := first.Wait(c.Context())
				if how == "queued" {
					<-begun
					second := w.Ifence(0)
					for range 100 {
						runtime.Gosched()
					}
					if n := b.flushed.Load(); n != flushed+1 || second.Done() {
						return fmt.Errorf("%s: %d flushes, and a queued operation is in progress", name, n-flushed)
					}
					gate <- struct{}{}
					_, serr := second.Wait(c.Context())
					return errors.Join(err, ferr, serr, w.Free())
				}
				return errors.Join(err, ferr, w.Fence(0), w.Free())
			})
		}
	}
}

// Each limit of displacement, length and target rank is legal, and the next value is not. The test
// covers each operation, units of one and several bytes, and regions with and without bytes.
func TestEdgesOfRegions(t *testing.T) {
	run(t, 3, func(c *comm.Comm) error {
		for _, size := range []int{0, 1, 7, 8} {
			// in units of two bytes: 0, size, 2*size
			w, mine, err := rma.Allocate[int16](c, size*c.Rank())
			if err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			type row struct{ rank, disp, bytes int }
			for op, call := range map[string]func(b comm.Buffer, rank, disp int) error{
				"get":        w.Get,
				"put":        w.Put,
				"accumulate": func(b comm.Buffer, rank, disp int) error { return w.Accumulate(b, rank, disp, comm.Sum) },
			} {
				for rank := -1; rank <= 3 && c.Rank() == size%3; rank++ {
					// one rank, because all operations reach the same bytes
					units := size * rank
					for _, disp := range []int{-1, 0, 1, units - 1, units, units + 1} {
						for _, bytes := range []int{0, 1, 2, 2*(units-disp) - 1, 2 * (units - disp), 2*(units-disp) + 1} {
							if bytes < 0 {
								continue
							}
							want := error(nil)
							switch {
							case rank == comm.ProcNull:
							case rank < 0 || rank > 2:
								want = rma.ErrRank
							case disp < 0 || disp > units || 2*disp+bytes > 2*units:
								want = rma.ErrRange
							}
							var e *rma.Error
							got := call(comm.Of(make([]byte, bytes)), rank, disp)
							if !errors.Is(got, want) || want != nil && (!errors.As(got, &e) || e.Op != op || e.Peer != rank) {
								return fmt.Errorf("%s, %+v of %d units: %v; want %v", op, row{rank, disp, bytes}, units, got, want)
							}
						}
					}
				}
				if err := w.Fence(0); err != nil {
					return err
				}
			}
			if err := errors.Join(w.Fence(0), w.Free()); err != nil {
				return err
			}
			for i, v := range mine {
				if v != 0 {
					return fmt.Errorf("rank %d: element %d is %d", c.Rank(), i, v)
				}
			}
		}
		return nil
	})
}

// Sizes just outside the limits are refused, and size 0 is legal.
func TestEdgesOfSizes(t *testing.T) {
	type huge [1 << 40]byte
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		_, _, one := rma.Allocate[huge](c, 1<<8+1)
		_, _, minus := rma.Allocate[byte](c, -1)
		_, _, above := rma.Allocate[byte](c, 1<<48+1)
		_, _, pair := rma.Allocate[int16](c, 1<<47+1)
		w, _, zero := rma.Allocate[byte](c, 0)
		if zero != nil {
			return zero
		}
		return errors.Join(wants(one, rma.ErrSize), wants(minus, rma.ErrSize), wants(above, rma.ErrSize), wants(pair, rma.ErrSize), w.Free())
	}))
}

// The offer of another rank is checked at each bound of each word, before it is used.
func TestBadOffers(t *testing.T) {
	type offer struct{ size, unit, code, id, leader int64 }
	for _, bad := range []offer{
		{-1, 1, 0, 0, 0}, {1<<48 + 1, 1, 0, 0, 0}, {8, 0, 0, 0, 0}, {8, -1, 0, 0, 0}, {8, 1, 0, 0, -1}, {8, 1, 0, 0, 2},
	} {
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			if c.Rank() == 1 {
				return c.AllgatherFor(comm.ForWindow, comm.Of([]offer{bad}), comm.Of(make([]offer, 2)))
			}
			_, err := rma.Create(c, make([]int64, 1))
			if !errors.Is(err, rma.ErrProtocol) || !strings.Contains(err.Error(), fmt.Sprintf("rank 1 brings %d bytes in units of %d, led by rank %d", bad.size, bad.unit, bad.leader)) {
				return fmt.Errorf("%v: %w", bad, err)
			}
			return nil
		}))
	}
}

// New frees its backing if it cannot make a communicator for the window.
func TestNewOnARevokedCommunicator(t *testing.T) {
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		d.Revoke()
		b := &slowBacking{mem: make([]byte, 8), lock: new(sync.Mutex)}
		_, err = rma.New(d, b, comm.Info{})
		var of *rma.Error
		if !errors.As(err, &of) || of.Op != "create window" || !errors.Is(err, comm.ErrRevoked) {
			return fmt.Errorf("a window of a revoked communicator: %w", err)
		}
		if n := b.freed.Load(); n != 1 {
			return fmt.Errorf("its backing was freed %d times", n)
		}
		return nil
	}))
}

// wideBacking has few bytes, and a large displacement unit.
type wideBacking struct {
	slowBacking
	unit int
}

func (b *wideBacking) Regions() []rma.Region { return []rma.Region{{Size: len(b.mem), Unit: b.unit}} }

// A displacement whose offset in bytes overflows an int is outside the region.
func TestDisplacementsDoNotOverflow(t *testing.T) {
	const unit = 1 << 40
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		w, err := rma.New(c, &wideBacking{slowBacking{mem: make([]byte, 8), lock: new(sync.Mutex)}, unit}, comm.Info{})
		if err != nil {
			return err
		}
		err = w.Fence(0)
		for _, disp := range []int{1, 1 << 22, 1 << 23, 1 << 24, 1 << 25, 1 << 62, math.MaxInt} {
			if e := w.Put(comm.Of([]int64{1}), 0, disp); !errors.Is(e, rma.ErrRange) {
				err = errors.Join(err, fmt.Errorf("a put at displacement %d: %w", disp, e))
			}
		}
		return errors.Join(err, w.Put(comm.Of([]int64{1}), 0, 0), w.Fence(rma.NoSucceed), w.Free())
	}))
}
