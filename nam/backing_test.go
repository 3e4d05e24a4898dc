// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
)

// When an epoch cannot be made durable on one rank, every rank gets the error and the count stays.
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
			if err := c.Barrier(); err != nil { // all have read the count
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

// Only regions written since the last fence are forced to the disk.
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

// Each kind of error arrives at other ranks as that kind, with its text as far as it fits. An
// unknown kind arrives as errOther.
func TestErrorsTravel(t *testing.T) {
	for i, k := range kinds {
		require.Equal(t, int64(i), kindOf(k), "%v", k)
		require.Equal(t, k, errorOf(int64(i)))
	}
	for _, n := range []int64{-1, int64(len(kinds)) - 1, int64(len(kinds)), 1 << 40} {
		require.Equal(t, errOther, errorOf(n))
	}
	require.Equal(t, int64(len(kinds)-1), kindOf(errors.New("something else")))
	long := strings.Repeat("x", maxErrorText)
	for _, k := range append(slices.Clone(kinds[1:len(kinds)-1]), errors.New("something else")) {
		for _, words := range []string{"w", long} {
			for _, op := range []string{"allocate", "attach", "set info"} {
				said := fmt.Errorf("%w: %s", k, words)
				require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
					var err error
					if c.Rank() > 0 {
						err = said
					}
					got := agree(c, op, "name", err)
					var e *Error
					if !errors.As(got, &e) || e.Op != op || e.Name != "name" || e.Peer != 1 {
						return fmt.Errorf("got %#v", got)
					}
					want := said.Error()
					if c.Rank() != 1 {
						want = want[:min(len(want), maxErrorText)]
					}
					if e.Err.Error() != want {
						return fmt.Errorf("got %q, want %q", e.Err, want)
					}
					if c.Rank() == 0 && !errors.Is(got, errorOf(kindOf(k))) || c.Rank() == 1 && !errors.Is(got, k) {
						return fmt.Errorf("%v is not %v", got, k)
					}
					return agree(c, op, "name", nil)
				}))
			}
		}
	}
	require.Equal(t, `nam: remove "w" (rank 3): x`, (&Error{Op: "remove", Name: "w", Peer: 3, Err: errors.New("x")}).Error())
	require.Equal(t, `nam: list (rank 0): x`, (&Error{Op: "list", Peer: 0, Err: errors.New("x")}).Error())
	require.Equal(t, `nam: list: x`, fail("list", "", errors.New("x")).Error())
}

// Each rank with its own file reserves it once, whatever the other ranks pass. It prefaults its
// region if it has the option. The other ranks do nothing.
func TestReservedFiles(t *testing.T) {
	for _, row := range []struct {
		structure Structure
		sizes     []int
		regions   [][3]int // size, file, offset
		reserved  int
		prefault  []int // ranks with the option
		present   int   // pieces
	}{
		{ManagedContiguous, []int{8, 0, 100, 1}, [][3]int{{8, 0, 0}, {0, 0, 64}, {100, 0, 64}, {1, 0, 192}}, 1, nil, 0},
		{ManagedContiguous, []int{64, 65, 8}, [][3]int{{64, 0, 0}, {65, 0, 64}, {8, 0, 192}}, 1, []int{0, 2}, 2},
		{ManagedContiguous, []int{0, 0}, [][3]int{{0, 0, 0}, {0, 0, 0}}, 1, []int{0, 1}, 0},
		{ManagedDistributed, []int{8, 0, 100, 1}, [][3]int{{8, 0, 0}, {0, 0, 0}, {100, 1, 0}, {1, 2, 0}}, 3, []int{1, 3}, 1},
		{ManagedDistributed, []int{0, 2, 0, 4}, [][3]int{{0, 0, 0}, {2, 1, 0}, {0, 0, 0}, {4, 2, 0}}, 3, nil, 0},
		{ManagedDistributed, []int{1}, [][3]int{{1, 0, 0}}, 1, nil, 0},
		{RawAndFlat, []int{100, 0, 0}, [][3]int{{100, 0, 0}}, 1, []int{0, 1, 2}, 1},
		{RawAndFlat, []int{100, 0}, [][3]int{{100, 0, 0}}, 1, []int{1}, 0},
	} {
		var mu sync.Mutex
		steps := map[string]int{}
		s, err := Open(t.TempDir(), Config{step: func(name string) {
			mu.Lock()
			defer mu.Unlock()
			steps[name]++
		}})
		require.NoError(t, err)
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: len(row.sizes)}, func(c *comm.Comm) error {
			var opts []Option
			for _, r := range row.prefault {
				if r == c.Rank() {
					opts = []Option{Prefault(true)}
				}
			}
			w, err := s.Allocate(c, row.sizes[c.Rank()], 1, append(opts, row.structure)...)
			if err != nil {
				return err
			}
			var got [][3]int
			for _, g := range w.entry.Regions {
				got = append(got, [3]int{int(g.Size), int(g.File), int(g.Offset)})
			}
			if fmt.Sprint(got) != fmt.Sprint(row.regions) {
				err = fmt.Errorf("regions %v, want %v", got, row.regions)
			}
			return errors.Join(err, w.Free())
		}))
		require.NoError(t, s.Close())
		require.Equal(t, row.reserved, steps["create:reserved"], "%v %v", row.structure, row.sizes)
		require.Equal(t, row.present, steps["prefault"], "%v %v", row.structure, row.sizes)
	}
}

