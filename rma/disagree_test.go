// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
	"weft/rma"
)

// If one rank frees a window and the others fence it, the error at each rank names both calls.
func TestFenceAgainstFree(t *testing.T) {
	for name, divide := range map[string]func(ctx context.Context) context.Context{
		"together": func(ctx context.Context) context.Context { return ctx },
		"apart":    func(ctx context.Context) context.Context { return inproc.Divide(ctx) },
		"mixed":    func(ctx context.Context) context.Context { return inproc.Divide(ctx, 2, 1) },
	} {
		for odd := range 3 {
			t.Run(fmt.Sprintf("%s, rank %d", name, odd), func(t *testing.T) {
				require.NoError(t, comm.Run(divide(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					w, err := rma.Create(c, make([]int64, 4))
					if err != nil {
						return err
					}
					if err := errors.Join(w.Fence(0), c.Barrier()); err != nil {
						// else a rank that is still in the first fence may receive the second one's
						// error
						return err
					}
					if c.Rank() == odd {
						err = w.Free()
					} else if err = w.Fence(0); err != nil {
						_ = w.Free()
					}
					for _, say := range []string{comm.ErrMismatch.Error(), "fence", "free window"} {
						if err == nil || !strings.Contains(err.Error(), say) {
							return fmt.Errorf("rank %d: %v; the error does not contain %q", c.Rank(), err, say)
						}
					}
					return nil
				}))
			})
		}
	}
}

// Making a window does not match another collective.
func TestCreateAgainstDup(t *testing.T) {
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		var err error
		if c.Rank() == 0 {
			_, err = c.Dup()
		} else {
			_, err = rma.Create(c, make([]int64, 4))
		}
		for _, say := range []string{comm.ErrMismatch.Error(), "dup", "create window"} {
			if err == nil || !strings.Contains(err.Error(), say) {
				return fmt.Errorf("rank %d: %v; the error does not contain %q", c.Rank(), err, say)
			}
		}
		return nil
	}))
}

// After a mismatch the window is lost: no operation and no fence waits for the rank that has freed
// it, however much data is for that rank.
func TestOperationsAfterDisagreement(t *testing.T) {
	for way, as := range ways {
		t.Run(way, func(t *testing.T) {
			freed := make(chan struct{})
			require.NoError(t, comm.Run(as(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
				w, _, err := rma.Allocate[int64](c, 2<<14)
				if err != nil {
					return err
				}
				if err := errors.Join(w.Fence(0), c.Barrier()); err != nil {
					return err
				}
				if c.Rank() == 1 {
					err = wants(w.Free(), comm.ErrMismatch)
					close(freed)
					return err
				}
				err = wants(w.Fence(0), comm.ErrMismatch)
				<-freed
				refused := !c.Local(1)
				at := c.Rank() / 2 << 14 // each rank writes to its own part
				for _, n := range []int{1, 1 << 14} {
					buf := comm.Of(make([]int64, n))
					for range 300 {
						for op, got := range map[string]error{"put": w.Put(buf, 1, at), "get": w.Get(buf, 1, at), "accumulate": w.Accumulate(buf, 1, at, comm.Sum)} {
							if errors.Is(got, comm.ErrMismatch) != refused {
								return fmt.Errorf("%s of %d: %v", op, n, got)
							}
						}
						if !refused {
							break
						}
					}
				}
				return errors.Join(err, wants(w.Fence(0), comm.ErrMismatch), wants(w.Free(), comm.ErrMismatch))
			}))
		})
	}
}

// Ranks that call fences after a mismatch do not wait for the rank that has freed the window. They
// also send it nothing, because that rank may be in an earlier fence.
func TestFencesAfterDisagreement(t *testing.T) {
	for way, as := range ways {
		t.Run(way, func(t *testing.T) {
			require.NoError(t, comm.Run(as(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
				for range 50 {
					w, _, err := rma.Allocate[int64](c, 4)
					if err == nil {
						err = errors.Join(w.Fence(0), c.Barrier())
					}
					if c.Rank() != 1 {
						for range 8 {
							err = errors.Join(err, wants(w.Fence(0), comm.ErrMismatch))
						}
					}
					if err := errors.Join(err, wants(w.Free(), comm.ErrMismatch), c.Barrier()); err != nil {
						return err
					}
				}
				return nil
			}))
		})
	}
}

