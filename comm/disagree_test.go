// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"weft/comm/internal/coll"

	"github.com/stretchr/testify/require"
)

// aCall is a collective as one rank calls it. Calls with different names must not be made together.
type aCall struct {
	name string // as errors print it
	call func(c *Comm, n int) error
}

// calls are collectives with n elements to a rank.
func calls() []aCall {
	ints := func(n int) Buffer { return Of(make([]int64, n)) }
	floats := func(n int) Buffer { return Of(make([]float64, n)) }
	all := []aCall{
		{"barrier", func(c *Comm, _ int) error { return c.Barrier() }},
		{"barrier", func(c *Comm, _ int) error { return wait(c.Ibarrier()) }},
		{"allreduce (sum) of N int64", func(c *Comm, n int) error { return c.Allreduce(ints(n), ints(n), Sum) }},
		{"allreduce (sum) of N int64", func(c *Comm, n int) error { return wait(c.Iallreduce(ints(n), ints(n), Sum)) }},
		{"allreduce (max) of N int64", func(c *Comm, n int) error { return c.Allreduce(ints(n), ints(n), Max) }},
		{"allreduce (sum) of N float64", func(c *Comm, n int) error { return c.Allreduce(floats(n), floats(n), Sum) }},
		{"scan (sum) of N int64", func(c *Comm, n int) error { return c.Scan(ints(n), ints(n), Sum) }},
		{"allgather of N int64", func(c *Comm, n int) error { return c.Allgather(ints(n), ints(n*c.Size())) }},
		{"alltoall of N int64", func(c *Comm, n int) error { return c.Alltoall(ints(n*c.Size()), ints(n*c.Size())) }},
		{"dup", func(c *Comm, _ int) error { _, err := c.Dup(); return err }},
		{"split", func(c *Comm, _ int) error { _, err := c.Split(0, 0); return err }},
	}
	for root := range 2 {
		at := func(what string) string { return strings.Replace(what, "R", fmt.Sprint(root), 1) }
		all = append(all, []aCall{
			{at("bcast (root R) of N int64"), func(c *Comm, n int) error { return c.Bcast(ints(n), root) }},
			{at("bcast (root R) of N int64"), func(c *Comm, n int) error { return wait(c.Ibcast(ints(n), root)) }},
			{at("bcast (root R) of N float64"), func(c *Comm, n int) error { return c.Bcast(floats(n), root) }},
			{at("bcast (root R) of N2 int64"), func(c *Comm, n int) error { return c.Bcast(ints(n+2), root) }},
			{at("reduce (sum, root R) of N int64"), func(c *Comm, n int) error { return c.Reduce(ints(n), ints(n), Sum, root) }},
			{at("gather (root R) of N int64"), func(c *Comm, n int) error { return c.Gather(ints(n), ints(n*c.Size()), root) }},
			{at("gather (root R) of N int64"), func(c *Comm, n int) error { return wait(c.Igather(ints(n), ints(n*c.Size()), root)) }},
			{at("scatter (root R) of N int64"), func(c *Comm, n int) error { return c.Scatter(ints(n*c.Size()), ints(n), root) }},
		}...)
	}
	return all
}

func (x aCall) of(n int) string {
	for name, n := range map[string]int{" N ": n, " N2 ": n + 2} {
		if strings.Contains(x.name, name) {
			return strings.Replace(x.name, name, fmt.Sprintf(" %d ", n), 1) + fmt.Sprintf(" (%d bytes)", 8*n)
		}
	}
	return x.name
}

// Whichever two collectives ranks are in, by messages or in memory: each rank gets ErrMismatch that
// names both, in that collective or in the next, and none waits for ever.
func TestCollectivesThatDisagree(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = 2 * time.Millisecond
	all := calls()
	ways, sizes := maps.Clone(runners), []int{2, 3, 8}
	if _, job := ways["mpi"]; job {
		sizes = []int{2, 3, 4} // it has no more
	} else {
		ways["apart, tcp"], ways["apart, given up late"] = runTCP, runGrudging
	}
	for how, run := range ways {
		for _, ranks := range sizes {
			for _, n := range []int{1, 40_000} {
				t.Run(fmt.Sprintf("%s, %d ranks, %d elements", how, ranks, n), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					require.NoError(t, run(ctx, Config{Ranks: ranks}, func(c *Comm) error {
						k := 0
						for i, x := range all {
							for j, y := range all {
								k++
								if x.name == y.name || (n > 1 || ranks > 2) && (i*len(all)+j)%19 != ranks {
									continue // other pairs for other numbers of ranks
								}
								if err := disagree(c, n, x, y, k%ranks); err != nil {
									return err
								}
							}
						}
						return nil
					}))
				})
			}
		}
	}
}

