// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event"
	"weft/tampi"
	"weft/task"
	"weft/trace"
)

// bindings is a sink that keeps the trace events of this package.
type bindings struct {
	mu   sync.Mutex
	list [][3]uint64 // request, task, how; and main task, rank, 0
}

func (k *bindings) Begin(*event.Recorder)    {}
func (k *bindings) Flush(event.Moment) error { return nil }
func (k *bindings) Idle() error              { return nil }
func (k *bindings) Close() error             { return nil }

func (k *bindings) Events(_ *event.Source, recs []event.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range recs {
		if r.Kind() == event.Bound || r.Kind() == event.RunOfRank {
			k.list = append(k.list, [3]uint64{r.A, r.B, r.C})
		}
	}
}

// never is a complete completion that is not a request, so no trace event is about it.
type never struct{}

func (never) OnDone(f func(error)) { f(nil) }

// The trace events say which rank a run belongs to, which request is bound to which task, and which
// request a task waits for, if the request is not complete. There are none about other completions,
// nor if only the tasks or only the ranks are recorded.
func TestEventsOfBindings(t *testing.T) {
	for _, recorded := range []struct{ tasks, ranks bool }{{true, true}, {true, false}, {false, true}} {
		sink := &bindings{}
		rec, err := event.New(event.Options{Sinks: []event.Sink{sink}})
		require.NoError(t, err)
		var tasks task.Config
		var ranks comm.Config
		if recorded.tasks {
			tasks.Trace = (*trace.Recorder)(rec)
		}
		if recorded.ranks {
			ranks.Trace = (*trace.Recorder)(rec)
		}
		tasks.Workers, ranks.Ranks = 1, 1
		rt := task.New(tasks)
		var want [3][][3]uint64 // of each task
		require.NoError(t, comm.Run(t.Context(), ranks, func(c *comm.Comm) error {
			return tampi.Run(rt, c, func(t *task.Task) error {
				if recorded.tasks && recorded.ranks {
					want[0] = append(want[0], [3]uint64{t.TraceID(), uint64(c.Rank()), 0})
				}
				both := func(at int, t *task.Task, r *comm.Request, how uint64) {
					if recorded.tasks && recorded.ranks {
						want[at] = append(want[at], [3]uint64{r.TraceID(), t.TraceID(), how})
					}
				}
				t.Spawn(func(t *task.Task) error {
					open, over := c.Irecv(one(), 0, 1), c.Irecv(one(), 0, 3)
					c.Isend(one(), 0, 3)
					both(1, t, open, event.BoundTo)
					both(1, t, over, event.BoundTo)
					null := c.Isend(one(), comm.ProcNull, 1) // is not recorded
					return tampi.IwaitAll[tampi.Completion](t, open, over, never{}, null, nil)
				})
				t.Spawn(func(t *task.Task) error {
					r, over := c.Isend(one(), 0, 1), c.Isend(one(), comm.ProcNull, 1)
					if !r.Done() {
						both(2, t, r, event.WaitedFor)
					}
					s := c.Issend(one(), 0, 2)
					t.Spawn(func(*task.Task) error { c.Irecv(one(), 0, 2); return nil })
					both(2, t, s, event.WaitedFor)
					return tampi.WaitAll(t, r, over, s)
				})
				return t.Wait()
			})
		}))
		require.NoError(t, rt.Close())
		require.NoError(t, rec.Close())
		require.ElementsMatch(t, slices.Concat(want[:]...), sink.list)
	}
}
