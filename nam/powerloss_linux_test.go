// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
	"weft/nam/internal/powerloss"
)

const (
	ringRanks  = 2
	ringElems  = 3 * 512 // three pages for each rank
	ringEpochs = 4
)

// In epoch k of writeEpochs, each rank puts page after page into its neighbour's region, the middle
// page by Accumulate. done gets how many fences are complete at all ranks.
func writeEpochs(s *nam.Store, c *comm.Comm, name string, structure nam.Structure, done func(fences int)) error {
	w, err := s.Allocate(c, ringElems*8, 8, nam.SyncEpoch, nam.Persistent, nam.Name(name), structure)
	if err != nil {
		return err
	}
	if err := w.Fence(0); err != nil {
		return err
	}
	to := (c.Rank() + 1) % ringRanks
	for k := range ringEpochs {
		for p := range 3 {
			data := make([]int64, 512)
			for i := range data {
				data[i] = int64(k + 1)
			}
			if p == 1 {
				for i := range data {
					data[i] = 1
				}
				err = w.Accumulate(comm.Of(data), to, p*512, comm.Sum)
			} else {
				err = w.Put(comm.Of(data), to, p*512)
			}
			if err != nil {
				return err
			}
		}
		if err := w.Fence(0); err != nil {
			return errors.Join(err, w.Free())
		}
		if k == ringEpochs-1 || c.Rank() == 0 {
			done(k + 2)
		}
		if err := c.Barrier(); err != nil {
			// no rank writes the next epoch until all have read the count
			return err
		}
	}
	return w.Free()
}

// checkEpochs checks that a window has the data of its count: the elements are those of the last
// counted epoch, or of the next one, which may have begun.
func checkEpochs(s *nam.Store, c *comm.Comm, name string, atLeast uint64) error {
	w, err := s.Attach(c, name, nam.ReadOnly(true))
	if err != nil {
		return err
	}
	n := w.Epochs()
	err = expect(n >= atLeast, "%d epochs are counted, %d were complete", n, atLeast)
	for r := range ringRanks {
		got := make([]int64, ringElems)
		err = errors.Join(err, w.Fence(0), w.Get(comm.Of(got), r, 0), w.Fence(0))
		for i, g := range got {
			if g < int64(n)-1 || g > int64(n) {
				return errors.Join(err, fmt.Errorf("element %d of rank %d is %d with %d epochs", i, r, g, n), w.Free())
			}
		}
	}
	return errors.Join(err, w.Free())
}

// With SyncEpoch, all data that was put or accumulated before a complete fence is on the disk,
// whatever part of the rest is lost. The disk never counts an epoch whose data it does not have.
func TestSyncEpochIsOnTheDisk(t *testing.T) {
	for _, structure := range []nam.Structure{nam.ManagedContiguous, nam.ManagedDistributed} {
		dir := shortDir(t)
		d, err := powerloss.New(dir)
		require.NoError(t, err)
		var cfg nam.Config
		nam.SetBoot(&cfg, "before")
		nam.SetSystem(&cfg, d.Call)
		s, err := nam.Open(filepath.Join(dir, "s"), cfg)
		require.NoError(t, err)
		var mu sync.Mutex
		complete := map[int]int{} // position in the log → fences
		run(t, ringRanks, func(c *comm.Comm) error {
			return writeEpochs(s, c, "w", structure, func(fences int) {
				at, err := d.Mark()
				require.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				complete[at] = max(complete[at], fences)
			})
		})
		require.NoError(t, s.Close())
		require.GreaterOrEqual(t, len(complete), ringEpochs)
		states := 0
		check := func(at int, atLeast uint64) {
			seen := map[string]bool{}
			d.States(at, "", func(state *powerloss.State) {
				if sum := state.Sum(); seen[sum] {
					return
				} else {
					seen[sum] = true
				}
				states++
				after := shortDir(t)
				require.NoError(t, state.Write(after))
				var cfg nam.Config
				nam.SetBoot(&cfg, "after")
				s, err := nam.Open(filepath.Join(after, "s"), cfg)
				require.NoError(t, err)
				if _, err := s.Stat("w"); err == nil || atLeast > 0 {
					run(t, 1, func(c *comm.Comm) error { return checkEpochs(s, c, "w", atLeast) })
				}
				require.NoError(t, s.Close())
			})
		}
		for at, fences := range complete {
			check(at, uint64(fences))
		}
		for _, at := range d.Positions() {
			check(at, 0)
		}
		require.Greater(t, states, 20)
		d.Close()
	}
}

// With SyncEpoch, a failed force at any rank makes the fence fail on all ranks. The disk counts no
// epoch whose data it does not have, nor any later one.
func TestSyncEpochThatFails(t *testing.T) {
	for i := range 6 {
		dir := shortDir(t)
		d, err := powerloss.New(dir)
		require.NoError(t, err)
		n, sites := 0, []string(nil)
		d.Fail = func(op, path, site string) error {
			if op != "syncRange" || !strings.Contains(site, "Sync") && !strings.Contains(site, "raise") {
				return nil
			}
			sites = append(sites, site)
			if n++; n-1 != i {
				return nil
			}
			return &fs.PathError{Op: op, Path: path, Err: syscall.EIO}
		}
		var cfg nam.Config
		nam.SetSystem(&cfg, d.Call)
		s, err := nam.Open(filepath.Join(dir, "s"), cfg)
		require.NoError(t, err)
		var errs [ringRanks]error
		run(t, ringRanks, func(c *comm.Comm) error {
			w, err := s.Allocate(c, ringElems*8, 8, nam.SyncEpoch, nam.Persistent, nam.Name("w"))
			if err != nil {
				return err
			}
			errs[c.Rank()] = w.Fence(0)
			for range ringEpochs {
				err := w.Put(comm.Of(make([]int64, ringElems)), (c.Rank()+1)%ringRanks, 0)
				errs[c.Rank()] = errors.Join(errs[c.Rank()], err, w.Fence(0))
			}
			return w.Free()
		})
		require.NoError(t, s.Close())
		for r, err := range errs {
			require.ErrorIs(t, err, nam.ErrLost, "force %d, rank %d, %v", i, r, sites)
		}
		d.Close()
	}
}
