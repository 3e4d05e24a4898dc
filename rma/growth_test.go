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

// The memory that ranks keep, and the cost of an operation, do not depend on the number of earlier
// windows, epochs and operations.
func TestGrowth(t *testing.T) {
	rounds := soak.Long(24, 200)
	src := make([]int64, 64)
	for name, g := range map[string]struct {
		times int
		do    func(c *comm.Comm, w *rma.Win) error
	}{
		"puts": {200, func(c *comm.Comm, w *rma.Win) error {
			return errors.Join(w.Put(comm.Of(src), c.Size()-1-c.Rank(), 0), w.Fence(0))
		}},
		"gets and accumulates": {200, func(c *comm.Comm, w *rma.Win) error {
			return errors.Join(w.Get(comm.Of(make([]int64, 64)), c.Size()-1-c.Rank(), 64), w.Accumulate(comm.Of(src), c.Size()-1-c.Rank(), 0, comm.Sum), w.Fence(0))
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
			return errors.Join(w.Fence(0), w.Put(comm.Of(src), c.Size()-1-c.Rank(), 0), w.Fence(0), w.Free())
		}},
		"windows on memory": {40, func(c *comm.Comm, _ *rma.Win) error {
			w, err := rma.Create(c, make([]int64, 128))
			if err != nil {
				return err
			}
			return errors.Join(w.Fence(0), w.Put(comm.Of(src), c.Size()-1-c.Rank(), 0), w.Fence(0), w.Free())
		}},
	} {
		for way, ranks := range map[string]int{"together": 2, "apart": 2, "alone": 1} {
			// a rank that is alone does not poll while it waits, so its cost can be compared
			t.Run(fmt.Sprint(name, ", ", way), func(t *testing.T) {
				as := ways[way]
				if as == nil {
					as = ways["together"]
				}
				begin, end := make(chan bool), make(chan error)
				kept, longer := "", ""
				require.NoError(t, comm.Run(as(t.Context()), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
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
					kept, longer, failed = soak.Rounds(rounds, func() error {
						if ranks == 1 {
							return all()
						}
						begin <- true
						return errors.Join(all(), <-end)
					})
					close(begin)
					return errors.Join(err, failed, w.Free())
				}))
				require.Empty(t, kept)
				if ranks == 1 {
					require.Empty(t, longer)
				}
			})
		}
	}
}
