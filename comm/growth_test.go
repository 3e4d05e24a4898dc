// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/soak"
)

// growths are operations of one rank or two: each does the i-th of them n times in a round.
var growths = []struct {
	name  string
	times int
	do    func(c *Comm, i int) error
}{
	{"messages", 500, func(c *Comm, _ int) error { return exchange(c, make([]int64, 1), 1) }},
	{"messages with tags of their own", 500, func(c *Comm, i int) error { return exchange(c, make([]int64, 1), i) }},
	{"large messages", 40, func(c *Comm, i int) error { return exchange(c, make([]int64, 16<<10), 1) }},
	{"messages that wait", 500, func(c *Comm, i int) error {
		buf := Of(make([]int64, 8))
		out := c.Isend(buf, c.other(), i)
		if i%20 != 19 {
			return nil
		}
		for k := i - 19; k <= i; k++ {
			if _, err := c.Recv(buf, AnySource, k); err != nil {
				return err
			}
		}
		_, err := out.Wait(context.Background())
		return err
	}},
	{"probes and tests", 100, func(c *Comm, i int) error {
		buf := Of(make([]int64, 1))
		out := c.Isend(buf, c.other(), 2)
		for {
			if found, _, err := c.Iprobe(AnySource, AnyTag); err != nil {
				return err
			} else if found {
				break
			}
		}
		in := c.Irecv(buf, AnySource, 2)
		for !in.Done() || !out.Done() {
		}
		return nil
	}},
	{"receives that are cancelled", 1000, func(c *Comm, i int) error {
		r := c.Irecv(Of(make([]int64, 1)), c.other(), i)
		if !r.Cancel() {
			return errors.New("not cancelled")
		}
		return nil
	}},
	{"callbacks", 300, func(c *Comm, i int) error {
		in, done := c.Irecv(Of(make([]int64, 1)), c.other(), 3), make(chan error, 1)
		in.OnDone(func(err error) { done <- err })
		if err := c.Send(Of([]int64{1}), c.other(), 3); err != nil {
			return err
		}
		_, err := in.Wait(context.Background()) // a channel alone would not poll
		return errors.Join(err, <-done)
	}},
	{"collectives", 100, func(c *Comm, i int) error {
		x, y := []int64{1}, []int64{0}
		return errors.Join(c.Barrier(), c.Bcast(Of(x), i%c.size), c.Allreduce(Of(x), Of(y), Sum), c.Allgather(Of(x), Of(make([]int64, c.size))))
	}},
	{"large collectives", 20, func(c *Comm, i int) error {
		x, y := make([]int64, 4096), make([]int64, 4096)
		return errors.Join(c.Bcast(Of(x), i%c.size), c.Allreduce(Of(x), Of(y), Sum))
	}},
	{"requests of collectives", 100, func(c *Comm, i int) error {
		x, y, z := []int64{1}, []int64{2}, []int64{0}
		return WaitAll(context.Background(), c.Ibarrier(), c.Ibcast(Of(x), i%c.size), c.Iallreduce(Of(y), Of(z), Sum))
	}},
	{"communicators", 60, func(c *Comm, i int) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		e, err := d.Split(0, -d.Rank())
		if err != nil {
			return err
		}
		return errors.Join(exchange(d, []int64{1}, 1), e.Barrier(), wait(e.Iallreduce(Of([]int64{1}), Of([]int64{0}), Sum)))
	}},
}

// other returns the other one of two ranks, or the only one.
func (c *Comm) other() int { return c.size - 1 - c.rank }

// exchange sends to the other rank, and receives from it.
func exchange(c *Comm, data []int64, tag int) error {
	_, err := c.Sendrecv(Of(data), c.other(), tag, Of(make([]int64, len(data))), c.other(), tag)
	return err
}

// The memory that ranks keep, and the cost of an operation, do not depend on how many operations
// there were before. The cost is that of one rank, while no other rank polls.
func TestGrowth(t *testing.T) {
	for how, ranks := range map[string]int{"together": 2, "apart, shm": 2, "alone": 1} {
		run := runners[how]
		if how == "alone" {
			run = Run
		}
		if run == nil {
			continue // no shared memory here
		}
		for _, g := range growths {
			t.Run(how+", "+g.name, func(t *testing.T) {
				begin, end := make(chan bool), make(chan error)
				kept, longer := "", ""
				require.NoError(t, run(t.Context(), Config{Ranks: ranks}, func(c *Comm) (err error) {
					round := 0
					all := func() error {
						for i := range g.times {
							if err := g.do(c, round*g.times+i); err != nil {
								return fmt.Errorf("operation %d: %w", i, err)
							}
						}
						round++
						return nil
					}
					if c.Rank() == 1 {
						for range begin {
							end <- all()
						}
						return nil
					}
					defer close(begin)
					kept, longer, err = soak.Rounds(soak.Long(16, 200), func() error {
						if c.Size() == 1 {
							return all()
						}
						begin <- true
						return errors.Join(all(), <-end)
					})
					return err
				}))
				require.Empty(t, kept)
				if ranks == 1 {
					require.Empty(t, longer)
				}
			})
		}
	}
}