// An error names the call of the program once, and the cause once.
func TestErrorsNameTheCause(t *testing.T) {
	mine := errors.New("mine")
	for _, way := range []string{"together", "apart"} {
		for op, call := range map[string]func(c *comm.Comm, w *rma.Win) error{
			"fence":         func(_ *comm.Comm, w *rma.Win) error { return w.Fence(0) },
			"free":          func(_ *comm.Comm, w *rma.Win) error { return w.Free() },
			"create window": func(c *comm.Comm, _ *rma.Win) error { _, err := rma.Create(c, make([]int64, 1)); return err },
			"put": func(c *comm.Comm, w *rma.Win) (err error) { // legal until the run ends
				for err == nil {
					err = w.Put(comm.Of([]int64{1}), c.Rank(), 0)
				}
				return err
			},
		} {
			t.Run(fmt.Sprint(way, ", ", op), func(t *testing.T) {
				var ready sync.WaitGroup
				ready.Add(2)
				got := make([]error, 3)
				err := comm.Run(ways[way](t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					w, _, err := rma.Allocate[int64](c, 9)
					if err != nil {
						return err
					}
					if err := w.Fence(0); err != nil {
						return err
					}
					if c.Rank() == 1 {
						ready.Wait()
						return mine
					}
					ready.Done()
					got[c.Rank()] = call(c, w)
					for range 100 {
						// the end of the run frees the window at some time; the cause stays the
						// same
						if again := call(c, w); again.Error() != got[c.Rank()].Error() {
							return fmt.Errorf("first %w, then %w", got[c.Rank()], again)
						}
						runtime.Gosched()
					}
					return got[c.Rank()]
				})
				require.ErrorIs(t, err, mine)
				require.NotContains(t, err.Error(), "first")
				for _, r := range []int{0, 2} {
					where := fmt.Sprint(op, " on rank ", r)
					if op == "put" {
						where += fmt.Sprint(", target ", r)
					}
					require.EqualError(t, got[r], "rma: "+where+": the run is aborted: rank 1: mine")
				}
			})
		}
	}
}

// The end of the run finds a fence that one rank calls and others do not, even if no rank waits for
// the fence.
func TestFenceThatNobodyWaitsFor(t *testing.T) {
	for way, as := range ways {
		for odd := range 3 {
			t.Run(fmt.Sprintf("%s, rank %d", way, odd), func(t *testing.T) {
				err := comm.Run(as(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					w, _, err := rma.Allocate[int64](c, 4)
					if err == nil {
						err = errors.Join(w.Fence(0), c.Barrier())
					}
					if c.Rank() == odd {
						w.Ifence(0)
					}
					return err
				})
				require.ErrorIs(t, err, comm.ErrMismatch)
				require.ErrorContains(t, err, "is in fence")
			})
		}
	}
}

// Fences that all ranks call and no rank waits for are no mismatch, in whatever epoch each rank is.
func TestFencesThatNobodyWaitsFor(t *testing.T) {
	for way, as := range ways {
		t.Run(way, func(t *testing.T) {
			require.NoError(t, comm.Run(as(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
				w, _, err := rma.Allocate[int64](c, 1<<14)
				if err != nil {
					return err
				}
				for range 5 {
					w.Ifence(0)
					err = errors.Join(err, w.Put(comm.Of(make([]int64, 1<<12)), (c.Rank()+1)%3, 0))
				}
				return err
			}))
		})
	}
}

// lateBacking delays the flush of each fence but the first.
type lateBacking struct{ *slowBacking }

func (b lateBacking) Flush(done func(error)) {
	if b.flushed.Load() == 0 {
		b.slowBacking.Flush(done)
		return
	}
	b.flushed.Add(1)
	b.wg.Go(func() {
		// by now the other ranks are in the fence, and this rank's function is over
		time.Sleep(20 * time.Millisecond)
		done(nil)
	})
}

// A rank whose function is over is not reported as lacking fences that it has called and not begun.
func TestFencesThatBeginLate(t *testing.T) {
	for late := range 3 {
		bs := newSlowBackings(3)
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			var b rma.Backing = bs[c.Rank()]
			if c.Rank() == late {
				b = lateBacking{bs[c.Rank()]}
			}
			w, err := rma.New(c, b, comm.Info{})
			if err != nil {
				return err
			}
			first := w.Ifence(0)
			for range 3 {
				w.Ifence(0)
			}
			if c.Rank() == late {
				return nil
			}
			_, err = first.Wait(c.Context())
			time.Sleep(5 * time.Millisecond) // the second fence has begun at this rank
			return err
		}))
	}
}
