// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/soak"
	"weft/rma"
)

// What ranks keep, and what an operation costs, does not depend on how many windows, epochs and operations there were
// before.
func TestGrowth(t *testing.T) {
	rounds := soak.Long(12, 200)
	src := make([]int64, 64)
	for name, g := range map[string]struct {
		times int
		do    func(c *comm.Comm, w *rma.Win) error
	}{
		"puts": {200, func(c *comm.Comm, w *rma.Win) error {
			return errors.Join(w.Put(comm.Of(src), 1-c.Rank(), 0), w.Fence(0))
		}},
		"gets and accumulates": {200, func(c *comm.Comm, w *rma.Win) error {
			return errors.Join(w.Get(comm.Of(make([]int64, 64)), 1-c.Rank(), 64), w.Accumulate(comm.Of(src), 1-c.Rank(), 0, comm.Sum), w.Fence(0))
		}},
		"requests of fences": {200, func(c *comm.Comm, w *rma.Win) error {
			_, err := w.Ifence(0).Wait(t.Context())
			return err
		}},
		"windows": {40, func(c *comm.Comm, _ *rma.Win) error {
			w, _, err := rma.Allocate[int64](c, 128)
			if err != nil {
				return err
			}
			return errors.Join(w.Fence(0), w.Put(comm.Of(src), 1-c.Rank(), 0), w.Fence(0), w.Free())
		}},
		"windows on memory": {40, func(c *comm.Comm, _ *rma.Win) error {
			w, err := rma.Create(c, make([]int64, 128))
			if err != nil {
				return err
			}
			return errors.Join(w.Fence(0), w.Put(comm.Of(src), 1-c.Rank(), 0), w.Fence(0), w.Free())
		}},
	} {
		for _, way := range []string{"together", "apart"} {
			t.Run(fmt.Sprint(name, ", ", way), func(t *testing.T) {
				begin, end := make(chan bool), make(chan error)
				grown := ""
				require.NoError(t, comm.Run(ways[way](t.Context()), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
					w, _, err := rma.Allocate[int64](c, 128)
					if err != nil {
						return err
					}
					err = w.Fence(0)
					all := func() error {
						for range g.times {
							if err := g.do(c, w); err != nil {
								return err
							}
						}
						return nil
					}
					if c.Rank() == 1 {
						for range begin {
							end <- all()
						}
						return errors.Join(err, w.Free())
					}
					var failed error
					grown, failed = soak.Rounds(rounds, func() error {
						begin <- true
						return errors.Join(all(), <-end)
					})
					close(begin)
					return errors.Join(err, failed, w.Free())
				}))
				require.Empty(t, grown)
			})
		}
	}
}
