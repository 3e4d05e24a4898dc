// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/tampi"
	"weft/task"
)

// A task whose run ends cancels its receives. Later messages go to other receives, and the memory
// of the task does not change.
func TestWithdrawnRequests(t *testing.T) {
	const kept = 7
	for name, wait := range map[string]func(t *task.Task, c *comm.Comm, b comm.Buffer) error{
		"Wait": func(t *task.Task, c *comm.Comm, b comm.Buffer) error {
			_, err := tampi.Wait(t, c.Irecv(b, 0, 1))
			return err
		},
		"WaitAll": func(t *task.Task, c *comm.Comm, b comm.Buffer) error { return tampi.WaitAll(t, c.Irecv(b, 0, 1)) },
		"Recv":    func(t *task.Task, c *comm.Comm, b comm.Buffer) error { _, err := tampi.Recv(t, c, b, 0, 1); return err },
		"Sendrecv": func(t *task.Task, c *comm.Comm, b comm.Buffer) error {
			_, err := tampi.Sendrecv(t, c, comm.Buffer{}, comm.ProcNull, 0, b, 0, 1)
			return err
		},
		"Sendrecv with a send that fails": func(t *task.Task, c *comm.Comm, b comm.Buffer) error {
			_, err := tampi.Sendrecv(t, c, b, 99, 0, b, 0, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			mine := errors.New("mine")
			rt := task.New(task.Config{Workers: 1})
			defer func() { require.NoError(t, rt.Close()) }()
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				mem := []int64{kept}
				var got error
				err := rt.Run(ctx, func(t *task.Task) error {
					t.Spawn(func(t *task.Task) error {
						// runs when its parent waits, because there is one slot
						t.Spawn(func(*task.Task) error { cancel(mine); return nil })
						got = wait(t, c, comm.Of(mem))
						return got
					})
					return nil
				})
				if name == "Sendrecv with a send that fails" {
					mine = comm.ErrRank
				}
				if !errors.Is(got, mine) || err == nil {
					return fmt.Errorf("the wait returns %w, and the run %w", got, err)
				}
				in := []int64{0}
				if err := c.Send(comm.Of([]int64{1}), 0, 1); err != nil {
					return err
				}
				if _, err := c.Recv(comm.Of(in), 0, 1); err != nil {
					return err
				}
				if in[0] != 1 || mem[0] != kept {
					return fmt.Errorf("received %d; the memory of the task has %d", in[0], mem[0])
				}
				return nil
			}))
		})
	}
}

// If a request is complete when its task continues, Wait returns its result, although the task
// continues because its run has ended.
func TestCompleteAfterTheEnd(t *testing.T) {
	rt := task.New(task.Config{Workers: 1})
	defer func() { require.NoError(t, rt.Close()) }()
	mine := errors.New("mine")
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		mem := []int64{0}
		var st comm.Status
		var got error
		err := rt.Run(ctx, func(t *task.Task) error {
			t.Spawn(func(t *task.Task) error {
				t.Spawn(func(t *task.Task) error {
					// runs when its parent waits, because there is one slot
					cancel(mine)
					<-t.Context().Done()
					time.Sleep(20 * time.Millisecond) // the parent runs next
					return c.Send(comm.Of([]int64{5}), 0, 1)
				})
				st, got = tampi.Wait(t, c.Irecv(comm.Of(mem), 0, 1))
				return nil
			})
			return nil
		})
		if !errors.Is(err, mine) || got != nil || st.Bytes != 8 || mem[0] != 5 {
			return fmt.Errorf("the run returns %w, and the wait %+v, %w, and received is %d", err, st, got, mem[0])
		}
		return nil
	}))
}

