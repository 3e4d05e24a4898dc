// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
)

// When an epoch cannot be made durable on one rank, every rank learns it and the count stands still.
func TestLostEpochIsNotCounted(t *testing.T) {
	for _, sync := range []Sync{SyncProcess, SyncEpoch} {
		s, err := Open(t.TempDir(), Config{})
		require.NoError(t, err)
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 64, 8, sync, Prefault(true))
			if err != nil {
				return err
			}
			err = errors.Join(w.Fence(0), w.Put(comm.Of([]int64{1}), (c.Rank()+1)%3, 0), w.Fence(0))
			if err != nil || w.Epochs() != 2 {
				return fmt.Errorf("epochs %d: %w", w.Epochs(), err)
			}
			if err := c.Barrier(); err != nil { // all have looked
				return err
			}
			if c.Rank() == 1 {
				w.b.h.Break() // as syncTouched does
			}
			ferr := w.Fence(0)
			if !errors.Is(ferr, ErrLost) || w.Epochs() != 2 {
				return fmt.Errorf("rank %d: epochs %d after %v", c.Rank(), w.Epochs(), ferr)
			}
			return w.Free()
		}))
		require.NoError(t, s.Close())
	}
}

// Only what was written since the last fence is forced to the disk.
func TestTouchedRegions(t *testing.T) {
	s, err := Open(t.TempDir(), Config{})
	require.NoError(t, err)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8, SyncEpoch, ManagedDistributed)
		if err != nil {
			return err
		}
		one := comm.Of([]int64{1})
		err = errors.Join(w.Fence(0), w.Get(one, 0, 0))
		if w.b.touched[0].Load() {
			return errors.New("a get counts as a write")
		}
		err = errors.Join(err, w.Accumulate(one, 0, 0, comm.Sum))
		if !w.b.touched[0].Load() {
			return errors.New("an accumulate does not count as a write")
		}
		err = errors.Join(err, w.Fence(0))
		if w.b.touched[0].Load() {
			return errors.New("a fence left a region unsynced")
		}
		return errors.Join(err, w.Free())
	}))
	require.NoError(t, s.Close())
}
