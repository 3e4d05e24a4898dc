// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tampi_test

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/deps"
	"weft/internal/soak"
	"weft/tampi"
	"weft/task"
)

// The memory that is kept, and the cost of a task, do not depend on the number of requests that
// were bound before.
func TestGrowth(t *testing.T) {
	rounds := soak.Long(24, 200)
	var begun atomic.Int64
	for name, g := range map[string]struct {
		times int
		do    func(t *task.Task, c *comm.Comm, i int, block *[64]int64)
	}{
		"bound": {300, func(t *task.Task, c *comm.Comm, i int, block *[64]int64) {
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Isend(comm.Of(block[:]), 0, i)) }, deps.In(block))
			into := new([64]int64)
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Irecv(comm.Of(into[:]), 0, i)) }, deps.Out(into))
			t.Spawn(func(t *task.Task) error { block[0] = into[0]; return nil }, deps.In(into), deps.InOut(block))
		}},
		"bound to several": {100, func(t *task.Task, c *comm.Comm, _ int, block *[64]int64) {
			t.Spawn(func(t *task.Task) error {
				rs := make([]*comm.Request, 8)
				for i := range rs {
					rs[i] = c.Isend(comm.Of(block[i:i+1]), 0, i)
				}
				return tampi.IwaitAll(t, rs...)
			}, deps.In(block))
			into := new([64]int64)
			t.Spawn(func(t *task.Task) error {
				rs := make([]*comm.Request, 8)
				for i := range rs {
					rs[i] = c.Irecv(comm.Of(into[i:i+1]), 0, i)
				}
				return tampi.IwaitAll(t, rs...)
			}, deps.Out(into))
		}},
		"blocked": {100, func(t *task.Task, c *comm.Comm, _ int, block *[64]int64) {
			into := new([64]int64)
			t.Spawn(func(t *task.Task) error {
				if begun.Add(1)%100 == 0 {
					// each round blocks the same number of tasks at once, and their goroutines are
					// kept
					for range 100 {
						t.Spawn(func(t *task.Task) error { return tampi.Ssend(t, c, comm.Of(block[:]), 0, 2) }, deps.In(block))
					}
				}
				_, err := tampi.Recv(t, c, comm.Of(into[:]), 0, 2)
				return err
			}, deps.Out(into))
		}},
		"in collectives": {100, func(t *task.Task, c *comm.Comm, _ int, block *[64]int64) {
			t.Spawn(func(t *task.Task) error { return tampi.Barrier(t, c) }, deps.InOut(block))
			t.Spawn(func(t *task.Task) error { return tampi.Iwait(t, c.Ibcast(comm.Of(block[:]), 0)) }, deps.InOut(block))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			rt := task.New(task.Config{Workers: 2})
			defer func() { require.NoError(t, rt.Close()) }()
			kept, longer := "", ""
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
				return tampi.Run(rt, c, func(t *task.Task) (err error) {
					var block [64]int64
					kept, longer, err = soak.Rounds(rounds, func() error {
						for i := range g.times {
							g.do(t, c, i, &block)
						}
						return t.Wait()
					})
					return err
				})
			}))
			require.Empty(t, kept+longer)
		})
	}
}
