// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/internal/event/oracle"
	"weft/tampi"
	"weft/task"
	"weft/trace"
)

// ranks runs body as the main task of each of n ranks, which share one runtime. It records the run,
// and requires that a replay finds the recording legal.
func ranks(t *testing.T, n, workers int, body func(t *task.Task, c *comm.Comm) error) error {
	t.Helper()
	rec := oracle.New(t)
	rt := task.New(task.Config{Workers: workers, Trace: (*trace.Recorder)(rec)})
	defer func() { require.NoError(t, rt.Close()) }()
	return comm.Run(context.Background(), comm.Config{Ranks: n, Trace: (*trace.Recorder)(rec)}, func(c *comm.Comm) error {
		return tampi.Run(rt, c, func(t *task.Task) error { return body(t, c) })
	})
}

var workerCounts = []int{1, 2, 3}

// Each send and each receive is a task that blocks. The receiver posts in reverse order of the
// tags.
func TestPrimitiveBlocking(t *testing.T) {
	const msgs, n = 200, 100
	for _, w := range workerCounts {
		require.NoError(t, ranks(t, 2, w, func(t *task.Task, c *comm.Comm) error {
			peer := 1 - c.Rank()
			for m := range msgs {
				t.Spawn(func(t *task.Task) error {
					b := make([]int64, n)
					for i := range b {
						b[i] = int64(c.Rank()*1_000_000 + m*n + i)
					}
					return tampi.Send(t, c, comm.Of(b), peer, m)
				})
			}
			for m := msgs - 1; m >= 0; m-- {
				t.Spawn(func(t *task.Task) error {
					b := make([]int64, n)
					st, err := tampi.Recv(t, c, comm.Of(b), peer, m)
					if err != nil {
						return err
					}
					if st.Source != peer || st.Tag != m || st.Count(8) != n {
						return fmt.Errorf("status %+v", st)
					}
					for i := range b {
						if b[i] != int64(peer*1_000_000+m*n+i) {
							return fmt.Errorf("message %d: [%d] = %d", m, i, b[i])
						}
					}
					return nil
				})
			}
			return t.Wait()
		}))
	}
}

// Iwait: the successor finds the data, with many steps in flight at once.
func TestPrimitiveNonBlocking(t *testing.T) {
	const msgs, n, steps = 50, 100, 20
	for _, w := range workerCounts {
		require.NoError(t, ranks(t, 2, w, func(t *task.Task, c *comm.Comm) error {
			peer := 1 - c.Rank()
			out := make([][]int64, msgs)
			in := make([][]int64, msgs)
			sts := make([]comm.Status, msgs)
			for m := range msgs {
				out[m], in[m] = make([]int64, n), make([]int64, n)
			}
			for s := range steps {
				for m := range msgs {
					t.Spawn(func(t *task.Task) error {
						for i := range out[m] {
							out[m][i] = int64(s*1000 + m + i)
						}
						return nil
					}, deps.Out(&out[m][0]))
					t.Spawn(func(t *task.Task) error {
						return tampi.Iwait(t, c.Isend(comm.Of(out[m]), peer, m))
					}, deps.In(&out[m][0]))
					t.Spawn(func(t *task.Task) error {
						r := c.Irecv(comm.Of(in[m]), peer, m)
						r.OnDone(func(error) { sts[m] = r.Status() })
						return tampi.Iwait(t, r)
					}, deps.Out(&in[m][0]), deps.Out(&sts[m]))
					t.Spawn(func(t *task.Task) error {
						for i, v := range in[m] {
							if v != int64(s*1000+m+i) {
								return fmt.Errorf("step %d message %d: [%d] = %d", s, m, i, v)
							}
						}
						if st := sts[m]; st.Source != peer || st.Tag != m || st.Bytes != 8*n {
							return fmt.Errorf("status %+v", st)
						}
						return nil
					}, deps.In(&in[m][0]), deps.In(&sts[m]))
				}
			}
			return t.Wait()
		}))
	}
}

