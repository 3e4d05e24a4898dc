// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event/oracle"
	"weft/internal/fabric/inproc"
	"weft/rma"
	"weft/trace"
)

// ways spread the ranks of a test over simulated processes: all in one, each in its own, and a mix.
var ways = map[string]func(ctx context.Context) context.Context{
	"together": func(ctx context.Context) context.Context { return ctx },
	"apart":    func(ctx context.Context) context.Context { return inproc.Divide(ctx) },
	"mixed":    func(ctx context.Context) context.Context { return inproc.Divide(ctx, 2, 1, 3) },
}

// run runs body in each way. It records the run, and requires that a replay of the recording finds
// every operation legal.
func run(t *testing.T, ranks int, body func(c *comm.Comm) error) {
	t.Helper()
	rec := oracle.New(t)
	for way, as := range ways {
		if ranks < 2 && way != "together" || ranks < 3 && way == "mixed" {
			continue
		}
		require.NoError(t, comm.Run(as(t.Context()), comm.Config{Ranks: ranks, Trace: (*trace.Recorder)(rec)}, body), way)
	}
}

// runTogether is run for backings whose memory all ranks share.
func runTogether(t *testing.T, ranks int, body func(c *comm.Comm) error) {
	t.Helper()
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, body))
}

// expect returns an error, which ends the run, unless ok is true.
func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func wants(err, want error) error {
	return expect(errors.Is(err, want), "got %v, want %v", err, want)
}

