// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
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
	"weft/rma"
)

// asleep is how long callers have slept when the run ends.
const asleep = 300 * time.Millisecond

// waits are the calls of a window that wait for other ranks. Here they wait for rank 1, which does
// not take part.
var waits = map[string]func(c *comm.Comm, w *rma.Win) error{
	"fence":  func(_ *comm.Comm, w *rma.Win) error { return w.Fence(0) },
	"free":   func(_ *comm.Comm, w *rma.Win) error { return w.Free() },
	"create": func(c *comm.Comm, _ *rma.Win) error { _, err := rma.Create(c, make([]int64, 1)); return err },
	"ifence": func(c *comm.Comm, w *rma.Win) error {
		reqs := []*comm.Request{w.Ifence(0), w.Ifence(0), w.Ifence(0)}
		err := w.Put(comm.Of(make([]int64, 1<<12)), 1, 0) // is queued
		for _, r := range reqs {
			_, ferr := r.Wait(context.Background())
			err = errors.Join(err, expect(ferr != nil, "a fence without rank 1 is complete"), ferr)
		}
		return err
	},
}

// openWindows makes a communicator and a window with an open epoch for each wait.
func openWindows(c *comm.Comm, n int) (comms []*comm.Comm, windows []*rma.Win, err error) {
	comms, windows = make([]*comm.Comm, n), make([]*rma.Win, n)
	for i := range n {
		if comms[i], err = c.Dup(); err != nil {
			return nil, nil, err
		}
		if windows[i], _, err = rma.Allocate[int64](comms[i], 1<<12); err != nil {
			return nil, nil, err
		}
		if err = windows[i].Fence(0); err != nil {
			return nil, nil, err
		}
	}
	return comms, windows, nil
}

// Every wait of a window ends when the run ends, however long it has lasted, and its error names
// the cause. The windows have three ranks, and one of them does not take part.
func TestEndsThatComeLate(t *testing.T) {
	names := slices.Sorted(maps.Keys(waits))
	var rows sync.WaitGroup
	for way, as := range ways {
		for _, end := range []string{"abort", "error", "cancel", "timeout"} {
			rows.Go(func() {
				mine := errors.New("mine")
				limit := 3 * asleep
				got, slept, err := endLate(as(context.Background()), names, end, limit, mine)
				for end == "timeout" && slept < asleep && limit < time.Minute {
					// a slow machine: repeat the test with more time
					limit *= 3
					got, slept, err = endLate(as(context.Background()), names, end, limit, mine)
				}
				assert.ErrorIs(t, err, mine, "%s, %s", end, way)
				for i, name := range names {
					for _, r := range []int{0, 2} {
						var e *rma.Error
						assert.ErrorAs(t, got[3*i+r], &e, "%s, %s, %s", name, end, way)
						assert.ErrorContains(t, got[3*i+r], "mine", "%s, %s, %s", name, end, way)
					}
				}
			})
		}
	}
	rows.Wait()
}

// endLate makes ranks 0 and 2 wait, and ends the run when they have slept for long. It returns the
// errors of the waits, by wait and rank; the shortest time for which a caller had slept; and the
// error of the run.
func endLate(ctx context.Context, names []string, end string, limit time.Duration, mine error) (got []error, slept time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if end == "timeout" {
		var stop func()
		ctx, stop = context.WithTimeoutCause(ctx, limit, mine)
		defer stop()
	}
	begun := make(chan bool, 2) // a rank starts its waits: true; it has failed: false
	got = make([]error, 3*len(names))
	err = comm.Run(ctx, comm.Config{Ranks: 3}, func(c *comm.Comm) error {
		comms, windows, err := openWindows(c, len(names))
		if c.Rank() != 1 {
			begun <- err == nil
			if err != nil {
				return err
			}
			var all sync.WaitGroup
			for i, name := range names {
				all.Go(func() { got[3*i+c.Rank()] = waits[name](comms[i], windows[i]) })
			}
			all.Wait()
			return errors.Join(got[c.Rank()])
		}
		since, all := time.Now(), err == nil
		for range 2 {
			all = <-begun && all
			since = time.Now()
		}
		time.Sleep(asleep)
		switch end {
		case "abort":
			c.Abort(mine)
		case "error":
			return mine
		case "cancel":
			cancel(mine)
		}
		<-c.Context().Done()
		if all {
			slept = time.Since(since)
		}
		return err
	})
	return got, slept, err
}

// dieLate kills rank 1 when the other ranks have slept for long, each in all waits at once. All
// waits end, because rank 1 is lost or because another rank has revoked the window.
func dieLate(c *comm.Comm) error {
	names := slices.Sorted(maps.Keys(waits))
	comms, windows, err := openWindows(c, len(names))
	if err != nil {
		return err
	}
	if c.Rank() == 1 {
		for range c.Size() - 1 {
			if _, err := c.Recv(comm.Of([]bool{false}), comm.AnySource, 0); err != nil {
				return err
			}
		}
		time.Sleep(asleep)
		self, err := os.FindProcess(os.Getpid())
		return errors.Join(err, self.Kill())
	}
	var all sync.WaitGroup
	errs := make([]error, len(names))
	for i, name := range names {
		all.Go(func() {
			err := waits[name](comms[i], windows[i])
			errs[i] = expect(errors.Is(err, comm.ErrPeerLost) || errors.Is(err, comm.ErrRevoked), "%s: %v", name, err)
		})
	}
	err = c.Send(comm.Of([]bool{true}), 1, 0)
	all.Wait()
	return errors.Join(err, errors.Join(errs...))
}

func TestLossThatComesLate(t *testing.T) {
	eachFabric(t, func(t *testing.T, env string) {
		status, stderr := runJob(t, 3, "late loss", true, env)
		require.Equal(t, 128+int(syscall.SIGKILL), status, stderr)
		require.Equal(t, 1, strings.Count(stderr, "\n"), stderr) // the launcher's line
	})
}
