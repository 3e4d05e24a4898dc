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
	"testing"
	"time"

	"weft/comm/internal/smcoll"

	"github.com/stretchr/testify/require"
)

// runMapped runs ranks that can make collectives in mapped memory.
func runMapped(t *testing.T, n int, body func(c *Comm) error) {
	t.Helper()
	run := runners["apart, shm"]
	if run == nil {
		t.Skip("no shared memory here")
	}
	require.NoError(t, run(context.Background(), Config{Ranks: n}, func(c *Comm) error {
		if c.size > 1 && c.member == nil {
			return fmt.Errorf("rank %d of %d has no mapped memory", c.rank, c.size)
		}
		return body(c)
	}))
	requireNoRankGoroutines(t)
}

// either makes a collective by a call that waits, or by a request.
func either(request bool, call func() error, start func() *Request) error {
	if request {
		_, err := start().Wait(context.Background())
		return err
	}
	return call()
}

// round is one collective of a random program. It is the same for all ranks, except for the choices
// that each rank makes by mine.
func round(c *Comm, all, mine *rand.Rand, i int) error {
	n, me := c.size, c.rank
	m := 1 + all.IntN(4)
	if all.IntN(8) == 0 {
		m = smcoll.DataMax/8 + 1 // too large
	}
	request := all.IntN(3) == 0 && mine.IntN(2) == 0 // only some rounds are mixed
	if mine.IntN(16) == 0 {
		time.Sleep(time.Duration(mine.IntN(300)) * time.Microsecond)
	}
	in := make([]int, m)
	for k := range in {
		in[k] = me*i + k
	}
	switch all.IntN(8) {
	case 0, 1:
		return either(request, c.Barrier, c.Ibarrier)
	case 2, 3:
		out, want := make([]int, m), make([]int, m)
		for k := range want {
			want[k] = n*(n-1)/2*i + n*k
		}
		err := either(request, func() error { return c.Allreduce(Of(in), Of(out), Sum) }, func() *Request { return c.Iallreduce(Of(in), Of(out), Sum) })
		return cmp.Or(err, expectSlice("sum", want, out))
	case 4:
		all, want := make([]int, 2*n), make([]int, 0, 2*n) // every other element, on odd ranks
		for r := range n {
			want = append(want, r*i)
		}
		buf := Of(all[:n])
		if me%2 == 1 {
			buf = Vector(all, n, 1, 2)
		}
		err := either(request, func() error { return c.Allgather(Of(in[:1]), buf) }, func() *Request { return c.Iallgather(Of(in[:1]), buf) })
		got := all[:n]
		if me%2 == 1 {
			got = nil
			for r := range n {
				got = append(got, all[2*r])
			}
		}
		return cmp.Or(err, expectSlice("gathered", want, got))
	case 5:
		send, recv, want := make([]int, n), make([]int, n), make([]int, n)
		for r := range n {
			send[r], want[r] = me*100+r*i, r*100+me*i
		}
		err := either(request, func() error { return c.Alltoall(Of(send), Of(recv)) }, func() *Request { return c.Ialltoall(Of(send), Of(recv)) })
		return cmp.Or(err, expectSlice("exchanged", want, recv))
	case 6: // many that return at once at the root
		for range all.IntN(2 * 64) {
			x := []int{i}
			if me != 0 {
				x[0] = -1
			}
			if err := cmp.Or(either(true, nil, func() *Request { return c.Ibcast(Of(x), 0) }), expectSlice("broadcast", []int{i}, x)); err != nil {
				return err
			}
		}
		return nil
	default:
		return rooted(c, i, all.IntN(5), request)
	}
}

// rooted is a collective with a root, or a scan.
func rooted(c *Comm, i, kind int, request bool) (err error) {
	n, me, root := c.size, c.rank, i%c.size
	x, y := []int{me + i}, []int{-1}
	all := make([]int, n)
	for r := range all {
		all[r] = r * i
	}
	switch kind {
	case 0:
		err = either(request, func() error { return c.Reduce(Of(x), Of(y), Max, root) }, func() *Request { return c.Ireduce(Of(x), Of(y), Max, root) })
		if me == root {
			err = cmp.Or(err, expect("the largest", n-1+i, y[0]))
		}
	case 1:
		err = either(request, func() error { return c.Bcast(Of(x), root) }, func() *Request { return c.Ibcast(Of(x), root) })
		err = cmp.Or(err, expect("the root's", root+i, x[0]))
	case 2:
		err = either(request, func() error { return c.Scatter(Of(all), Of(y), root) }, func() *Request { return c.Iscatter(Of(all), Of(y), root) })
		err = cmp.Or(err, expect("part", me*i, y[0]))
	case 3:
		got := make([]int, n)
		x[0] = me * i
		err = either(request, func() error { return c.Gather(Of(x), Of(got), root) }, func() *Request { return c.Igather(Of(x), Of(got), root) })
		if me == root {
			err = cmp.Or(err, expectSlice("parts", all, got))
		}
	default:
		err = either(request, func() error { return c.Scan(Of(x), Of(x), Sum) }, func() *Request { return c.Iscan(Of(x), Of(x), Sum) })
		err = cmp.Or(err, expect("sum so far", me*(me+1)/2+(me+1)*i, x[0]))
	}
	return err
}