// A rank that comes late to another collective, long after the message of the first rank's
// collective, finds the disagreement.
func TestLateDisagreement(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = time.Millisecond
	for how, run := range runners {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.ErrorIs(t, run(ctx, Config{Ranks: 2}, func(c *Comm) error {
				b := Of(make([]int64, 40_000))
				if c.Rank() == 1 {
					return c.Bcast(b, 1)
				}
				time.Sleep(20 * time.Millisecond)
				return c.Allreduce(b, Of(make([]int64, 40_000)), Sum)
			}), ErrMismatch)
		})
	}
}

// disagree has one rank call y where the others call x.
func disagree(c *Comm, n int, x, y aCall, odd int) error {
	d, err := c.Dup()
	if err != nil {
		return err
	}
	call := x
	if c.Rank() == odd {
		call = y
	}
	got := call.call(d, n)
	if got == nil {
		got = d.Barrier()
	}
	for _, name := range []string{x.of(n), y.of(n)} {
		if !errors.Is(got, ErrMismatch) || !strings.Contains(got.Error()+",", "is in "+name+",") {
			return fmt.Errorf("rank %d of %d, %s where rank %d is in %s: %w", c.Rank(), c.Size(), x.of(n), odd, y.of(n), errors.Join(got, errors.New("does not name "+name)))
		}
	}
	return nil
}

// A disagreement that no later collective finds is found at the end of the run.
func TestCollectivesThatDisagreeAtTheEnd(t *testing.T) {
	var kept [4]*Comm // else it would be unreachable at the end
	bodies := map[string]func(c *Comm) error{
		"of all": func(c *Comm) error { return wait(c.Ibcast(Of([]int64{1}), c.Rank())) },
		"of a part": func(c *Comm) error {
			d, err := c.Split(c.Rank()%2, 0)
			if err != nil {
				return err
			}
			kept[c.Rank()] = d
			return wait(d.Ibcast(Of([]int64{1}), d.Rank()))
		},
	}
	bodies["of what is let go of"] = func(c *Comm) error {
		for odd := range coll.RecentComms {
			d, err := c.Dup()
			if err == nil && odd == 0 {
				err = wait(d.Ibcast(Of([]int64{1}), c.Rank()))
			}
			if err != nil {
				return err
			}
		}
		runtime.GC()
		runtime.GC()
		return nil
	}
	for r := range kept { // the others have made none at all
		bodies[fmt.Sprintf("rank %d has more", r)] = func(c *Comm) error { return c.more(r) }
		bodies[fmt.Sprintf("rank %d has more of a copy", r)] = func(c *Comm) error {
			d, err := c.Dup()
			if err != nil {
				return err
			}
			kept[c.Rank()] = d
			return d.more(r)
		}
	}
	for how, run := range runners {
		for name, body := range bodies {
			for _, survive := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, survive %v", how, name, survive), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err := run(ctx, Config{Ranks: 4, Survive: survive}, body)
					require.ErrorIs(t, err, ErrMismatch)
					require.ErrorContains(t, err, "bcast (root")
				})
			}
		}
	}
}

// If all ranks that disagree handle the error, the run ends well, also if the disagreement was in
// the communicator of all.
func TestDisagreementThatIsHandled(t *testing.T) {
	for how, run := range runners {
		for odd := range 3 {
			t.Run(fmt.Sprintf("%s, rank %d is odd", how, odd), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, run(ctx, Config{Ranks: 3}, func(c *Comm) error {
					call := c.Barrier
					if c.Rank() == odd {
						call = func() error { return c.Allreduce(Of([]int{1}), Of([]int{1}), Sum) }
					}
					if err := call(); !errors.Is(err, ErrMismatch) {
						return fmt.Errorf("rank %d: %w", c.Rank(), err)
					}
					return nil
				}))
			})
		}
	}
}

// Ranks that live compare at the end, whichever rank dies before or meanwhile. A communicator with
// a lost member is left out.
func TestRanksThatLiveCompare(t *testing.T) {
	errDies := errors.New("this rank dies")
	var kept [4][2]*Comm
	for how, run := range runners {
		for _, agree := range []bool{true, false} {
			for dies := 1; dies < len(kept); dies++ { // in processes, the rest is for rank 0 only
				t.Run(fmt.Sprintf("%s, rank %d dies, the others agree: %v", how, dies, agree), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					err := run(ctx, Config{Ranks: len(kept), Survive: true}, func(c *Comm) error {
						all, err := c.Dup()
						if err != nil {
							return err
						}
						living, err := c.Split(min(1, max(c.Rank()-dies, dies-c.Rank())), 0)
						if err != nil {
							return err
						}
						kept[c.Rank()] = [2]*Comm{all, living}
						if err := c.Barrier(); err != nil && !errors.Is(err, ErrPeerLost) {
							return err
						}
						if c.Rank() == dies {
							return errDies
						}
						if err := all.more((dies + 1) % len(kept)); err != nil && !errors.Is(err, ErrPeerLost) {
							return err
						}
						// An agreement that begins before the loss is known would be one more
						// difference.
						if _, err := all.Recv(Of([]int64{0}), dies, 0); !errors.Is(err, ErrPeerLost) {
							return fmt.Errorf("a receive from a rank that dies: %w", err)
						}
						if _, err := all.Agree(ctx, 0); !errors.Is(err, ErrPeerLost) {
							// all know of the loss
							return fmt.Errorf("an agreement with a rank that dies: %w", err)
						}
						if agree {
							return living.Barrier()
						}
						return living.more(1)
					})
					if agree {
						require.NotErrorIs(t, err, ErrMismatch)
						return
					}
					require.ErrorIs(t, err, ErrMismatch)
					require.ErrorContains(t, err, "bcast (root 1)")
				})
			}
		}
	}
}

