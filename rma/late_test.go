// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"weft/comm"
	"weft/rma"
)

// Every wait of a window ends when the run does, however long it has stood, and its error names the
// cause. Windows of three ranks, of which one does not come.
func TestEndsThatComeLate(t *testing.T) {
	const asleep = 300 * time.Millisecond
	waits := map[string]func(c *comm.Comm, w *rma.Win) error{
		"fence":  func(_ *comm.Comm, w *rma.Win) error { return w.Fence(0) },
		"free":   func(_ *comm.Comm, w *rma.Win) error { return w.Free() },
		"create": func(c *comm.Comm, _ *rma.Win) error { _, err := rma.Create(c, make([]int64, 1)); return err },
		"ifence": func(c *comm.Comm, w *rma.Win) error {
			reqs := []*comm.Request{w.Ifence(0), w.Ifence(0), w.Ifence(0)}
			err := w.Put(comm.Of(make([]int64, 1<<12)), 1, 0) // queued
			for _, r := range reqs {
				_, ferr := r.Wait(context.Background())
				err = errors.Join(err, expect(ferr != nil, "a fence without rank 1 is complete"), ferr)
			}
			return err
		},
	}
	names := slices.Sorted(maps.Keys(waits))
	var rows sync.WaitGroup
	for way, as := range ways {
		for _, end := range []string{"abort", "error", "cancel", "timeout"} {
			rows.Go(func() {
				mine := errors.New("mine")
				ctx, cancel := context.WithCancelCause(as(context.Background()))
				defer cancel(nil)
				if end == "timeout" {
					var stop func()
					ctx, stop = context.WithTimeoutCause(ctx, 3*asleep, mine)
					defer stop()
				}
				var begun sync.WaitGroup
				begun.Add(2)
				got := make([]error, 3*len(names))
				err := comm.Run(ctx, comm.Config{Ranks: 3}, func(c *comm.Comm) (err error) {
					comms, windows := make([]*comm.Comm, len(names)), make([]*rma.Win, len(names))
					for i := range names {
						own, derr := c.Dup()
						if err = errors.Join(err, derr); err == nil {
							comms[i] = own
							windows[i], _, err = rma.Allocate[int64](own, 1<<12)
						}
						if err == nil {
							err = windows[i].Fence(0)
						}
					}
					if c.Rank() != 1 {
						begun.Done()
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
					begun.Wait()
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
					return err
				})
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
