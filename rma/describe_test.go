// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/rma"
)

// A report of waiting ranks says which fence a window waits for. It does not list the standing
// receives of a window that waits for none.
func TestWhatWindowsWaitFor(t *testing.T) {
	for way, as := range ways {
		t.Run(way, func(t *testing.T) {
			fence := regexp.MustCompile(`rank 0 waits in Fence at \S*, for: ([^\n]*; )?rank 2 in (fence|collective) number 2`)
			recv := regexp.MustCompile(`rank 2 waits in Recv at \S*, for: Recv from rank 0, tag 3, at rank 2 of communicator 0 \(3 ranks\)(\n|$)`)
			var err error
			for limit := 300 * time.Millisecond; limit < 30*time.Second; limit *= 4 {
				// on a busy machine, the ranks reach their waits later
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				err = comm.Run(as(ctx), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					w, _, err := rma.Allocate[int64](c, 4)
					if err != nil {
						return err
					}
					if err := w.Fence(0); err != nil {
						return err
					}
					if c.Rank() < 2 {
						return w.Fence(0)
					}
					_, err = c.Recv(comm.Of(make([]int64, 1)), 0, 3)
					return err
				})
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				if fence.MatchString(err.Error()) && recv.MatchString(err.Error()) {
					break
				}
			}
			require.NotContains(t, err.Error(), "Irecv")
			require.Regexp(t, fence, err.Error())
			require.Regexp(t, recv, err.Error())
		})
	}
}
