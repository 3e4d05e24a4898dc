// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/internal/waits"
)

// Runs that one context ends share one dump of the goroutines, and each reports where its ranks
// wait.
func TestRunsThatEndTogetherShareADump(t *testing.T) {
	defer func(d *waits.Dump) { dump = d }(dump)
	for range 2 {
		var dumps atomic.Int32
		dump = waits.NewDump(time.Hour, func() []waits.Goroutine {
			dumps.Add(1)
			return waits.Goroutines()
		})
		const runs = 20
		ctx, cancel := context.WithCancel(t.Context())
		var errs [runs]error
		var all sync.WaitGroup
		var asleep atomic.Int32
		for i := range errs {
			all.Go(func() {
				errs[i] = Run(ctx, Config{Ranks: 2, DeadlockWarnings: -1}, func(c *Comm) error {
					if c.Rank() == 1 {
						for c.world.activity() == 0 {
							runtime.Gosched()
						}
						asleep.Add(1)
						<-c.Context().Done()
						return nil
					}
					_, err := c.Recv(Buffer{}, 1, 7)
					return err
				})
			})
		}
		for asleep.Load() < runs {
			runtime.Gosched()
		}
		cancel()
		all.Wait()
		require.Equal(t, int32(1), dumps.Load())
		for _, err := range errs {
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorContains(t, err, "rank 0 waits in Recv at ")
			require.ErrorContains(t, err, "for: Recv from rank 1, tag 7, at rank 0")
		}
	}
}