// The ranks start broadcasts on many communicators in opposite orders. Blocking calls outside tasks
// would deadlock.
func TestCollectivesInOppositeOrders(t *testing.T) {
	const comms = 40
	for _, bind := range []bool{false, true} {
		for _, w := range workerCounts {
			require.NoError(t, ranks(t, 4, w, func(t *task.Task, c *comm.Comm) error {
				cs := make([]*comm.Comm, comms)
				for i := range cs {
					var err error
					t.Blocking(func() { cs[i], err = c.Dup() })
					if err != nil {
						return err
					}
				}
				vals := make([]int64, comms)
				for k := range comms {
					i := k
					if c.Rank()%2 == 1 {
						i = comms - 1 - k
					}
					root := i % 4
					if c.Rank() == root {
						vals[i] = int64(100 + i)
					}
					t.Spawn(func(t *task.Task) error {
						if bind {
							return tampi.Iwait(t, cs[i].Ibcast(comm.Of(vals[i:i+1]), root))
						}
						return tampi.Bcast(t, cs[i], comm.Of(vals[i:i+1]), root)
					}, deps.InOut(&vals[i]))
					t.Spawn(func(t *task.Task) error {
						if vals[i] != int64(100+i) {
							return fmt.Errorf("communicator %d: got %d", i, vals[i])
						}
						return nil
					}, deps.In(&vals[i]))
				}
				return t.Wait()
			}))
		}
	}
}

// A nil request is complete.
func TestNilRequests(t *testing.T) {
	require.NoError(t, ranks(t, 1, 1, func(t *task.Task, c *comm.Comm) error {
		var none *comm.Request
		st, err := tampi.Wait(t, none)
		if st != (comm.Status{}) {
			return fmt.Errorf("a status: %v", st)
		}
		return errors.Join(err, tampi.Iwait(t, none), tampi.Iwait(t, nil), tampi.IwaitAll(t, none, none), tampi.WaitAll(t, none))
	}))
}

// One task binds 500 requests, some of them nil.
func TestIwaitAllHuge(t *testing.T) {
	const n = 500
	require.NoError(t, ranks(t, 2, 2, func(t *task.Task, c *comm.Comm) error {
		peer := 1 - c.Rank()
		in, out := make([]int64, n), make([]int64, n)
		for i := range out {
			out[i] = int64(i + c.Rank()*n)
		}
		var all byte
		t.Spawn(func(t *task.Task) error {
			reqs := []*comm.Request{nil}
			for i := range n {
				reqs = append(reqs, c.Irecv(comm.Of(in[i:i+1]), peer, i), nil)
			}
			return tampi.IwaitAll(t, reqs...)
		}, deps.Out(&all))
		t.Spawn(func(t *task.Task) error {
			for i, v := range in {
				if v != int64(i+peer*n) {
					return fmt.Errorf("[%d] = %d", i, v)
				}
			}
			return nil
		}, deps.In(&all))
		t.Spawn(func(t *task.Task) error {
			var reqs []*comm.Request
			for i := n - 1; i >= 0; i-- {
				reqs = append(reqs, c.Isend(comm.Of(out[i:i+1]), peer, i))
			}
			return tampi.WaitAll(t, reqs...)
		})
		return t.Wait()
	}))
}