// If some of several requests fail, each error is returned by the call, or ends the run if the
// request fails later. This holds for each choice of requests.
func TestErrorsOfSome(t *testing.T) {
	const n = 3
	for name, wait := range map[string]func(t *task.Task, rs []*comm.Request) error{
		"WaitAll":  func(t *task.Task, rs []*comm.Request) error { return tampi.WaitAll(t, rs...) },
		"IwaitAll": func(t *task.Task, rs []*comm.Request) error { return tampi.IwaitAll(t, rs...) },
		"Wait": func(t *task.Task, rs []*comm.Request) error {
			var errs []error
			for _, r := range rs {
				_, err := tampi.Wait(t, r)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
		"Iwait": func(t *task.Task, rs []*comm.Request) error {
			var errs []error
			for _, r := range rs {
				errs = append(errs, tampi.Iwait(t, r))
			}
			return errors.Join(errs...)
		},
	} {
		for fails := range 1 << n {
			for late := range 1 << n {
				rt := task.New(task.Config{Workers: 1})
				reqs, completes, errs := make([]*comm.Request, n), make([]func(), n), make([]error, n)
				for i := range n {
					r, complete := comm.NewRequest()
					if fails>>i&1 != 0 {
						errs[i] = fmt.Errorf("request %d", i)
					}
					reqs[i], completes[i] = r, func() { complete(errs[i]) }
					if late>>i&1 == 0 {
						completes[i]()
					}
				}
				what := fmt.Sprintf("%s, %03b fail, %03b are late", name, fails, late)
				var got error
				over := false
				err := rt.Run(t.Context(), func(t *task.Task) error {
					t.Spawn(func(t *task.Task) error {
						end := func(*task.Task) error {
							for i := range n {
								completes[i]() // late, or complete already
							}
							return nil
						}
						if name == "Wait" || name == "WaitAll" {
							t.Spawn(end) // runs when its parent waits, because there is one slot
						}
						got = wait(t, reqs)
						over = true
						_ = end(t)
						return got
					})
					return nil
				})
				require.NoError(t, rt.Close())
				require.True(t, over, what)
				require.Equal(t, fails != 0, err != nil, "%s: %v", what, err)
				for i, e := range errs {
					returned := e != nil && (name == "Wait" || name == "WaitAll" || late>>i&1 == 0)
					if e != nil && fails == 1<<i {
						require.ErrorIs(t, err, e, what)
					}
					require.Equal(t, returned, e != nil && errors.Is(got, e), "%s: %v", what, got)
				}
			}
		}
	}
}

// Each call returns the error of the call of package comm.
func TestIllegalArguments(t *testing.T) {
	for name, call := range map[string]func(t *task.Task, c *comm.Comm) error{
		"Send":  func(t *task.Task, c *comm.Comm) error { return tampi.Send(t, c, one(), 9, 0) },
		"Ssend": func(t *task.Task, c *comm.Comm) error { return tampi.Ssend(t, c, one(), 9, 0) },
		"Recv":  func(t *task.Task, c *comm.Comm) error { _, err := tampi.Recv(t, c, one(), 9, 0); return err },
		"Sendrecv to": func(t *task.Task, c *comm.Comm) error {
			_, err := tampi.Sendrecv(t, c, one(), 9, 0, one(), comm.ProcNull, 0)
			return err
		},
		"Sendrecv from": func(t *task.Task, c *comm.Comm) error {
			_, err := tampi.Sendrecv(t, c, one(), comm.ProcNull, 0, one(), 9, 0)
			return err
		},
		"Bcast":   func(t *task.Task, c *comm.Comm) error { return tampi.Bcast(t, c, one(), 9) },
		"Reduce":  func(t *task.Task, c *comm.Comm) error { return tampi.Reduce(t, c, one(), one(), comm.Sum, 9) },
		"Gather":  func(t *task.Task, c *comm.Comm) error { return tampi.Gather(t, c, one(), one(), 9) },
		"Scatter": func(t *task.Task, c *comm.Comm) error { return tampi.Scatter(t, c, one(), one(), 9) },
		"Iwait":   func(t *task.Task, c *comm.Comm) error { return tampi.Iwait(t, c.Isend(one(), 9, 0)) },
		"IwaitAll": func(t *task.Task, c *comm.Comm) error {
			return tampi.IwaitAll(t, nil, c.Isend(one(), comm.ProcNull, 0), c.Isend(one(), 9, 0))
		},
	} {
		var got error
		err := ranks(t, 1, 1, func(t *task.Task, c *comm.Comm) error { got = call(t, c); return got })
		require.ErrorIs(t, got, comm.ErrRank, name)
		require.ErrorIs(t, err, comm.ErrRank, name)
	}
}

// When Run returns the error of a task, the ranks' run has been aborted with that error.
func TestRunAbortsBeforeItReturns(t *testing.T) {
	mine := errors.New("mine")
	rt := task.New(task.Config{Workers: 1})
	defer func() { require.NoError(t, rt.Close()) }()
	for range 300 {
		var cause error
		err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
			if c.Rank() == 1 {
				return c.Barrier()
			}
			err := tampi.Run(rt, c, func(t *task.Task) error { return mine })
			cause = context.Cause(c.Context())
			runtime.Gosched()
			return err
		})
		require.ErrorIs(t, err, mine)
		require.ErrorIs(t, cause, mine)
	}
}