// Random programs of collectives, of which each rank makes some by requests, on several
// communicators.
func TestMappedColls(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 60
	}
	seed := uint64(time.Now().UnixNano())
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 4} {
		runtime.GOMAXPROCS(procs)
		for _, n := range []int{2, 3, 4, 7} {
			runMapped(t, n, func(c *Comm) error {
				all, mine := rand.New(rand.NewPCG(seed, 0)), rand.New(rand.NewPCG(seed, uint64(c.rank+1)))
				comms := []*Comm{c}
				for i := range rounds {
					if i%40 == 20 {
						d, err := comms[0].Dup()
						if err != nil {
							return err
						}
						comms = append(comms, d)
					}
					if err := round(comms[all.IntN(len(comms))], all, mine, i); err != nil {
						return fmt.Errorf("seed %d, procs %d, round %d: %w", seed, procs, i, err)
					}
				}
				return nil
			})
		}
	}
}

// Several goroutines of a rank make collectives in one mapped segment: one uses it at a time, the
// others make their collectives of messages.
func TestMappedCollsOfManyGoroutines(t *testing.T) {
	const goroutines, rounds = 4, 50
	runMapped(t, 3, func(c *Comm) error {
		errs := make(chan error, goroutines)
		for range goroutines {
			go func() {
				var err error
				for i := range rounds {
					if i%5 == 0 {
						_, e := c.Ibarrier().Wait(context.Background())
						err = cmp.Or(err, e)
					}
					err = cmp.Or(err, c.Barrier())
				}
				errs <- err
			}()
		}
		var err error
		for range goroutines {
			err = cmp.Or(err, <-errs)
		}
		return err
	})
}

// Ranks in different collectives get an error, and so do ranks whose calls of the same collective
// differ.
func TestMappedCollMismatch(t *testing.T) {
	for what, call := range map[string]func(c *Comm) error{
		"rank 0 is in barrier, rank 1 is in allreduce .sum.": func(c *Comm) error {
			if c.rank == 0 {
				return c.Barrier()
			}
			return c.Allreduce(Of([]int{1}), Of([]int{1}), Sum)
		},
		"rank 0 is in allreduce .sum.*rank 1 is in allreduce .max": func(c *Comm) error {
			return c.Allreduce(Of([]int{1}), Of([]int{1}), []Op{Sum, Max}[c.rank])
		},
		"of 1 int64 .8 bytes., rank 1 is in .* of 2 int64 .16 bytes.": func(c *Comm) error {
			return c.Allreduce(Of(make([]int, 1+c.rank)), Of(make([]int, 1+c.rank)), Sum)
		},
		"float64|int64": func(c *Comm) error {
			if c.rank == 0 {
				return c.Allreduce(Of([]float64{1}), Of([]float64{1}), Sum)
			}
			return c.Allreduce(Of([]int64{1}), Of([]int64{1}), Sum)
		},
	} {
		runMapped(t, 2, func(world *Comm) error {
			c, err := world.Dup()
			if err != nil {
				return err
			}
			err = call(c)
			if err == nil {
				return fmt.Errorf("%s: no error at rank %d", what, c.rank)
			}
			require.Regexp(t, what, err.Error())
			return world.Barrier() // the communicator is lost, and no other
		})
	}
}

// A sleeping caller is woken, also if it is about to sleep.
func TestMappedCollWakesSleepers(t *testing.T) {
	runMapped(t, 2, func(c *Comm) error {
		for i := range 300 {
			if (i+c.rank)%2 == 0 {
				time.Sleep(time.Duration(40+i%40) * time.Microsecond)
			}
			if err := c.Barrier(); err != nil {
				return err
			}
		}
		return nil
	})
}

// Communicators beyond the number of mapped indices work without mapped memory.
func TestMappedIndicesRunOut(t *testing.T) {
	runMapped(t, 2, func(c *Comm) error {
		with := 0
		for i := range 2 * smcoll.MaxMapped {
			d, err := c.Split(0, []int{c.rank, -c.rank}[i%2])
			if err != nil {
				return err
			}
			if d.member != nil {
				with++
			}
			if err := d.Barrier(); err != nil {
				return err
			}
		}
		return expect("communicators with mapped memory", smcoll.MaxMapped-1, with)
	})
}

// Colours of a split have mapped segments of their own, of whatever ranks.
func TestMappedCollsOfSplit(t *testing.T) {
	runMapped(t, 7, func(c *Comm) error {
		for i := range 5 {
			d, err := c.Split(c.rank%(i+1), -c.rank)
			if err != nil {
				return err
			}
			var want []int
			for r := range c.size {
				if r%(i+1) == c.rank%(i+1) {
					want = append(want, r)
				}
			}
			slices.Reverse(want)
			got := make([]int, d.size)
			if err := d.Allgather(Of([]int{c.rank}), Of(got)); err != nil {
				return err
			}
			if err := expectSlice("members", want, got); err != nil {
				return err
			}
		}
		return nil
	})
}

// A rank that knows that a collective cannot work publishes nothing: with its part the others would
// complete, as if nothing were wrong.
func TestFailedMemberPublishesNothing(t *testing.T) {
	runMapped(t, 3, func(c *Comm) error {
		d, err := c.Dup()
		if err != nil || c.rank != 0 {
			return err
		}
		if d.member == nil {
			return fmt.Errorf("no mapped memory")
		}
		published := func() uint64 {
			_, version := d.member.Segment().Asleep()
			return version
		}
		before := published()
		d.Revoke()
		for name, block := range blockers {
			if name == "the context" {
				continue // it waits for the end of the run, which goes on
			}
			if err := block(d); !errors.Is(err, ErrRevoked) {
				return fmt.Errorf("%s: %v, not revoked", name, err)
			}
		}
		return expect("what it has published", int(before), int(published()))
	})
}
