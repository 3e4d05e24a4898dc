// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"weft/comm/internal/coll"

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

func TestHubCombinesInTheOrderOfMessages(t *testing.T) {
	for ranks := 2; ranks <= 9; ranks++ {
		for _, n := range []int{1, 20, 3000} {
			direct := floatBits(t, ranks, n)
			onlyMessages.Store(true)
			require.Equal(t, floatBits(t, ranks, n), direct, "%d ranks, %d elements", ranks, n)
			onlyMessages.Store(false)
		}
	}
}

// One rank is far ahead of the others: what has no place waits for one, and nothing is lost or mixed up.
func TestHubWaitsForPlaces(t *testing.T) {
	const many = 5*hubWidth + 3
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

// Blocking calls and requests of the same collectives, on several communicators, from several goroutines.
func TestHammerHub(t *testing.T) {
	for _, ranks := range []int{2, 3, 4} {
		require.NoError(t, Run(t.Context(), Config{Ranks: ranks}, func(c *Comm) error {
			errs := make(chan error, 3)
			for g := range 3 {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				go func() { errs <- hammerHub(d, uint64(g)) }()
			}
			return cmp.Or(<-errs, <-errs, <-errs)
		}))
	}
}

func hammerHub(c *Comm, seed uint64) error {
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

func TestHubOperatorThatPanics(t *testing.T) {
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

// What ends a communicator ends all that waits at its hub, in calls and with requests, with places and without.
func TestHubEnds(t *testing.T) {
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
					for range 2 * hubWidth {
						pending = append(pending, d.Iallreduce(Of(in), Of(out), Sum))
					}
					d.NoteFor(ForWindow)
				case 2:
					for d.hub.late.Load() < hubWidth+1 {
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
						r := &d.hub.ranks[0]
						r.mu.Lock()
						defer r.mu.Unlock()
						return len(r.queue) == 0 && d.hub.late.Load() == 0
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

// Communicators that nobody has any more leave no hub behind, and those that live are found at an abort.
func TestHubsAreForgotten(t *testing.T) {
	require.NoError(t, Run(t.Context(), Config{Ranks: 2}, func(c *Comm) error {
		for range 200 {
			if _, err := c.Dup(); err != nil {
				return err
			}
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		c.world.hubs.mu.Lock()
		defer c.world.hubs.mu.Unlock()
		return expect("communicators that a rank has not got yet", 0, len(c.world.hubs.fresh))
	}))
}

func TestPieces(t *testing.T) {
	for _, n := range []int{2, 3, 64, 4096} {
		for _, unit := range []int{217, 4096, 1 << 20, 1<<31 + 5, 1 << 38} {
			for _, k := range []coll.Kind{coll.Bcast, coll.Reduce, coll.Scan, coll.Allgather, coll.Alltoall} {
				d := coll.Call{Kind: k, Unit: unit}
				if n > 64 && k == coll.Alltoall {
					continue // their pieces are pairs
				}
				pieces, size := pieces(&d, n), pieceSize(&d, n)
				require.Positive(t, pieces)
				require.Less(t, pieces, allTaken, "%d ranks, %d bytes, %v", n, unit, coll.Names[k])
				require.GreaterOrEqual(t, size*cuts(&d, n), unit)
				require.Less(t, size*(cuts(&d, n)-1), unit)
			}
		}
	}
}

// Ranks that wake each other at one processor try to part, more and more seldom, and never give it up.
func TestHubParts(t *testing.T) {
	h := newHub(nil, 2)
	r := &h.ranks[0]
	var tries []int
	for n := 1; n <= 3*seldom; n++ {
		r.woke.Store(true)
		if h.part(r, uint64(n)) {
			tries = append(tries, n)
			require.EqualValues(t, n+1, h.parted.Load())
		}
		require.False(t, r.woke.Load())
	}
	want := []int{1, 8, 64, 512, 4096, 8192, 12288}
	require.Equal(t, want, tries)
}

// A rank that is about to end what waits at a place has it to itself. If all others come meanwhile,
// none of them ends it, and that rank has to.
func TestHubExamines(t *testing.T) {
	for _, last := range []bool{false, true} {
		_, all, _ := idle(t, 3, Config{})
		h := all[0].hub
		first := all[0].Ibarrier()
		second := all[1].Ibarrier()
		const seq = 1
		p := h.place(0, seq)
		was, ok := p.waits(seq)
		require.True(t, ok)
		p.state.Store(stateOf(seq, claimed))
		reqs := []*Request{first, second}
		if last {
			reqs = append(reqs, all[2].Ibarrier())
		}
		require.False(t, first.Done())
		p.state.Store(was)
		h.look()
		for i, r := range reqs {
			require.Equal(t, last, r.Done(), "rank %d", i)
		}
		h.look()
	}
}

// A rank says of its collectives at a hub that they are over up to the first one that is not.
func TestHubFloor(t *testing.T) {
	const first = 4
	_, all, _ := idle(t, 3, Config{})
	r := &all[0].hub.ranks[0]
	for range first {
		all[0].Ibarrier()
		require.Zero(t, r.floor)
	}
	for _, c := range all[1:] {
		for range first - 1 {
			c.Ibarrier()
		}
	}
	for range 2 {
		all[0].Ibarrier()
		require.EqualValues(t, first-1, r.floor, "the last of them is not over")
	}
}
