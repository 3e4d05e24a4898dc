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
	"sync"
	"sync/atomic"
	"testing"

	"weft/comm/internal/mem"

	"github.com/stretchr/testify/require"
)

// TestHammerMessages has many goroutines per rank that send to all ranks and receive from any. Each
// message has its sender and a checksum; in the end every message has arrived once, whole, and in
// order where order is promised.
func TestHammerMessages(t *testing.T) {
	for _, ranks := range []int{1, 3} {
		run(t, ranks, func(c *Comm) error { return hammerMessages(c, 4, 60) })
	}
}

func hammerMessages(c *Comm, pairs, per int) error {
	var wg sync.WaitGroup
	errs := make(chan error, 4*pairs)
	var received atomic.Int64
	total := int64(c.Size() * pairs * per)
	for g := range pairs {
		wg.Go(func() { // sends with tag g to all ranks
			rng := rand.New(rand.NewPCG(uint64(c.Rank()), uint64(g)))
			var reqs []*Request
			for i := range per {
				for dst := range c.Size() {
					n := 3 + rng.IntN(20)
					if rng.IntN(8) == 0 {
						n += 4000
					}
					m := make([]int32, n)
					for k := range m {
						m[k] = int32(n)
					}
					m[0], m[1] = int32(g), int32(i)
					switch rng.IntN(3) {
					case 0:
						reqs = append(reqs, c.Isend(Of(m), dst, g))
					case 1:
						reqs = append(reqs, c.Issend(Of(m), dst, g))
					default:
						reqs = append(reqs, c.Isend(Vector(m, n, 1, 1), dst, g))
					}
				}
			}
			if err := WaitAll(c.Context(), reqs...); err != nil {
				errs <- err
			}
		})
		wg.Go(func() { // receives any message
			rng := rand.New(rand.NewPCG(uint64(c.Rank()), uint64(100+g)))
			last := map[[2]int]int{}
			for received.Add(1) <= total {
				buf := make([]int32, 4100)
				var st Status
				var err error
				if rng.IntN(2) == 0 {
					st, err = c.Recv(Of(buf), AnySource, AnyTag)
				} else {
					r := c.Irecv(Of(buf), AnySource, AnyTag)
					for rng.IntN(4) == 0 && r.Cancel() {
						r = c.Irecv(Of(buf), AnySource, AnyTag)
					}
					st, err = r.Wait(c.Context())
				}
				if err == nil {
					n := st.Count(4)
					for k := 2; k < n && err == nil; k++ {
						err = expect("payload", int32(n), buf[k])
					}
					flow := [2]int{st.Source, st.Tag}
					if old, ok := last[flow]; ok && err == nil && int(buf[1]) <= old {
						err = fmt.Errorf("message %d of %v came after %d", buf[1], flow, old)
					}
					last[flow] = int(buf[1])
					err = cmp.Or(err, expect("tag", int(buf[0]), st.Tag))
				}
				if err != nil {
					errs <- err
					c.world.end(err) // the others would wait for what this one has not received
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	ok, st, err := c.Iprobe(AnySource, AnyTag)
	if ok {
		err = fmt.Errorf("message %+v is left over", st)
	}
	return err
}

// program is a random program that cannot deadlock: in each round all ranks post their receives,
// then send, then wait, in random order, while collectives go on. It is the same for all ranks by
// its seed, so each knows what it must get.
func program(c *Comm, seed uint64) error {
	plan := rand.New(rand.NewPCG(seed, 1))                  // the same on all ranks
	mine := rand.New(rand.NewPCG(seed, 2+uint64(c.Rank()))) // this rank's choices
	p := c.Size()
	comms := []*Comm{c}
	d, err := c.Dup()
	if err != nil {
		return err
	}
	half, err := c.Split(c.Rank()%2, -c.Rank())
	if err != nil {
		return err
	}
	comms = append(comms, d)
	content := func(src, dst, id, n int) []int16 {
		s := make([]int16, n)
		for i := range s {
			s[i] = int16(src*7919 + dst*104729 + id*31 + i)
		}
		return s
	}
	type transfer struct{ comm, src, dst, tag, id, n int }
	for round := range 4 {
		var plans []transfer
		for id := range plan.IntN(30) {
			n := plan.IntN(50)
			if plan.IntN(5) == 0 {
				n = 8000 + plan.IntN(4000)
			}
			plans = append(plans, transfer{plan.IntN(2), plan.IntN(p), plan.IntN(p), plan.IntN(3), round*100 + id, n})
		}
		var reqs []*Request
		var checks []func() error
		post := func() {
			for _, x := range plans {
				if x.dst != c.Rank() {
					continue
				}
				buf := make([]int16, x.n)
				layout := Of(buf)
				wide := make([]int16, 2*x.n)
				if mine.IntN(3) == 0 {
					layout = Vector(wide, x.n, 1, 2)
				}
				r := comms[x.comm].Irecv(layout, x.src, x.tag)
				reqs = append(reqs, r)
				checks = append(checks, func() error {
					if layout.b.Strided() {
						Copy(Of(buf), layout)
					} else if !mem.SameMemory(layout.b, Of(buf).b) {
						copy(buf, wide)
					}
					return cmp.Or(expect("size", 2*x.n, r.Status().Bytes), expectSlice(fmt.Sprintf("%+v", x), content(x.src, x.dst, x.id, x.n), buf))
				})
			}
		}
		send := func() {
			for _, x := range plans {
				if x.src != c.Rank() {
					continue
				}
				cc, m := comms[x.comm], Of(content(x.src, x.dst, x.id, x.n))
				if mine.IntN(2) == 0 {
					reqs = append(reqs, cc.Isend(m, x.dst, x.tag))
				} else {
					reqs = append(reqs, cc.Issend(m, x.dst, x.tag))
				}
			}
		}
		in, sum, sub := []int64{int64(c.Rank() + round)}, []int64{0}, []int64{0}
		root := plan.IntN(p)
		word := []int64{0}
		if c.Rank() == root {
			word[0] = int64(seed) + int64(round)
		}
		steps := []func(){post, send}
		if mine.IntN(2) == 0 {
			steps[0], steps[1] = send, post
		}
		reqs = append(reqs, d.Ibcast(Of(word), root))
		steps[0]()
		reqs = append(reqs, c.Iallreduce(Of(in), Of(sum), Sum), half.Iallreduce(Of(in), Of(sub), Max))
		steps[1]()
		mine.Shuffle(len(reqs), func(i, j int) { reqs[i], reqs[j] = reqs[j], reqs[i] })
		if err := WaitAll(c.Context(), reqs...); err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(); err != nil {
				return err
			}
		}
		top := p - 1
		if top%2 != c.Rank()%2 {
			top--
		}
		if err := cmp.Or(expect("sum", int64(p*(p-1)/2+p*round), sum[0]), expect("max", int64(top+round), sub[0]), expect("word", int64(seed)+int64(round), word[0])); err != nil {
			return err
		}
	}
	return nil
}

func TestRandomPrograms(t *testing.T) {
	for seed := range uint64(30) {
		run(t, 1+int(seed%5), func(c *Comm) error {
			if err := program(c, seed); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
			return nil
		})
	}
}

// An abort in the middle of everything leaves nothing hanging.
func TestHammerAbort(t *testing.T) {
	for i := range 60 {
		err := Run(context.Background(), Config{Ranks: 3}, func(c *Comm) error {
			if c.Rank() == i%3 {
				for range 20 * i {
					runtime.Gosched()
				}
				return errTest
			}
			if i%2 == 0 {
				return hammerMessages(c, 2, 5)
			}
			return program(c, uint64(i))
		})
		require.ErrorIs(t, err, errTest)
		requireNoRankGoroutines(t)
	}
}

// A goroutine that sees without a lock that something has failed sees all of the failure.
func TestFailureStateHammer(t *testing.T) {
	for name, row := range map[string]struct {
		change func(p *proc)
		want   error
	}{
		"its end":        {func(p *proc) { p.kill(errTest) }, errTest},
		"a loss":         {func(p *proc) { p.markLost(1, errTest) }, errTest},
		"a revocation":   {func(p *proc) { p.revoke(0) }, ErrRevoked},
		"a disagreement": {func(p *proc) { p.recordDisagreement(0, &disagreement{err: errTest}) }, errTest},
	} {
		for range 20 {
			_, c := withNeighbours(t, true)
			var wg sync.WaitGroup
			var got error
			wg.Go(func() {
				for got == nil {
					got = c.barredNow(1, true)
				}
			})
			runtime.Gosched()
			row.change(c.proc)
			wg.Wait()
			require.Equal(t, row.want, got, name)
		}
	}
}

// Goroutines of one rank may hear of a disagreement at the same time.
func TestDisagreementHammer(t *testing.T) {
	run(t, 2, func(c *Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		c.proc.recordDisagreement(d.ctx, &disagreement{err: ErrMismatch})
		var wg sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wg.Go(func() { errs[i] = d.Barrier() })
		}
		wg.Wait()
		for _, err := range errs {
			if !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("a barrier after a disagreement ends with %v", err)
			}
		}
		return nil // and the run ends well, since all have heard
	})
}
