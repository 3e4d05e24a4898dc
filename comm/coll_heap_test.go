// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/comm/internal/smcoll"
	"weft/internal/fabric"

	"github.com/stretchr/testify/require"
)

// floatBits are the results of reductions of floats, whose last bits depend on the order.
func floatBits(t *testing.T, ranks, n int) [][]float64 {
	t.Helper()
	results := make([][]float64, ranks)
	require.NoError(t, Run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
		rng := rand.New(rand.NewPCG(uint64(c.Rank()), 1))
		in, out := make([]float64, n), make([]float64, n)
		for i := range in {
			in[i] = rng.NormFloat64() * 1e8
		}
		var all []float64
		for root := range ranks {
			if err := c.Reduce(Of(in), Of(out), Sum, root); err != nil {
				return err
			}
			all = append(all, out...)
		}
		if err := c.Scan(Of(in), Of(out), Sum); err != nil {
			return err
		}
		all = append(all, out...)
		if err := c.Allreduce(Of(in), Of(in), Prod); err != nil { // in place
			return err
		}
		results[c.Rank()] = append(all, in...)
		return nil
	}))
	return results
}

func TestHeapCombinesInTheOrderOfMessages(t *testing.T) {
	for ranks := 2; ranks <= 9; ranks++ {
		for _, n := range []int{1, 20, 3000} {
			direct := floatBits(t, ranks, n)
			onlyMessages.Store(true)
			require.Equal(t, floatBits(t, ranks, n), direct, "%d ranks, %d elements", ranks, n)
			onlyMessages.Store(false)
		}
	}
}

// One rank is far ahead of the others: collectives without a free slot wait for one, and nothing is
// lost or mixed up.
func TestHeapWaitsForSlots(t *testing.T) {
	const many = 5*smcoll.Width + 3
	for _, ranks := range []int{2, 3, 4} {
		for _, n := range []int{1, 100} {
			var ahead sync.WaitGroup
			ahead.Add(1)
			require.NoError(t, Run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
				if c.Rank() != 0 {
					ahead.Wait()
				}
				var reqs []*Request
				sums, got := make([]int, many*n), make([]int, many*n)
				for i := range many {
					in := make([]int, n)
					for k := range in {
						in[k] = c.Rank() + i*k
					}
					part := slices.Clone(in)
					reqs = append(reqs, c.Iallreduce(Of(in), Of(sums[i*n:(i+1)*n]), Sum), c.Ibarrier())
					if c.Rank() == i%ranks {
						copy(got[i*n:], part)
					}
					reqs = append(reqs, c.Ibcast(Of(got[i*n:(i+1)*n]), i%ranks))
				}
				if c.Rank() == 0 {
					ahead.Done()
				}
				if err := WaitAll(t.Context(), reqs...); err != nil {
					return err
				}
				for i := range many {
					for k := range n {
						if err := cmp.Or(expect("sum", ranks*(ranks-1)/2+ranks*i*k, sums[i*n+k]), expect("bcast", i%ranks+i*k, got[i*n+k])); err != nil {
							return err
						}
					}
				}
				return c.Barrier()
			}))
		}
	}
}

// Blocking calls and requests of the same collectives, on several communicators, from several
// goroutines.
func TestHammerHeap(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		require.NoError(t, Run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
			errs := make(chan error, 3)
			for g := range 3 {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				go func() { errs <- hammerHeap(d, uint64(g)) }()
			}
			return cmp.Or(<-errs, <-errs, <-errs)
		}))
	}
}

