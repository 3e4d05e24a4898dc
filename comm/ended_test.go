// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// When a run ends by its context, the error lists what each rank waited for, and matches the cause.
func TestContextListsWaits(t *testing.T) {
	mine := errors.New("my patience ends")
	for name, ends := range map[string]func(t *testing.T) (context.Context, []error){
		"a deadline": func(t *testing.T) (context.Context, []error) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			t.Cleanup(cancel)
			return ctx, []error{context.DeadlineExceeded}
		},
		"a deadline with a cause": func(t *testing.T) (context.Context, []error) {
			ctx, cancel := context.WithTimeoutCause(context.Background(), 200*time.Millisecond, mine)
			t.Cleanup(cancel)
			return ctx, []error{context.DeadlineExceeded, mine}
		},
		"a cancellation": func(t *testing.T) (context.Context, []error) {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(200*time.Millisecond, func() { cancel(mine) })
			return ctx, []error{mine}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, want := ends(t)
			err := Run(ctx, Config{Ranks: 3}, func(c *Comm) error {
				if c.Rank() == 2 {
					<-c.Context().Done()
					return nil
				}
				_, err := c.Recv(Of(make([]int, 1)), 1-c.Rank(), 5)
				return err
			})
			for _, e := range want {
				require.ErrorIs(t, err, e)
			}
			for _, text := range []string{want[0].Error(), "rank 0 waits in Recv at ", "ended_test.go:42, for: Recv from rank 1, tag 5", "rank 1 waits in Recv", "rank 2 is in goroutine ", "ended_test.go:39"} {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

// A wait that ends by a deadline matches DeadlineExceeded, whatever its cause is.
func TestWaitMatchesDeadline(t *testing.T) {
	mine := errors.New("my patience ends")
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Millisecond, mine)
	defer cancel()
	r, _ := NewRequest()
	_, err := r.Wait(ctx)
	require.ErrorIs(t, err, mine)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