func TestEveryBlockingCall(t *testing.T) {
	const p = 3
	require.NoError(t, ranks(t, p, 2, func(t *task.Task, c *comm.Comm) error {
		r := c.Rank()
		one := []int64{int64(r + 1)}
		all := make([]int64, p)
		sum := make([]int64, 1)
		check := func(what string, err error, got, want []int64) error {
			if err == nil && fmt.Sprint(got) != fmt.Sprint(want) {
				err = fmt.Errorf("got %v, want %v", got, want)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		}
		var errs []error
		errs = append(errs, check("barrier", tampi.Barrier(t, c), nil, nil))
		errs = append(errs, check("allreduce", tampi.Allreduce(t, c, comm.Of(one), comm.Of(sum), comm.Sum), sum, []int64{6}))
		errs = append(errs, check("scan", tampi.Scan(t, c, comm.Of(one), comm.Of(sum), comm.Sum), sum, []int64{int64((r + 1) * (r + 2) / 2)}))
		errs = append(errs, check("allgather", tampi.Allgather(t, c, comm.Of(one), comm.Of(all)), all, []int64{1, 2, 3}))
		to := []int64{int64(10 * r), int64(10*r + 1), int64(10*r + 2)}
		errs = append(errs, check("alltoall", tampi.Alltoall(t, c, comm.Of(to), comm.Of(all)), all, []int64{int64(r), int64(10 + r), int64(20 + r)}))
		err := tampi.Reduce(t, c, comm.Of(one), comm.Of(sum), comm.Prod, 1)
		if r == 1 {
			err = check("reduce", err, sum, []int64{6})
		}
		errs = append(errs, err)
		clear(all)
		err = tampi.Gather(t, c, comm.Of(one), comm.Of(all), 2)
		if r == 2 {
			err = check("gather", err, all, []int64{1, 2, 3})
		}
		errs = append(errs, err)
		src := []int64{7, 8, 9}
		errs = append(errs, check("scatter", tampi.Scatter(t, c, comm.Of(src), comm.Of(sum), 0), sum, []int64{int64(7 + r)}))
		st, err := tampi.Sendrecv(t, c, comm.Of(one), (r+1)%p, 5, comm.Of(sum), (r+p-1)%p, 5)
		errs = append(errs, check("sendrecv", err, []int64{sum[0], int64(st.Source)}, []int64{int64((r+p-1)%p + 1), int64((r + p - 1) % p)}))
		if r == 0 {
			errs = append(errs, tampi.Ssend(t, c, comm.Of(one), 1, 6))
		} else if r == 1 {
			_, err := tampi.Recv(t, c, comm.Of(sum), comm.AnySource, comm.AnyTag)
			errs = append(errs, check("ssend", err, sum, []int64{1}))
		}
		return errors.Join(errs...)
	}))
}

// The error of a request that fails after Iwait ends the run. The error of a request that has
// failed already is returned by Iwait.
func TestErrors(t *testing.T) {
	boom := errors.New("boom")
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()

	for _, late := range []bool{false, true} {
		r, complete := comm.NewRequest()
		if !late {
			complete(boom)
		}
		var after atomic.Bool
		x := 0
		err := rt.Run(context.Background(), func(t *task.Task) error {
			t.SpawnWith(task.Attrs{Label: "bind"}, func(t *task.Task) error {
				err := tampi.Iwait(t, r)
				if late == (err != nil) {
					return fmt.Errorf("Iwait returned %v", err)
				}
				if late {
					complete(boom)
				}
				return err
			}, deps.Out(&x))
			t.Spawn(func(t *task.Task) error { after.Store(true); return nil }, deps.In(&x))
			return nil
		})
		var te *task.Error
		require.ErrorIs(t, err, boom)
		require.ErrorAs(t, err, &te)
		require.Equal(t, "bind", te.Label)
		require.False(t, after.Load(), "the successor of a failed task must be skipped")
	}
}

type program struct{}

func (program) rank(*task.Task) error { panic("of a method") }

// The error of a rank's main task names the program's function, with and without traced spawns. So
// does the error that other ranks receive.
func TestMainTasksAreNamed(t *testing.T) {
	for _, traced := range []bool{false, true} {
		rt := task.New(task.Config{Workers: 2, TraceSpawns: traced})
		for what, main := range map[string]func(*task.Task) error{
			"tampi_test.go:": func(*task.Task) error { return errors.New("planted") },
			"TestMainTasksAreNamed.func2)": func(t *task.Task) error {
				panic(errors.New("planted"))
			},
			"program.rank": program{}.rank,
		} {
			var seen error
			err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
				if c.Rank() == 1 {
					return tampi.Run(rt, c, main)
				}
				seen = c.Barrier()
				return seen
			})
			var re *comm.RankError
			require.ErrorAs(t, err, &re)
			require.Equal(t, 1, re.Rank)
			for _, err := range []error{err, seen} {
				var te *task.Error
				require.ErrorAs(t, err, &te, "%v", err)
				require.Contains(t, te.Site, what)
				require.NotRegexp(t, `tampi/run\.go|autogenerated|-fm`, te.Site)
			}
		}
		require.NoError(t, rt.Close())
	}
}

// A run that ends early ends the Recv of its tasks, which no rank answers.
func TestRunEndsWhileTasksWait(t *testing.T) {
	boom := errors.New("boom")
	err := ranks(t, 2, 2, func(t *task.Task, c *comm.Comm) error {
		b := make([]int64, 1)
		for i := range 10 {
			t.Spawn(func(t *task.Task) error {
				_, err := tampi.Recv(t, c, comm.Of(b), 1-c.Rank(), i)
				if err == nil {
					return errors.New("received something")
				}
				return err
			})
		}
		if c.Rank() == 1 {
			t.Spawn(func(t *task.Task) error { return boom })
		}
		return t.Wait()
	})
	require.ErrorIs(t, err, boom)
}

// The same holds for bound requests: the abort of the ranks ends their events.
func TestRunEndsWhileRequestsAreBound(t *testing.T) {
	boom := errors.New("boom")
	err := ranks(t, 2, 2, func(t *task.Task, c *comm.Comm) error {
		b := make([]int64, 1)
		t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(b), 1-c.Rank(), 3)) })
		if c.Rank() == 1 {
			return boom
		}
		return nil
	})
	require.ErrorIs(t, err, boom)
}