func TestPutGetAcrossFences(t *testing.T) {
	for _, ranks := range []int{1, 2, 3, 7} {
		run(t, ranks, func(c *comm.Comm) error {
			me, n := c.Rank(), c.Size()
			w, mine, err := rma.Allocate[int32](c, n+me) // sizes differ
			if err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			for r := range n {
				if err := w.Put(comm.Of([]int32{int32(100*me + r)}), r, me); err != nil {
					return err
				}
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			for r := range n {
				if mine[r] != int32(100*r+me) {
					return fmt.Errorf("rank %d: from %d: %d", me, r, mine[r])
				}
			}
			if err := w.Fence(0); err != nil {
				// other ranks may write to mine only after this rank has read it
				return err
			}
			got := make([]int32, n)
			if err := w.Get(comm.Of(got), (me+1)%n, 0); err != nil {
				return err
			}
			if err := w.Fence(rma.NoSucceed); err != nil {
				return err
			}
			for r := range n {
				if got[r] != int32(100*r+(me+1)%n) {
					return fmt.Errorf("rank %d: got %v", me, got)
				}
			}
			return errors.Join(
				expect(w.GroupSize() == n && w.Size(n-1) == 4*(2*n-1) && w.Unit(0) == 4, "wrong shape: %v", w),
				wants(w.Put(comm.Of(got[:1]), 0, 0), rma.ErrSync),
				w.Free(),
				wants(w.Free(), rma.ErrFreed),
				wants(w.Fence(0), rma.ErrFreed),
				wants(w.Put(comm.Of(got[:1]), 0, 0), rma.ErrFreed))
		})
	}
}

func TestErrorRowsWriteNothing(t *testing.T) {
	run(t, 2, func(c *comm.Comm) error {
		mem := []float64{1, 2, 3, 4}
		w, err := rma.Create(c, mem)
		if err != nil {
			return err
		}
		one, two := comm.Of([]float64{9}), comm.Of([]float64{9, 9})
		other := 1 - c.Rank()
		err = wants(w.Put(one, other, 0), rma.ErrSync)
		if err := errors.Join(err, w.Fence(0)); err != nil {
			return err
		}
		user := comm.OpFunc(true, func(in, inout []float64) {})
		bytes := comm.Of(make([]byte, 33))
		ptrs := comm.Of([]*int{nil})
		err = errors.Join(
			wants(w.Put(one, 2, 0), rma.ErrRank),
			wants(w.Put(one, -1, 0), rma.ErrRank),
			wants(w.Get(one, math.MaxInt, 0), rma.ErrRank),
			w.Put(one, comm.ProcNull, 77),
			wants(w.Put(one, other, 4), rma.ErrRange),
			wants(w.Put(one, other, -1), rma.ErrRange),
			wants(w.Put(two, other, 3), rma.ErrRange),
			wants(w.Put(bytes, other, 0), rma.ErrRange),
			wants(w.Get(two, other, math.MaxInt), rma.ErrRange),
			wants(w.Get(two, other, math.MinInt), rma.ErrRange),
			wants(w.Accumulate(two, other, 3, comm.Sum), rma.ErrRange),
			w.Put(comm.Of([]float64{}), other, 4), // empty, at the very end
			w.Put(comm.Buffer{}, other, 0),
			wants(w.Put(comm.Of([]float64{}), other, 5), rma.ErrRange),
			wants(w.Accumulate(one, other, 0, user), rma.ErrOp),
			wants(w.Accumulate(one, other, 0, comm.Op{}), rma.ErrOp),
			wants(w.Accumulate(comm.Of([]bool{true}), other, 0, comm.Sum), rma.ErrOp),
			wants(w.Accumulate(comm.Of([]complex64{1}), other, 0, comm.Max), rma.ErrOp),
			wants(w.Put(ptrs, other, 0), comm.ErrType),
			wants(w.Get(comm.Vector(mem, 3, 2, 1), other, 0), comm.ErrBuffer),
			wants(w.Fence(1<<10), rma.ErrAssert),
			w.Fence(rma.NoStore|rma.NoPut|rma.NoPrecede),
		)
		for i, v := range mem {
			err = errors.Join(err, expect(v == float64(i+1), "element %d is %v", i, v))
		}
		var e *rma.Error
		perr := w.Put(one, 7, 0)
		err = errors.Join(err, expect(errors.As(perr, &e) && e.Op == "put" && e.Rank == c.Rank() && e.Peer == 7, "%v", perr))
		return errors.Join(err, w.Free())
	})
}

func TestMakersAgreeOnErrors(t *testing.T) {
	run(t, 3, func(c *comm.Comm) error {
		_, _, err1 := rma.Allocate[int](c, 5-4*c.Rank()) // -3 on rank 2
		_, _, err2 := rma.Allocate[int](c, math.MaxInt)
		_, err3 := rma.Create(c, make([]*int, c.Rank()))
		info := comm.NewInfo("no_locks", "maybe")
		_, _, err4 := rma.Allocate[int](c, 1, info)
		_, _, err5 := rma.Allocate[int](c, 1, comm.NewInfo("accumulate_ordering", "rar,xxx"))
		w, mem, err := rma.Allocate[struct{}](c, 3) // elements of size 0
		if err != nil {
			return err
		}
		err = errors.Join(w.Fence(0), w.Put(comm.Of(mem), 0, 0), w.Fence(0), w.Free())
		return errors.Join(wants(err1, rma.ErrSize), wants(err2, rma.ErrSize), wants(err3, comm.ErrType), wants(err4, rma.ErrInfo),
			wants(err5, rma.ErrInfo), err)
	})
}

func TestInfo(t *testing.T) {
	run(t, 2, func(c *comm.Comm) error {
		w, _, err := rma.Allocate[int16](c, 1+c.Rank(), comm.NewInfo("mine", "x", "no_locks", "false"))
		if err != nil {
			return err
		}
		err = errors.Join(w.SetInfo(comm.NewInfo("mine", "y", "accumulate_ordering", "rar, waw")),
			wants(w.SetInfo(comm.NewInfo("mine", "z", "same_size", "perhaps")), rma.ErrInfo))
		in := w.Info()
		for k, v := range map[string]string{"mine": "y", "no_locks": "true", "same_size": "false", "same_disp_unit": "true",
			"accumulate_ordering": "rar,raw,war,waw", "accumulate_ops": "same_op_no_op"} {
			err = errors.Join(err, expect(in.Get(k) == v, "%s=%q", k, in.Get(k)))
		}
		return errors.Join(err, w.Free())
	})
}

// Two ranks fence four windows in opposite orders, which blocking fences could not.
func TestFourWindowsFencedInOppositeOrders(t *testing.T) {
	const windows, epochs = 4, 50
	run(t, 2, func(c *comm.Comm) error {
		me := c.Rank()
		var ws [windows]*rma.Win
		var mine [windows][]int
		for i := range ws {
			var err error
			if ws[i], mine[i], err = rma.Allocate[int](c, 2); err != nil {
				return err
			}
		}
		order := func(i int) int {
			if me == 0 {
				return i
			}
			return windows - 1 - i
		}
		src := make([]int, windows*epochs)
		for e := range epochs {
			var reqs []*comm.Request
			for i := range windows {
				reqs = append(reqs, ws[order(i)].Ifence(0))
			}
			for i := range windows { // queued after the outstanding fences
				k := e*windows + order(i)
				src[k] = k + 1
				if err := ws[order(i)].Put(comm.Of(src[k:k+1]), 1-me, e%2); err != nil {
					return err
				}
			}
			for i := range windows {
				reqs = append(reqs, ws[order(i)].Ifence(0))
			}
			if err := comm.WaitAll(c.Context(), reqs...); err != nil {
				return err
			}
			for i := range windows {
				if got := mine[i][e%2]; got != e*windows+i+1 {
					return fmt.Errorf("rank %d epoch %d window %d: %d", me, e, i, got)
				}
			}
		}
		var err error
		for _, w := range ws {
			err = errors.Join(err, w.Free())
		}
		return err
	})
}

// All fences and operations are issued without waiting. Each operation takes effect in its own
// epoch, and Free carries out the rest.
func TestManyOutstandingFences(t *testing.T) {
	const epochs = 200
	for _, ranks := range []int{1, 2, 4} {
		run(t, ranks, func(c *comm.Comm) error {
			me, n := c.Rank(), c.Size()
			w, mine, err := rma.Allocate[int64](c, n)
			if err != nil {
				return err
			}
			right := (me + 1) % n
			src := make([]int64, epochs)
			seen := make([]int64, epochs)
			var reqs []*comm.Request
			for e := range epochs {
				src[e] = int64(e + 1)
				// A rank adds to the value in even epochs, and reads it back in odd ones.
				reqs = append(reqs, w.Ifence(0))
				if e%2 == 0 {
					err = errors.Join(err, w.Accumulate(comm.Of(src[e:e+1]), right, me, comm.Sum))
				} else {
					err = errors.Join(err, w.Get(comm.Of(seen[e:e+1]), right, me))
				}
			}
			reqs = append(reqs, w.Ifence(0))
			if err := errors.Join(err, comm.WaitAll(c.Context(), reqs...)); err != nil {
				return err
			}
			var sum int64
			for e := range epochs {
				if e%2 == 0 {
					sum += int64(e + 1)
				} else if seen[e] != sum {
					return fmt.Errorf("epoch %d: %d, want %d", e, seen[e], sum)
				}
			}
			left := (me + n - 1) % n
			if mine[left] != sum {
				return fmt.Errorf("%d, want %d", mine[left], sum)
			}
			w.Ifence(0)
			err = w.Put(comm.Of([]int64{-1}), right, me)
			err = errors.Join(err, w.Free())
			return errors.Join(err, expect(mine[left] == -1, "Free has not carried out the queued put: %v", mine))
		})
	}
}

// Goroutines put into every rank while the epochs change. Epochs alternate between two halves of
// the memory, so a target may read the half of the closed epoch. The race detector checks the order
// that the fences promise.
func TestEpochHammer(t *testing.T) {
	const epochs, writers, ranks = 60, 3, 3
	run(t, ranks, func(c *comm.Comm) error {
		me := c.Rank()
		w, mine, err := rma.Allocate[int](c, 2*ranks*writers)
		if err != nil {
			return err
		}
		if err := w.Fence(0); err != nil {
			return err
		}
		for e := 1; e <= epochs; e++ {
			half := e % 2 * ranks * writers
			var wg sync.WaitGroup
			errs := make([]error, writers)
			for g := range writers {
				wg.Go(func() {
					for r := range ranks {
						errs[g] = errors.Join(errs[g], w.Put(comm.Of([]int{e*1000 + me*10 + g}), r, half+me*writers+g))
					}
				})
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				return err
			}
			if err := w.Fence(0); err != nil {
				return err
			}
			for r := range ranks {
				for g := range writers {
					if got := mine[half+r*writers+g]; got != e*1000+r*10+g {
						return fmt.Errorf("rank %d epoch %d: from %d.%d: %d", me, e, r, g, got)
					}
				}
			}
		}
		return w.Free()
	})
}

// Operations race with calls of Ifence. Each operation belongs to one epoch or the next, and none
// is lost.
func TestFenceRacesWithOperationsHammer(t *testing.T) {
	const fences, writers, puts, ranks = 100, 3, 100, 2
	run(t, ranks, func(c *comm.Comm) error {
		w, mine, err := rma.Allocate[int64](c, 1)
		if err != nil {
			return err
		}
		w.Ifence(0)
		var wg sync.WaitGroup
		errs := make([]error, writers+1)
		one := []int64{1}
		for g := range writers {
			wg.Go(func() {
				for i := range puts {
					errs[g] = errors.Join(errs[g], w.Accumulate(comm.Of(one), (g+i)%ranks, 0, comm.Sum))
				}
			})
		}
		wg.Go(func() {
			reqs := make([]*comm.Request, fences)
			for i := range reqs {
				reqs[i] = w.Ifence(0)
			}
			errs[writers] = comm.WaitAll(c.Context(), reqs...)
		})
		wg.Wait()
		if err := errors.Join(append(errs, w.Fence(0))...); err != nil {
			return err
		}
		total := []int64{0}
		if err := c.Allreduce(comm.Of(mine), comm.Of(total), comm.Sum); err != nil {
			return err
		}
		return errors.Join(expect(total[0] == ranks*writers*puts, "total %d", total[0]), w.Free())
	})
}

func TestAbortEndsFences(t *testing.T) {
	boom := errors.New("boom")
	started := make(chan struct{})
	fenced := make(chan error, 1)
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, _, err := rma.Allocate[int](c, 1)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			<-started
			return boom
		}
		req := w.Ifence(0)
		more := w.Ifence(0)
		close(started)
		_, err = req.Wait(context.Background())
		fenced <- err
		_, err = more.Wait(context.Background())
		ferr := w.Free()
		return errors.Join(wants(err, comm.ErrAborted), wants(ferr, comm.ErrAborted))
	})
	require.ErrorIs(t, err, boom)
	require.ErrorIs(t, <-fenced, comm.ErrAborted)
}
