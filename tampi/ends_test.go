// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weft/comm"
	"weft/internal/fabric/inproc"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

// asleep is how long callers have been asleep when an end comes late.
const asleep = 300 * time.Millisecond

var large = make([]int64, 1<<17) // a send of it waits for the receiver

// standing are the waits of rank 1 for what rank 0 never does.
var standing = map[string]func(t *task.Task, c *comm.Comm, w *rma.Win) error{
	"Wait": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		_, err := tampi.Wait(t, c.Irecv(comm.Of(make([]int64, 1)), 0, 5))
		return err
	},
	"WaitAll": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		return tampi.WaitAll(t, nil, c.Irecv(comm.Of(make([]int64, 1)), 0, 5), c.Irecv(comm.Of(make([]int64, 1)), 0, 6))
	},
	"Wait for a fence": func(t *task.Task, _ *comm.Comm, w *rma.Win) error {
		_, err := tampi.Wait(t, w.Ifence(0))
		return err
	},
	"Send": func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Send(t, c, comm.Of(large), 0, 5) },
	"Ssend": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		return tampi.Ssend(t, c, comm.Of(large[:1]), 0, 5)
	},
	"Recv": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		_, err := tampi.Recv(t, c, comm.Of(make([]int64, 1)), comm.AnySource, comm.AnyTag)
		return err
	},
	"Sendrecv, for the message": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		_, err := tampi.Sendrecv(t, c, comm.Of(large[:1]), comm.ProcNull, 5, comm.Of(make([]int64, 1)), 0, 5)
		return err
	},
	"Sendrecv, for the receiver": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		_, err := tampi.Sendrecv(t, c, comm.Of(large), 0, 5, comm.Of(make([]int64, 1)), 0, 5)
		return err
	},
	"Barrier": func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Barrier(t, c) },
	"Bcast":   func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Bcast(t, c, two(), 0) },
	"Reduce": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		return tampi.Reduce(t, c, two(), two(), comm.Sum, 1)
	},
	"Allreduce": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		return tampi.Allreduce(t, c, two(), two(), comm.Sum)
	},
	"Scan":      func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Scan(t, c, two(), two(), comm.Sum) },
	"Gather":    func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Gather(t, c, one(), two(), 1) },
	"Scatter":   func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Scatter(t, c, two(), one(), 0) },
	"Allgather": func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Allgather(t, c, one(), two()) },
	"Alltoall":  func(t *task.Task, c *comm.Comm, _ *rma.Win) error { return tampi.Alltoall(t, c, two(), two()) },
	"Iwait": func(t *task.Task, c *comm.Comm, _ *rma.Win) error {
		return tampi.Iwait(t, c.Irecv(one(), 0, 5))
	},
	"IwaitAll": func(t *task.Task, c *comm.Comm, w *rma.Win) error {
		return tampi.IwaitAll(t, c.Irecv(one(), 0, 5), nil, c.Ibarrier(), w.Ifence(0))
	},
}

func one() comm.Buffer { return comm.Of(make([]int64, 1)) }
func two() comm.Buffer { return comm.Of(make([]int64, 2)) }

// Every wait ends when the run does, however long it has stood, and its error names the cause.
func TestEndsThatComeLate(t *testing.T) {
	var rows sync.WaitGroup
	for way, as := range map[string]func(context.Context) context.Context{
		"together": func(ctx context.Context) context.Context { return ctx },
		"apart":    func(ctx context.Context) context.Context { return inproc.Divide(ctx) },
	} {
		for _, end := range []string{"abort", "error", "cancel", "timeout", "task"} {
			rows.Go(func() {
				mine := errors.New("mine")
				got, late, err := endLate(as(context.Background()), end, mine)
				what := fmt.Sprint(end, ", ", way)
				assert.ErrorIs(t, err, mine, what)
				if end == "timeout" {
					assert.ErrorIs(t, err, context.DeadlineExceeded, what)
				}
				assert.Len(t, got, len(standing), what)
				for name, e := range got {
					if name != "Iwait" && name != "IwaitAll" {
						assert.ErrorContains(t, e, "mine", name+", "+what) // an error of another process is a text
					}
				}
				assert.Less(t, late, 10*time.Second, what)
			})
		}
	}
	rows.Wait()
}

// endLate has tasks of rank 1 wait, each on a communicator of its own, and ends the run when they
// have slept for long. It returns the errors of the waits and of the run, and how long after the
// end the run was over.
func endLate(ctx context.Context, end string, mine error) (got map[string]error, late time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if end == "timeout" {
		var stop func()
		ctx, stop = context.WithTimeoutCause(ctx, 3*asleep, mine)
		defer stop()
	}
	begun := make(chan struct{})
	var ended time.Time
	got = map[string]error{}
	var mu sync.Mutex
	err = comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		comms, windows := map[string]*comm.Comm{}, map[string]*rma.Win{}
		for _, name := range slices.Sorted(maps.Keys(standing)) {
			own, err := c.Dup()
			if err != nil {
				return err
			}
			comms[name] = own
			if windows[name], _, err = rma.Allocate[int64](own, 1); err != nil {
				return err
			}
		}
		if c.Rank() == 0 {
			select {
			case <-begun:
			case <-c.Context().Done(): // a slow machine
			}
			if end == "task" || end == "timeout" {
				<-c.Context().Done()
				return nil
			}
			time.Sleep(asleep)
			ended = time.Now()
			switch end {
			case "abort":
				c.Abort(mine)
			case "error":
				return mine
			case "cancel":
				cancel(mine)
				<-c.Context().Done()
			}
			return nil
		}
		rt := task.New(task.Config{Workers: 2})
		defer rt.Close()
		return tampi.Run(rt, c, func(t *task.Task) error {
			var all sync.WaitGroup
			for name, wait := range standing {
				all.Add(1)
				t.Spawn(func(t *task.Task) error {
					all.Done()
					err := wait(t, comms[name], windows[name])
					mu.Lock()
					defer mu.Unlock()
					got[name] = err
					return err
				})
			}
			t.Blocking(all.Wait)
			close(begun)
			if end == "task" {
				t.Blocking(func() { time.Sleep(asleep) })
				ended = time.Now()
				return mine
			}
			return nil
		})
	})
	if end == "timeout" {
		ended, _ = ctx.Deadline()
	}
	return got, time.Since(ended), err
}
