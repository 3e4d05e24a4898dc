// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
	"weft/internal/launch/job"
	"weft/rma"
	"weft/tampi"
	"weft/task"
)

// asleep is how long callers have slept when the run ends.
const asleep = 300 * time.Millisecond

var large = make([]int64, 1<<17) // a send of it waits for the receiver

// waits are calls at rank 1 that wait for rank 0, which never does its part.
var waits = map[string]func(t *task.Task, c *comm.Comm, w *rma.Win) error{
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

// openWaits makes a communicator and a window for each wait.
func openWaits(c *comm.Comm) (map[string]*comm.Comm, map[string]*rma.Win, error) {
	comms, windows := map[string]*comm.Comm{}, map[string]*rma.Win{}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		own, err := c.Dup()
		if err != nil {
			return nil, nil, err
		}
		comms[name] = own
		if windows[name], _, err = rma.Allocate[int64](own, 1); err != nil {
			return nil, nil, err
		}
	}
	return comms, windows, nil
}

// Every wait ends when the run ends, however long it has lasted, and its error names the cause.
func TestEndsThatComeLate(t *testing.T) {
	var rows sync.WaitGroup
	for way, as := range map[string]func(context.Context) context.Context{
		"together": func(ctx context.Context) context.Context { return ctx },
		"apart":    func(ctx context.Context) context.Context { return inproc.Divide(ctx) },
	} {
		for _, end := range []string{"abort", "error", "cancel", "timeout", "task"} {
			rows.Go(func() {
				mine := errors.New("mine")
				what := fmt.Sprint(end, ", ", way)
				limit := 3 * asleep
				got, slept, late, err := endLate(as(context.Background()), end, limit, mine)
				for end == "timeout" && slept < asleep && limit < time.Minute {
					// a slow machine: repeat the test with more time
					limit *= 3
					got, slept, late, err = endLate(as(context.Background()), end, limit, mine)
				}
				assert.ErrorIs(t, err, mine, what)
				if end == "timeout" {
					assert.ErrorIs(t, err, context.DeadlineExceeded, what)
				}
				assert.Len(t, got, len(waits), what)
				for name, e := range got {
					if name != "Iwait" && name != "IwaitAll" {
						// an error from another process is only a text
						assert.ErrorContains(t, e, "mine", name+", "+what)
					}
				}
				assert.Less(t, late, 10*time.Second, what)
			})
		}
	}
	rows.Wait()
}

// endLate makes tasks of rank 1 wait, each on its own communicator, and ends the run when they have
// slept for long. It returns the errors of the waits and of the run, how long all tasks had slept
// at the end, and how long after the end the run was over.
func endLate(ctx context.Context, end string, limit time.Duration, mine error) (got map[string]error, slept, late time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if end == "timeout" {
		var stop func()
		ctx, stop = context.WithTimeoutCause(ctx, limit, mine)
		defer stop()
	}
	begun := make(chan struct{})
	var asleepAt, ended time.Time
	got = map[string]error{}
	var mu sync.Mutex
	err = comm.Run(ctx, comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		comms, windows, err := openWaits(c)
		if err != nil {
			return err
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
			all := make(chan struct{}, len(waits))
			for name, wait := range waits {
				t.Spawn(func(t *task.Task) error {
					all <- struct{}{}
					err := wait(t, comms[name], windows[name])
					mu.Lock()
					defer mu.Unlock()
					got[name] = err
					return err
				})
			}
			t.Blocking(func() {
				for range waits {
					select {
					case <-all:
					case <-t.Context().Done(): // a slow machine; the other tasks will not begin
						return
					}
				}
				asleepAt = time.Now()
			})
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
	if !asleepAt.IsZero() {
		slept = ended.Sub(asleepAt)
	}
	return got, slept, time.Since(ended), err
}

// dieLate kills rank 0 when tasks of rank 1 have slept for long, in all waits at once. Each wait
// returns the loss; a bound operation ends the run of its task with the loss.
func dieLate(c *comm.Comm) error {
	comms, windows, err := openWaits(c)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		if _, err := c.Recv(comm.Of([]bool{false}), 1, 0); err != nil {
			return err
		}
		time.Sleep(asleep)
		self, err := os.FindProcess(os.Getpid())
		return errors.Join(err, self.Kill())
	}
	rt := task.New(task.Config{Workers: 2})
	defer rt.Close()
	lost := func(name string, err error) error {
		if errors.Is(err, comm.ErrPeerLost) || errors.Is(err, comm.ErrRevoked) {
			return nil
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	var begun, bound sync.WaitGroup
	errs := make(chan error, len(waits))
	for _, name := range []string{"Iwait", "IwaitAll"} {
		begun.Add(1)
		bound.Go(func() {
			errs <- lost(name, rt.Run(context.Background(), func(t *task.Task) error {
				defer begun.Done()
				return waits[name](t, comms[name], windows[name])
			}))
		})
	}
	err = tampi.Run(rt, c, func(t *task.Task) error {
		for name, wait := range waits {
			if name == "Iwait" || name == "IwaitAll" {
				continue
			}
			begun.Add(1)
			t.Spawn(func(t *task.Task) error {
				begun.Done()
				errs <- lost(name, wait(t, comms[name], windows[name]))
				return nil
			})
		}
		t.Blocking(begun.Wait)
		return tampi.Send(t, c, comm.Of([]bool{true}), 0, 0)
	})
	bound.Wait()
	for range waits {
		err = errors.Join(err, <-errs)
	}
	return err
}

func TestLossThatComesLate(t *testing.T) {
	for _, fabric := range comm.Fabrics() {
		if fabric.Name == "inproc" || fabric.Problem != "" || fabric.Name == "mpi" {
			// mpi needs another launcher
			continue
		}
		var stderr bytes.Buffer
		status, err := job.Run(job.Spec{Stderr: &stderr, Timeout: time.Minute, KeepGoing: true, Parts: []job.Part{{Ranks: 2, Program: os.Args[0],
			Env: []string{envRole + "=late", "WEFT_FABRIC=" + fabric.Name, "GORACE=atexit_sleep_ms=0 " + os.Getenv("GORACE")}}}})
		require.NoError(t, err)
		require.Equal(t, 128+int(syscall.SIGKILL), status, "%s: %s", fabric.Name, &stderr)
		// the launcher's line
		require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "%s: %s", fabric.Name, &stderr)
	}
}
