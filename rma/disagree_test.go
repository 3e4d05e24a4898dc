// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/fabric/inproc"
	"weft/rma"
)

// Ranks of which one frees a window and the others fence it: each is told both.
func TestFenceAgainstFree(t *testing.T) {
	for name, divide := range map[string]func(ctx context.Context) context.Context{
		"together": func(ctx context.Context) context.Context { return ctx },
		"apart":    func(ctx context.Context) context.Context { return inproc.Divide(ctx) },
		"mixed":    func(ctx context.Context) context.Context { return inproc.Divide(ctx, 2, 1) },
	} {
		for odd := range 3 {
			t.Run(fmt.Sprintf("%s, rank %d", name, odd), func(t *testing.T) {
				require.NoError(t, comm.Run(divide(t.Context()), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					w, err := rma.Create(c, make([]int64, 4))
					if err != nil {
						return err
					}
					if err := w.Fence(0); err != nil {
						return err
					}
					if c.Rank() == odd {
						err = w.Free()
					} else if err = w.Fence(0); err != nil {
						_ = w.Free()
					}
					for _, say := range []string{comm.ErrMismatch.Error(), "fence", "free window"} {
						if err == nil || !strings.Contains(err.Error(), say) {
							return fmt.Errorf("rank %d: %v; it does not say %q", c.Rank(), err, say)
						}
					}
					return nil
				}))
			})
		}
	}
}

// Making a window is not a barrier, nor something else.
func TestCreateAgainstDup(t *testing.T) {
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		var err error
		if c.Rank() == 0 {
			_, err = c.Dup()
		} else {
			_, err = rma.Create(c, make([]int64, 4))
		}
		for _, say := range []string{comm.ErrMismatch.Error(), "dup", "create window"} {
			if err == nil || !strings.Contains(err.Error(), say) {
				return fmt.Errorf("rank %d: %v; it does not say %q", c.Rank(), err, say)
			}
		}
		return nil
	}))
}
