// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package comm

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A rank costs the same however many there are, also in a run of one process that begins, makes one
// collective and ends. Processor time counts: the machine may be busy.
func TestManyRanksCostNoMoreEach(t *testing.T) {
	if testing.Short() {
		t.Skip("16384 ranks")
	}
	bodies := map[string]func(c *Comm) error{
		"that do nothing": func(*Comm) error { return nil },
		"in a barrier":    func(c *Comm) error { return c.Barrier() },
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			each := func(n int) time.Duration {
				before := processorTime(t)
				require.NoError(t, Run(context.Background(), Config{Ranks: n}, body))
				return (processorTime(t) - before) / time.Duration(n)
			}
			few := max(each(1024), each(1024))
			many := each(16384)
			for range 2 { // garbage collections come at any time
				if many <= 4*few {
					break
				}
				many = min(many, each(16384))
			}
			t.Log(few, many)
			require.LessOrEqual(t, many, 4*few)
		})
	}
}

func processorTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