// Goroutines of each rank use one window at once, while others read and change its info: nothing is
// lost, and nothing races.
func TestConcurrentCallersHammer(t *testing.T) {
	const ranks, callers, rounds = 2, 3, 20
	for _, opts := range [][]Option{{SyncEpoch, ManagedDistributed}, {SyncProcess, ManagedContiguous}} {
		s, err := Open(t.TempDir(), Config{})
		require.NoError(t, err)
		require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 8*(1+ranks*callers), 8, opts...)
			if err != nil {
				return err
			}
			errs := make([]error, callers)
			if err := w.Fence(0); err != nil {
				return err
			}
			var wg sync.WaitGroup
			for i := range callers {
				wg.Go(func() {
					at := 1 + c.Rank()*callers + i
					for k := range rounds {
						for r := range ranks {
							errs[i] = errors.Join(errs[i], w.Accumulate(comm.Of([]int64{1}), r, 0, comm.Sum), w.Put(comm.Of([]int64{int64(k)}), r, at), w.Get(comm.Of([]int64{0}), r, at))
						}
						_, _ = w.Info(), w.Epochs()
					}
				})
			}
			for _, v := range []string{"persistent", "volatile"} {
				err = errors.Join(err, w.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_"+v)))
			}
			wg.Wait()
			err = errors.Join(append(errs, err, w.Fence(0))...)
			got := make([]int64, 1+ranks*callers)
			err = errors.Join(err, w.Get(comm.Of(got), c.Rank(), 0), w.Fence(0))
			if got[0] != ranks*callers*rounds {
				err = errors.Join(err, fmt.Errorf("%d were added", got[0]))
			}
			for _, v := range got[1:] {
				if v != rounds-1 {
					err = errors.Join(err, fmt.Errorf("%v", got))
				}
			}
			return errors.Join(err, w.Free())
		}))
		require.NoError(t, s.Close())
	}
}

// Goroutines begin to write to the same ranks at once: the epoch is on the disk after its fence,
// and nothing races.
func TestFirstWritersHammer(t *testing.T) {
	const ranks, callers, n = 2, 4, 8 << 10
	s, err := Open(t.TempDir(), Config{})
	require.NoError(t, err)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8*callers*n, 8, SyncEpoch)
		if err != nil {
			return err
		}
		err = w.Fence(0)
		var errs [callers]error
		for range 150 {
			var wg sync.WaitGroup
			begin := make(chan struct{})
			for i := range callers {
				wg.Go(func() {
					<-begin
					errs[i] = errors.Join(errs[i], w.Put(comm.Of(make([]int64, n)), c.Rank(), i*n))
				})
			}
			close(begin)
			wg.Wait()
			err = errors.Join(err, w.Fence(0))
		}
		return errors.Join(append(errs[:], err, w.Free())...)
	}))
	require.NoError(t, s.Close())
}

// If an exchange between ranks fails, nothing is made.
func TestExchangesThatFail(t *testing.T) {
	s, err := Open(t.TempDir(), Config{})
	require.NoError(t, err)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
		d, err := c.Dup()
		if err != nil {
			return err
		}
		d.Revoke()
		set, err := newSettings(nil)
		if err != nil {
			return err
		}
		offers, err := s.exchange(d, 8, 8, set)
		if offers != nil || !errors.Is(err, comm.ErrRevoked) {
			return fmt.Errorf("exchange: %v, %w", offers, err)
		}
		if err := s.sameStore(d); !errors.Is(err, comm.ErrRevoked) {
			return fmt.Errorf("the same store: %w", err)
		}
		_, err = s.Allocate(d, 8, 8)
		_, aerr := s.Attach(d, "none")
		if !errors.Is(err, comm.ErrRevoked) || !errors.Is(aerr, comm.ErrRevoked) {
			return fmt.Errorf("%w, %w", err, aerr)
		}
		return nil
	}))
	require.NoError(t, s.Close())
}