func hammerHeap(c *Comm, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 7)) // the same at all ranks
	mine := rand.New(rand.NewPCG(seed, uint64(c.Rank())))
	for i := range 150 {
		n := []int{1, 5, 40, 3000}[rng.IntN(4)]
		root := rng.IntN(c.Size())
		kind := rng.IntN(5)
		wait := mine.IntN(2) == 0
		in, out := make([]int, n), make([]int, n)
		for k := range in {
			in[k] = c.Rank()*k + i
		}
		sum := func(k int) int { return c.Size()*(c.Size()-1)/2*k + c.Size()*i }
		var r *Request
		var err error
		do := func(blocking func() error, request func() *Request) {
			if wait {
				err = blocking()
			} else {
				r = request()
			}
		}
		switch kind {
		case 0:
			do(func() error { return c.Allreduce(Of(in), Of(out), Sum) }, func() *Request { return c.Iallreduce(Of(in), Of(out), Sum) })
		case 1:
			do(func() error { return c.Reduce(Of(in), Of(out), Sum, root) }, func() *Request { return c.Ireduce(Of(in), Of(out), Sum, root) })
		case 2:
			do(func() error { return c.Bcast(Of(in), root) }, func() *Request { return c.Ibcast(Of(in), root) })
		case 3:
			do(c.Barrier, c.Ibarrier)
		default:
			do(func() error { return c.Allreduce(Of(in), Of(in), Sum) }, func() *Request { return c.Iallreduce(Of(in), Of(in), Sum) })
			out = in
		}
		if r != nil {
			_, err = r.Wait(context.Background())
		}
		if err != nil {
			return err
		}
		for k := range n {
			want, got := sum(k), out[k]
			switch {
			case kind == 3 || kind == 1 && c.Rank() != root:
				continue
			case kind == 2:
				want, got = root*k+i, in[k]
			}
			if err := expect(fmt.Sprintf("round %d, kind %d, element %d", i, kind, k), want, got); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestHeapOperatorThatPanics(t *testing.T) {
	for _, n := range []int{1, 5000} {
		for _, wait := range []bool{true, false} {
			bad := OpFunc(true, func(in, inout []int) { panic("bad operator") })
			err := Run(t.Context(), Config{Ranks: 3}, func(c *Comm) error {
				in, out := make([]int, n), make([]int, n)
				if wait {
					return c.Allreduce(Of(in), Of(out), bad)
				}
				_, err := c.Iallreduce(Of(in), Of(out), bad).Wait(context.Background())
				return err
			})
			require.Error(t, err)
			requireNoRankGoroutines(t)
		}
	}
}

// The end of a communicator ends all its shared-memory collectives, blocking calls and requests,
// with slots and without.
func TestHeapEnds(t *testing.T) {
	for how, x := range map[string]struct {
		end  func(d *Comm) error
		want error
	}{
		"the run is aborted": {func(*Comm) error { return errTest }, ErrAborted},
		"a rank is lost":     {func(*Comm) error { return errTest }, ErrPeerLost},
		"it is revoked":      {func(d *Comm) error { d.Revoke(); return nil }, ErrRevoked},
	} {
		for _, n := range []int{1, 5000} {
			var pending []*Request
			err := Run(t.Context(), Config{Ranks: 3, Survive: x.want != ErrAborted}, func(c *Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				in, out := make([]int, n), make([]int, n)
				switch c.Rank() {
				case 0:
					for range 2 * smcoll.Width {
						pending = append(pending, d.Iallreduce(Of(in), Of(out), Sum))
					}
					d.NoteFor(ForWindow)
				case 2:
					for d.member.Segment().Queued() < smcoll.Width+1 {
						time.Sleep(time.Millisecond)
					}
					return x.end(d)
				}
				err = d.Allreduce(Of(in), Of(out), Sum)
				if !errors.Is(err, x.want) {
					return fmt.Errorf("rank %d: %w", c.Rank(), err)
				}
				if c.Rank() == 0 { // soon: another rank may be about to take the rest out
					require.Eventually(t, func() bool {
						return d.member.Segment().Queued() == 0
					}, time.Minute, time.Millisecond)
				}
				if x.want == ErrAborted {
					return err
				}
				return nil
			})
			if x.want != ErrRevoked {
				var of *RankError
				require.ErrorAs(t, err, &of, how)
				require.ErrorIs(t, err, errTest, how)
				require.Equal(t, 2, of.Rank, how)
			} else {
				require.NoError(t, err, how)
			}
			for _, r := range pending {
				done, _, err := r.Test()
				require.True(t, done, how)
				require.ErrorIs(t, err, x.want, how)
			}
			requireNoRankGoroutines(t)
		}
	}
}

// Communicators that are no longer referenced leave no segment behind.
func TestSegmentsAreForgotten(t *testing.T) {
	require.NoError(t, Run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
		for range 2000 {
			if _, err := c.Dup(); err != nil {
				return err
			}
		}
		if err := c.Barrier(); err != nil || c.Rank() != 0 {
			return err
		}
		runtime.GC()
		runtime.GC()
		if n := len(c.world.segments.All()); n > 100 {
			return fmt.Errorf("%d segments live", n)
		}
		return nil
	}))
}

