// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/rma"
)

// reluctantBacking is slow to be freed.
type reluctantBacking struct{ *slowBacking }

func (b reluctantBacking) Free() error {
	for range 1000 {
		runtime.Gosched()
	}
	return b.slowBacking.Free()
}

// Run frees the windows that ranks have not freed, however the run ends.
func TestRunFreesWhatRanksHaveNot(t *testing.T) {
	mine := errors.New("mine")
	for name, end := range map[string]func(c *comm.Comm, cancel func(error)) error{
		"return": func(*comm.Comm, func(error)) error { return nil },
		"error":  func(*comm.Comm, func(error)) error { return mine },
		"abort":  func(c *comm.Comm, _ func(error)) error { c.Abort(mine); return nil },
		"cancel": func(c *comm.Comm, cancel func(error)) error { cancel(mine); <-c.Context().Done(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			const ranks, windows = 3, 5
			var all []*slowBacking
			for range windows {
				all = append(all, newSlowBackings(ranks)...)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			err := comm.Run(ctx, comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
				for i := range windows {
					if _, err := rma.New(c, reluctantBacking{all[i*ranks+c.Rank()]}, comm.Info{}); err != nil {
						return err
					}
				}
				if err := c.Barrier(); err != nil {
					return err
				}
				return end(c, cancel)
			})
			for i, b := range all {
				require.EqualValues(t, 1, b.freed.Load(), "window %d of rank %d", i/ranks, i%ranks)
			}
			if name != "return" {
				require.ErrorIs(t, err, mine)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// panickingBacking has a mistake in an operation.
type panickingBacking struct{ *slowBacking }

func (b panickingBacking) Put(int, int, comm.Buffer) error { panic("no such place") }

// An operation that panics is over: the end of the run does not wait for it.
func TestPanicInAnOperation(t *testing.T) {
	bs := newSlowBackings(2)
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := rma.New(c, panickingBacking{bs[c.Rank()]}, comm.Info{})
		if err != nil {
			return err
		}
		return errors.Join(w.Fence(0), w.Put(comm.Of([]byte{1}), 0, 0), w.Fence(0))
	})
	var panicked *comm.PanicError
	require.ErrorAs(t, err, &panicked)
	require.Equal(t, "no such place", panicked.Value)
	for _, b := range bs {
		require.EqualValues(t, 1, b.freed.Load())
	}
}
