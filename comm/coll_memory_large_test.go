// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"weft/comm/internal/smcoll"

	"github.com/stretchr/testify/require"
)

// largeSizes are around the room of a slot, a piece, a window, and several windows, in elements of
// 8 bytes.
var largeSizes = []int{smcoll.DataMax/8 + 1, (16<<10)/8 + 1, (256 << 10) / 8, 2*(256<<10)/8 + 5}

// Sums of floats in mapped memory have the same bits as on the heap, and so as by messages, in
// place and not, of memory in one piece and in many.
func TestMemoryLargeBits(t *testing.T) {
	for _, ranks := range []int{2, 3, 7} {
		for _, n := range largeSizes {
			results := make([][]float64, 2)
			body := func(which int) func(c *Comm) error {
				return func(c *Comm) error {
					rng := rand.New(rand.NewPCG(uint64(c.rank), uint64(n)))
					in, out := make([]float64, n), make([]float64, n)
					for i := range in {
						in[i] = rng.NormFloat64() * 1e8
					}
					wide := make([]float64, 2*n)
					for i := range in {
						wide[2*i] = in[i]
					}
					same := append([]float64(nil), in...)
					err := cmp.Or(c.Allreduce(Of(in), Of(out), Sum), c.Allreduce(Of(same), Of(same), Sum),
						c.Allreduce(Vector(wide, n, 1, 2), Vector(wide, n, 1, 2), Sum), expectSlice("in place", out, same))
					for i := range same {
						same[i] = wide[2*i]
					}
					if c.rank == n%ranks {
						results[which] = out
					}
					return cmp.Or(err, expectSlice("strided", out, same))
				}
			}
			runMapped(t, ranks, body(0))
			require.NoError(t, Run(context.Background(), Config{Ranks: ranks}, body(1)))
			require.Equal(t, results[1], results[0], "%d ranks, %d elements", ranks, n)
		}
	}
}

// matrix is an element of a size that divides no window, and whose product does not commute.
type matrix struct{ a, b, c uint32 }

func (x matrix) times(y matrix) matrix {
	return matrix{x.a * y.a, x.a*y.b + x.b*y.c, x.c * y.c}
}

// Operators that do not commute see the ranks in their order; elements of any size are whole.
func TestMemoryLargeOrder(t *testing.T) {
	product := OpFunc(false, func(in, inout []matrix) {
		for i := range in {
			inout[i] = in[i].times(inout[i])
		}
	})
	element := func(rank, i int) matrix { return matrix{uint32(2*rank + 1), uint32(i + rank*rank), uint32(i%3 + rank)} }
	for _, ranks := range []int{2, 3, 5} {
		for _, n := range []int{30, 1 + (256<<10)/12, 70000} {
			runMapped(t, ranks, func(c *Comm) error {
				in, want := make([]matrix, n), make([]matrix, n)
				for i := range in {
					in[i], want[i] = element(c.rank, i), element(0, i)
					for r := 1; r < ranks; r++ {
						want[i] = want[i].times(element(r, i))
					}
				}
				return cmp.Or(c.Allreduce(Of(in), Of(in), product), expectSlice("product", want, in))
			})
		}
	}
}

// The staging memory of a rank goes from one communicator to another, of other ranks, and to
// several goroutines; calls that do not get it use messages.
func TestHammerMemoryLarge(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	runMapped(t, 4, func(c *Comm) error {
		var comms []*Comm
		for i := range 4 {
			d, err := c.Split([]int{0, c.rank % 2, c.rank / 2, min(c.rank, 1)}[i], c.rank)
			if err != nil {
				return err
			}
			comms = append(comms, d)
		}
		errs := make(chan error, 2)
		for g := range 2 {
			mine := comms[2*g : 2*g+2]
			go func() {
				all := rand.New(rand.NewPCG(seed, uint64(g)))
				var err error
				for i := 0; i < 60 && err == nil; i++ {
					d, n := mine[all.IntN(2)], largeSizes[all.IntN(len(largeSizes))]
					in, want := make([]int, n), make([]int, n)
					for k := range in {
						in[k] = d.rank*k + i
						want[k] = d.size*(d.size-1)/2*k + d.size*i
					}
					if err = d.Allreduce(Of(in), Of(in), Sum); err == nil {
						err = expectSlice(fmt.Sprintf("seed %d, goroutine %d, round %d", seed, g, i), want, in)
					}
				}
				errs <- err
			}()
		}
		return cmp.Or(<-errs, <-errs)
	})
}

// An operator that panics at one rank ends the collective at all.
func TestMemoryLargeOperatorPanics(t *testing.T) {
	bad := OpFunc(true, func(_, inout []int) {
		if inout[len(inout)-1] < 0 {
			panic("bad operator")
		}
	})
	runMapped(t, 3, func(c *Comm) (err error) {
		in := make([]int, (256<<10)/8)
		in[len(in)-1] = -1 // of the last rank's block
		func() {
			defer func() {
				if r := recover(); r != nil {
					err = fmt.Errorf("rank %d: %v", c.rank, r)
				}
			}()
			err = c.Allreduce(Of(in), Of(in), bad)
		}()
		switch {
		case err == nil:
			return fmt.Errorf("no error at rank %d", c.rank)
		case c.rank == 2:
			if !strings.Contains(err.Error(), "bad operator") {
				return err
			}
		default:
			require.ErrorIs(t, err, ErrOperator)
		}
		// Later collectives are right, by messages.
		for i := range in {
			in[i] = i
		}
		err = c.Allreduce(Of(in), Of(in), Sum)
		return cmp.Or(err, expect("sum", 3*7, in[7]), c.Barrier())
	})
}

// A caller that waits in a large reduction for a rank that ends the run returns, whether it waits
// for all ranks to call, or for what that rank combines.
func TestMemoryLargeAborted(t *testing.T) {
	run := runners["apart, shm"]
	if run == nil {
		t.Skip("no shared memory here")
	}
	for _, arrives := range []bool{false, true} {
		err := run(context.Background(), Config{Ranks: 3}, func(c *Comm) error {
			in := make([]int, 4*(256<<10)/8)
			if err := c.Barrier(); err != nil {
				return err
			}
			if c.rank == 1 && !arrives {
				return errTest
			}
			op := OpFunc(true, func(_, _ []int) {
				if c.rank == 1 {
					c.Abort(errTest)
					<-c.Context().Done()
				}
			})
			err := c.Allreduce(Of(in), Of(in), op)
			require.ErrorIs(t, err, ErrAborted)
			return err
		})
		require.ErrorIs(t, err, errTest)
		requireNoRankGoroutines(t)
	}
}
