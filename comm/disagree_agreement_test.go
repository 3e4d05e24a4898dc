// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"testing"
	"time"

	"weft/comm/internal/smcoll"

	"github.com/stretchr/testify/require"
)

// agreementCalls are the agreements as calls.
func agreementCalls(ctx context.Context) []aCall {
	return []aCall{
		{"agree", func(c *Comm, _ int) error { _, err := c.Agree(ctx, 1); return err }},
		{"shrink", func(c *Comm, _ int) error { _, err := c.Shrink(ctx); return err }},
	}
}

// moreRunners returns the ways to run ranks, including some that only few tests need, and the
// number of ranks for each.
func moreRunners() (ways map[string]func(context.Context, Config, func(*Comm) error) error, sizes []int) {
	ways = maps.Clone(runners)
	if _, job := ways["mpi"]; job {
		return ways, []int{2, 4}
	}
	ways["apart, tcp"], ways["together, messages"] = runTCP, runMessages
	return ways, []int{2, 5}
}

// runMessages is Run with collectives by messages only.
func runMessages(ctx context.Context, cfg Config, body func(c *Comm) error) error {
	onlyMessages.Store(true)
	defer onlyMessages.Store(false)
	return Run(ctx, cfg, body)
}

// If some ranks are in Agree or Shrink and others in a collective, each rank gets an error that
// names both.
func TestAgreementsAgainstCollectives(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = 2 * time.Millisecond
	ways, sizes := moreRunners()
	for how, run := range ways {
		for _, ranks := range sizes {
			t.Run(fmt.Sprintf("%s, %d ranks", how, ranks), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, run(ctx, Config{Ranks: ranks}, func(c *Comm) error {
					for i, x := range calls() {
						for j, v := range agreementCalls(ctx) {
							if (i+j)%3 != ranks%3 && ranks > 2 {
								continue // other pairs for other numbers of ranks
							}
							if err := disagree(c, 1, x, v, (i+j)%ranks); err != nil {
								return err
							}
							if err := disagree(c, 10_000, v, x, i%ranks); err != nil {
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

// No deadlock is reported instead, however rarely the stale check runs.
func TestAgreementIsNoDeadlock(t *testing.T) {
	checkOften(t)
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = time.Hour
	for how, run := range runners {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, run(ctx, Config{Ranks: 3}, func(c *Comm) error {
				return disagree(c, 1, calls()[0], agreementCalls(t.Context())[1], 1)
			}))
		})
	}
}

// Different orders of agreements and requests are found later: by the next collective, or at the
// end of the run.
func TestAgreementsInAnotherOrder(t *testing.T) {
	for how, run := range runners {
		for _, next := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, one more: %v", how, next), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := run(ctx, Config{Ranks: 3}, func(c *Comm) error {
					var r *Request
					if c.Rank() == 1 {
						r = c.Ibarrier()
					}
					if _, err := c.Agree(ctx, 1); err != nil {
						return err
					}
					if c.Rank() != 1 {
						r = c.Ibarrier()
					}
					err := wait(r)
					if err == nil && next {
						err = c.Barrier()
					}
					return err
				})
				require.ErrorIs(t, err, ErrMismatch)
				require.ErrorContains(t, err, "is in agree")
				require.ErrorContains(t, err, "is in barrier")
			})
		}
	}
}

// After a disagreement, agreements work: the values of ranks that were in one count, and a rank
// that comes late hears of the disagreement first.
func TestAgreementAfterDisagreement(t *testing.T) {
	defer func(d time.Duration) { staleAfter = d }(staleAfter)
	staleAfter = time.Millisecond
	for how, run := range runners {
		for _, revoke := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, revoked: %v", how, revoke), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				require.NoError(t, run(ctx, Config{Ranks: 4}, func(c *Comm) error {
					d, err := c.Dup()
					if err != nil {
						return err
					}
					switch c.Rank() {
					case 1:
						err = d.Barrier()
					case 3: // comes late
						for d.disagreement(d.proc.failure.Load()) == nil {
							runtime.Gosched()
						}
						fallthrough
					default:
						_, err = d.Agree(ctx, 6)
					}
					if !errors.Is(err, ErrMismatch) {
						return fmt.Errorf("rank %d: %w", c.Rank(), err)
					}
					switch c.Rank() {
					case 1:
						if revoke {
							d.Revoke()
						}
						if got, err := d.Agree(ctx, 3); err != nil || got != 2 {
							return fmt.Errorf("agreed on %d: %w", got, err)
						}
					}
					s, err := d.Shrink(ctx)
					if err != nil {
						return err
					}
					return errors.Join(work(s), work(c))
				}))
			})
		}
	}
}

// A rank that hears of a revocation has heard of the disagreement that may have caused it.
func TestRevocationAfterDisagreement(t *testing.T) {
	for how, run := range runners {
		t.Run(how, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, run(ctx, Config{Ranks: 2}, func(c *Comm) error {
				d, err := c.Dup()
				if err != nil {
					return err
				}
				if c.Rank() == 1 {
					// as another rank has told
					c.proc.recordDisagreement(d.ctx, &disagreement{err: ErrMismatch, from: 1})
					if err := d.Barrier(); !errors.Is(err, ErrMismatch) {
						return fmt.Errorf("a barrier after a disagreement ends with %v", err)
					}
					d.Revoke()
					_, err := d.Agree(ctx, 1)
					return err
				}
				for !d.Revoked() {
					runtime.Gosched()
				}
				if _, err := d.Agree(ctx, 1); !errors.Is(err, ErrMismatch) {
					return fmt.Errorf("an agreement after a disagreement ends with %v", err)
				}
				return nil
			}))
		})
	}
}

// Agreements keep their turn among collectives that wait for a slot.
func TestAgreementAmongManyCollectives(t *testing.T) {
	const n = 3 * smcoll.Width
	run(t, 3, func(c *Comm) error {
		var all []*Request
		many := func() {
			for range n {
				all = append(all, c.Ibarrier())
			}
		}
		if c.Rank() != 0 {
			if _, err := c.Recv(Buffer{}, 0, 1); err != nil {
				return err
			}
		}
		many()
		if c.Rank() == 0 { // no other rank has begun
			if err := errors.Join(c.Send(Buffer{}, 1, 1), c.Send(Buffer{}, 2, 1)); err != nil {
				return err
			}
		}
		if _, err := c.Agree(context.Background(), 1); err != nil {
			return err
		}
		many()
		for _, r := range all {
			if err := wait(r); err != nil {
				return err
			}
		}
		return c.Barrier()
	})
}

// Ranks that Run has not started make no stale check: nothing would stop its timer.
func TestNoStaleCheckWithoutARun(t *testing.T) {
	var s staleChecker
	s.schedule()
	require.Nil(t, s.timer)
	s.start(&world{size: 2, memoryColls: true})
	s.schedule()
	require.NotNil(t, s.timer)
	s.stop()
	require.Nil(t, s.timer)
}