// Ranks use shared memory if they are several and all in this process. They also do if each pair
// shares memory, there are not too many ranks, the communicator has an index, and the memory can be
// mapped.
func TestWhichCommsUseMemory(t *testing.T) {
	w := &world{memoryColls: true, size: 2}
	at := func(w *world, n int, memory []byte, index int) bool {
		c, s := lone(t, 0, n)
		w.size = n
		c.world, c.member = w, nil
		c.proc.ep = &sharing{s, memory}
		c.joinMemory(index)
		return c.member != nil
	}
	require.True(t, at(w, 2, nil, -1))
	require.False(t, at(w, 1, nil, -1))
	require.False(t, at(&world{}, 2, nil, -1), "only messages")
	memory := make([]byte, 1<<20)
	far := func() *world {
		return &world{memoryColls: true, multiProcess: true, shareMemory: func(_ []int32, n int) bool { return n != 5 }}
	}
	require.True(t, at(far(), 2, memory, 0))
	require.True(t, at(far(), smcoll.FlatRanks, memory, smcoll.MaxMapped-1))
	require.False(t, at(far(), smcoll.FlatRanks+1, memory, 0))
	require.False(t, at(far(), 2, memory, smcoll.MaxMapped))
	require.False(t, at(far(), 2, memory, -1))
	require.False(t, at(far(), 5, memory, 0), "on several machines")
	require.False(t, at(far(), 2, nil, 0), "no memory")
	require.False(t, at(&world{memoryColls: true, multiProcess: true}, 2, memory, 0), "without an index")
}

// sharing is an endpoint that shares memory.
type sharing struct {
	*frameRecorder
	memory []byte // nil: none
}

func (s *sharing) Shared(int) ([]byte, error) {
	if s.memory == nil {
		return nil, errTest
	}
	return s.memory, nil
}

// A collective that cannot map the memory of a rank waits for the reason: the run has ended, or
// survives the loss of that rank.
func TestMemoryOfALostRank(t *testing.T) {
	for _, survive := range []bool{false, true} {
		for _, request := range []bool{false, true} {
			ep, c := withNeighbours(t, survive)
			c.world.shareMemory = func([]int32, int) bool { return true }
			c.proc.ep = &lonely{Endpoint: ep, memory: make([]byte, 1<<20)}
			c.joinMemory(smcoll.World)
			require.NotNil(t, c.member)
			over := make(chan error)
			go func() { over <- either(request, c.Barrier, c.Ibarrier) }()
			if survive {
				require.ErrorIs(t, <-over, ErrPeerLost)
				continue
			}
			for waits := false; !waits; {
				c.proc.remote.mu.Lock()
				waits = len(c.proc.remote.awaiting) > 0
				c.proc.remote.mu.Unlock()
				runtime.Gosched()
			}
			c.world.end(errTest)
			err := <-over
			require.ErrorIs(t, err, ErrAborted)
			require.ErrorIs(t, err, errTest)
		}
	}
}

// lonely is an endpoint that can map no memory but its own.
type lonely struct {
	fabric.Endpoint
	memory []byte
}

func (s *lonely) Shared(r int) ([]byte, error) {
	if r != s.Rank() {
		return nil, errTest
	}
	return s.memory, nil
}