// Ranks that agree may end at different times. A rank that waits at the end of its function for
// another rank has made no collective that the other rank lacks.
func TestRanksThatAgreeEndLate(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = time.Millisecond
	var kept [3]*Comm
	for how, run := range runners {
		if how == "together" {
			continue // no rank waits for others there
		}
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, run(ctx, Config{Ranks: len(kept)}, func(c *Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				kept[c.Rank()] = d
				if err := d.Barrier(); err != nil {
					return err
				}
				for c.Rank() == 1 && !c.hist.Behind() { // until another rank asks for its history
					if ctx.Err() != nil {
						return ctx.Err()
					}
					runtime.Gosched()
				}
				return nil
			}))
		})
	}
}

// more has one rank broadcast once more than the others.
func (c *Comm) more(rank int) error {
	if c.Rank() != rank {
		return nil
	}
	return wait(c.Ibcast(Of([]int64{1}), rank))
}

// Elements that are moved as plain memory agree with all others, in every collective that only
// moves elements.
func TestCollectivesOfPlainMemoryAgree(t *testing.T) {
	run(t, 3, func(c *Comm) error {
		for _, n := range []int{1, 5000, 100_000} {
			buf := Of(make([]float64, n))
			if c.Rank() == 1 {
				buf = Of(make([]byte, 8*n))
			}
			for range 3 {
				if err := c.Bcast(buf, 0); err != nil {
					return err
				}
				if err := wait(c.Ibcast(buf, 2)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// A caller that waits for the explanation of a disagreement gets it once, whatever ends the wait.
func TestExplanations(t *testing.T) {
	seen, told := errors.New("seen"), fmt.Errorf("%w: told", ErrMismatch)
	for how, x := range map[string]struct {
		end  func(c *Comm)
		want error
	}{
		"the run is over":     {func(c *Comm) { c.world.end(errors.New("aborted")) }, seen},
		"this rank is over":   {func(c *Comm) { c.proc.kill(errors.New("killed")) }, seen},
		"a member is lost":    {func(c *Comm) { c.proc.markLost(1, &LostError{Rank: 1, Err: errors.New("gone")}) }, seen},
		"it is revoked":       {func(c *Comm) { c.proc.revoke(c.ctx) }, seen},
		"another rank says":   {func(c *Comm) { c.proc.recordDisagreement(c.ctx, &disagreement{err: told}) }, told},
		"of another, nothing": {func(c *Comm) { c.proc.recordDisagreement(c.ctx+2, &disagreement{err: told}) }, nil},
	} {
		for _, before := range []bool{false, true} {
			_, c := withNeighbours(t, true)
			if before {
				x.end(c)
			}
			var got []error
			c.onExplanation(seen, func(err error) { got = append(got, err) })
			if !before {
				require.Empty(t, got, how)
				x.end(c)
			}
			if x.want == nil {
				require.Empty(t, got, how)
				continue
			}
			require.Equal(t, []error{x.want}, got, "%s, before: %v", how, before)
		}
	}
}

// Parts without elements have no type that ranks could disagree on.
func TestEmptyPartsOfDifferentTypes(t *testing.T) {
	for how, runOn := range runners {
		for _, messages := range []bool{false, true} {
			onlyMessages.Store(messages)
			for _, n := range []int{2, 5} {
				err := runOn(t.Context(), Config{Ranks: n}, func(c *Comm) error {
					none := []Buffer{Of([]int64{}), Of([]float32{}), Of([]byte{})}[c.Rank()%3]
					return cmp.Or(c.Bcast(none, n-1), c.Allgather(none, none), c.Alltoall(none, none), c.Gather(none, none, 0), c.Scatter(none, none, 1), c.Barrier())
				})
				if err != nil {
					t.Errorf("%s, messages %v, %d ranks: %v", how, messages, n, err)
				}
			}
			onlyMessages.Store(false)
		}
	}
}
