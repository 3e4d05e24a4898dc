// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/internal/event/oracle"
	"weft/nam"
	"weft/rma"
	"weft/trace"
)

func newTestStore(t *testing.T, cfg nam.Config) *nam.Store {
	t.Helper()
	s, err := nam.Open(t.TempDir(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// run runs ranks with a trace, which is then replayed and checked.
func run(t *testing.T, ranks int, body func(c *comm.Comm) error) {
	t.Helper()
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks, Trace: (*trace.Recorder)(oracle.New(t))}, body))
}

func expect(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

func wants(err, want error) error {
	return expect(errors.Is(err, want), "got %v, want %v", err, want)
}

func says(err error, text string) error {
	return expect(err != nil && strings.Contains(err.Error(), text), "got %v, want %q", err, text)
}

// requireEmpty checks that no windows and no files are left.
func requireEmpty(t *testing.T, s *nam.Store) {
	t.Helper()
	all, err := s.List()
	require.NoError(t, err)
	require.Empty(t, all)
	files, err := os.ReadDir(filepath.Join(s.Dir(), "alloc"))
	require.NoError(t, err)
	require.Empty(t, files)
}

// One program writes, another with a different number of ranks reads: every structure, several
// group sizes.
func TestPassDataToAnotherProgram(t *testing.T) {
	for _, structure := range []nam.Structure{nam.ManagedContiguous, nam.ManagedDistributed} {
		for _, makers := range []int{1, 2, 5} {
			for _, readers := range []int{1, 3} {
				t.Run(fmt.Sprintf("%v/%d/%d", structure, makers, readers), func(t *testing.T) {
					s := newTestStore(t, nam.Config{})
					elems := func(rank int) int { return 100 * (rank % 3) } // rank 0 has none
					var name string
					run(t, makers, func(c *comm.Comm) error {
						me := c.Rank()
						w, err := s.Allocate(c, elems(me)*8, 8, nam.Persistent, structure)
						if err != nil {
							return err
						}
						if me == 0 {
							name = w.Info().Get("psnam_window_name")
						}
						if err := w.Fence(0); err != nil {
							return err
						}
						for r := range makers { // each rank writes a stripe of every region
							for i := me; i < elems(r); i += makers {
								if err := w.Put(comm.Of([]float64{float64(1000*r + i)}), r, i); err != nil {
									return err
								}
							}
						}
						if err := w.Fence(0); err != nil {
							return err
						}
						return errors.Join(expect(w.Epochs() == 2, "epochs %d", w.Epochs()), expect(w.Name() == name || me != 0, "name"), w.Free())
					})
					require.NotEmpty(t, name)
					s2, err := nam.Open(s.Dir(), nam.Config{})
					require.NoError(t, err)
					defer s2.Close()
					run(t, readers, func(c *comm.Comm) error {
						given := name
						if c.Rank() > 0 {
							given = "" // counts on rank 0 only
						}
						w, err := s2.Attach(c, given, nam.FromInfo(comm.NewInfo("psnam_window_connect", "true")))
						if err != nil {
							return err
						}
						if err := errors.Join(expect(w.RemoteSize() == makers, "remote size %d", w.RemoteSize()), w.Fence(0)); err != nil {
							return err
						}
						got := make([][]float64, makers)
						for r := range makers {
							size, unit := w.Region(r)
							if size != elems(r)*8 || unit != 8 {
								return fmt.Errorf("region %d: %d %d", r, size, unit)
							}
							got[r] = make([]float64, elems(r))
							if err := w.Get(comm.Of(got[r]), r, 0); err != nil {
								return err
							}
						}
						if err := w.Fence(0); err != nil {
							return err
						}
						for r := range makers {
							for i, v := range got[r] {
								if v != float64(1000*r+i) {
									return fmt.Errorf("region %d element %d: %v", r, i, v)
								}
							}
						}
						return errors.Join(expect(w.Epochs() == 2, "an attached window's fences were counted: %d", w.Epochs()),
							expect(w.Info().Get("psnam_consistency") == "psnam_consistency_persistent", "%v", w.Info()),
							wants(w.Put(comm.Of([]float64{1}), makers, 0), rma.ErrRank), w.Free())
					})
					require.NoError(t, s2.Remove(name))
					requireEmpty(t, s)
				})
			}
		}
	}
}

func TestRawAndFlat(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	run(t, 3, func(c *comm.Comm) error {
		size := 0
		if c.Rank() == 0 {
			size = 64
		}
		w, err := s.Allocate(c, size, 4, nam.RawAndFlat, nam.Persistent, nam.Name("raw"))
		if err != nil {
			return err
		}
		one := comm.Of([]int32{int32(c.Rank() + 1)})
		err = errors.Join(w.Fence(0), w.Put(one, 0, c.Rank()), wants(w.Put(one, 1, 0), rma.ErrRank), wants(w.Put(one, 0, 16), rma.ErrRange),
			w.Fence(0), expect(w.Unit(0) == 4, "unit %d", w.Unit(0)))
		return errors.Join(err, w.Free())
	})
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Attach(c, "raw", nam.ReadOnly(true))
		if err != nil {
			return err
		}
		size, unit := w.Region(0)
		got := make([]int32, 3)
		err = errors.Join(expect(w.RemoteSize() == 1 && size == 64 && unit == 1, "%d %d %d", w.RemoteSize(), size, unit),
			w.Fence(0), w.Get(comm.Of(got), 0, 0), wants(w.Put(comm.Of(got), 0, 0), nam.ErrAccess),
			wants(w.Accumulate(comm.Of(got), 0, 0, comm.Sum), nam.ErrAccess), w.Fence(0))
		return errors.Join(err, expect(got[0] == 1 && got[1] == 2 && got[2] == 3, "%v", got),
			expect(w.Info().Get("weft_nam_read_only") == "true", "%v", w.Info()), w.Free())
	})
	require.NoError(t, s.Remove("raw"))
	requireEmpty(t, s)
}

// Every error: all ranks get the same one, and nothing is left.
func TestErrorRows(t *testing.T) {
	info := func(kv ...string) nam.Option { return nam.FromInfo(comm.NewInfo(kv...)) }
	s := newTestStore(t, nam.Config{Capacity: 1 << 20})
	for name, row := range map[string]struct {
		want error
		call func(c *comm.Comm) error
	}{
		"raw size on another rank": {nam.ErrSize, func(c *comm.Comm) error { return alloc(s, c, 8, 8, nam.RawAndFlat) }},
		"negative size":            {nam.ErrSize, func(c *comm.Comm) error { return alloc(s, c, 1-2*c.Rank(), 8) }},
		"unit 0":                   {nam.ErrSize, func(c *comm.Comm) error { return alloc(s, c, 8, c.Rank()) }},
		"huge":                     {nam.ErrSize, func(c *comm.Comm) error { return alloc(s, c, math.MaxInt, 1) }},
		"consistency differs": {nam.ErrInfo, func(c *comm.Comm) error {
			return alloc(s, c, 8, 8, []nam.Option{nam.Volatile, nam.Persistent}[c.Rank()%2])
		}},
		"structure differs": {nam.ErrInfo, func(c *comm.Comm) error {
			return alloc(s, c, 0, 8, []nam.Option{nam.ManagedContiguous, nam.RawAndFlat}[c.Rank()%2])
		}},
		"sync differs": {nam.ErrInfo, func(c *comm.Comm) error {
			return alloc(s, c, 0, 8, []nam.Option{nam.SyncEpoch, nam.SyncProcess}[c.Rank()%2])
		}},
		"name differs": {nam.ErrInfo, func(c *comm.Comm) error { return alloc(s, c, 0, 8, nam.Name(fmt.Sprint("n", c.Rank()))) }},
		"unknown value on one rank": {nam.ErrInfo, func(c *comm.Comm) error {
			return alloc(s, c, 8, 8, info("psnam_consistency", "psnam_consistency_"+[]string{"volatile", "eternal"}[c.Rank()%2]))
		}},
		"blank in value": {nam.ErrInfo, func(c *comm.Comm) error {
			return alloc(s, c, 8, 8, info("psnam_structure", "psnam_structure_ managed_distributed"))
		}},
		"unknown key":           {nam.ErrInfo, func(c *comm.Comm) error { return alloc(s, c, 8, 8, info("psnam_consistence", "x")) }},
		"bad typed value":       {nam.ErrInfo, func(c *comm.Comm) error { return alloc(s, c, 8, 8, nam.Structure(9)) }},
		"bad mode":              {nam.ErrInfo, func(c *comm.Comm) error { return alloc(s, c, 8, 8, info("weft_nam_mode", "800")) }},
		"read-only":             {nam.ErrInfo, func(c *comm.Comm) error { return alloc(s, c, 8, 8, nam.ReadOnly(true)) }},
		"bad name":              {nam.ErrSize, func(c *comm.Comm) error { return alloc(s, c, 8, 8, nam.Name("a b")) }},
		"capacity":              {nam.ErrNoSpace, func(c *comm.Comm) error { return alloc(s, c, 512<<10, 8) }},
		"capacity, distributed": {nam.ErrNoSpace, func(c *comm.Comm) error { return alloc(s, c, 512<<10, 8, nam.ManagedDistributed) }},
		"unknown name":          {nam.ErrName, func(c *comm.Comm) error { _, err := s.Attach(c, "nobody"); return err }},
		"attach with options":   {nam.ErrInfo, func(c *comm.Comm) error { _, err := s.Attach(c, "nobody", nam.Volatile); return err }},
		"attach, not connecting": {nam.ErrInfo, func(c *comm.Comm) error {
			_, err := s.Attach(c, "nobody", info("psnam_window_connect", "no"))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			errs := make([]error, 3)
			run(t, 3, func(c *comm.Comm) error {
				errs[c.Rank()] = row.call(c)
				return nil
			})
			for r, err := range errs {
				require.ErrorIs(t, err, row.want, "rank %d", r)
				var e *nam.Error
				require.ErrorAs(t, err, &e)
				require.Greater(t, len(err.Error()), 20, "a message that says nothing: %v", err)
			}
			requireEmpty(t, s)
		})
	}
	_, err := nam.Open(s.Dir(), nam.Config{Capacity: -1})
	require.ErrorIs(t, err, nam.ErrSize)
	_, err = s.Stat("nobody")
	require.ErrorIs(t, err, nam.ErrName)
	require.ErrorIs(t, s.Remove("nobody"), nam.ErrName)
}

// Each bound of Allocate's arguments, one below it, at it and one above it.
func TestBounds(t *testing.T) {
	const most = 1 << 48
	s := newTestStore(t, nam.Config{Capacity: 3 * 4096})
	for _, row := range []struct {
		size, unit int
		opt        nam.Option
		want       error
	}{
		{-1, 1, nil, nam.ErrSize},
		{0, 1, nil, nil},
		{1, 1, nil, nil},
		{2 * 4096, 1, nil, nil},
		{2*4096 + 1, 1, nil, nam.ErrNoSpace},
		{most - 1, 1, nil, nam.ErrNoSpace},
		{most, 1, nil, nam.ErrNoSpace},
		{most + 1, 1, nil, nam.ErrSize},
		{8, -1, nil, nam.ErrSize},
		{8, 0, nil, nam.ErrSize},
		{8, 1, nil, nil},
		{8, math.MaxInt32, nil, nil},
		{8, math.MaxInt32 + 1, nil, nam.ErrSize},
		{8, 8, nam.Name(strings.Repeat("n", 254)), nil},
		{8, 8, nam.Name(strings.Repeat("n", 255)), nil},
		{8, 8, nam.Name(strings.Repeat("n", 256)), nam.ErrSize},
		{8, 8, nam.Mode(0), nam.ErrInfo},
		{8, 8, nam.Mode(0o1), nil},
		{8, 8, nam.Mode(0o777), nil},
		{8, 8, nam.Mode(0o1000), nam.ErrInfo},
		{8, 8, nam.Structure(0), nam.ErrInfo},
		{8, 8, nam.Structure(1), nil},
		{8, 8, nam.Structure(3), nil},
		{8, 8, nam.Structure(4), nam.ErrInfo},
		{8, 8, nam.Consistency(0), nam.ErrInfo},
		{8, 8, nam.Consistency(3), nam.ErrInfo},
		{8, 8, nam.Sync(0), nam.ErrInfo},
		{8, 8, nam.Sync(3), nam.ErrInfo},
		{8, 8, nam.Manifestation(0), nam.ErrInfo},
		{8, 8, nam.Manifestation(3), nam.ErrInfo},
	} {
		run(t, 1, func(c *comm.Comm) error {
			err := alloc(s, c, row.size, row.unit, row.opt)
			if !errors.Is(err, row.want) {
				return fmt.Errorf("%d bytes in units of %d, %T %v: %w, want %v", row.size, row.unit, row.opt, row.opt, err, row.want)
			}
			return nil
		})
	}
	requireEmpty(t, s)
}

// An idle window with SyncEpoch, whose goroutine waits for work, hides no deadlock of the ranks.
func TestDeadlockBesideAWindow(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8, 8, nam.SyncEpoch)
		if err != nil {
			return err
		}
		err = w.Fence(0)
		_, rerr := c.Recv(comm.Of(make([]int64, 1)), 1-c.Rank(), 1)
		return errors.Join(err, rerr, w.Free())
	})
	require.ErrorIs(t, err, comm.ErrDeadlock)
}

func alloc(s *nam.Store, c *comm.Comm, size, unit int, opts ...nam.Option) error {
	w, err := s.Allocate(c, size, unit, opts...)
	if err == nil {
		err = w.Free()
	}
	return err
}

func TestNameInUseAndAccessErrors(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 16, 8, nam.FromInfo(comm.NewInfo("psnam_window_name", "mine", "psnam_consistency", "psnam_consistency_persistent")))
		if err != nil {
			return err
		}
		one := comm.Of([]int64{7})
		return errors.Join(
			wants(alloc(s, c, 8, 8, nam.Name("mine")), nam.ErrExist),
			wants(w.Put(one, 0, 0), rma.ErrSync),
			w.Fence(0),
			wants(w.Put(one, 0, 2), rma.ErrRange),
			wants(w.Put(one, 2, 0), rma.ErrRank),
			w.Fence(rma.NoSucceed),
			wants(w.Put(one, 0, 0), rma.ErrSync),
			w.Free(),
			wants(w.Put(one, 0, 0), rma.ErrFreed),
			wants(w.Free(), rma.ErrFreed))
	})
	a, err := s.Stat("mine")
	require.NoError(t, err)
	require.Equal(t, nam.Persistent, a.Consistency)
	require.EqualValues(t, 2, a.Epochs)
	require.Len(t, a.Regions, 2)
	require.NoError(t, s.Remove("mine"))
	requireEmpty(t, s)
}

func TestInfoStrings(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	for in, want := range map[string]string{
		"psnam_manifestation_libnam":  "psnam_manifestation_libnam",
		"psnam_manifestation_persshm": "psnam_manifestation_persshm",
		"psnam_manifestation_pershm":  "psnam_manifestation_persshm",
	} {
		run(t, 2, func(c *comm.Comm) error {
			opts := []nam.Option{nam.FromInfo(comm.NewInfo("unrelated", "x", "psnam_structure", "psnam_structure_managed_distributed"))}
			if c.Rank() == 1 { // each rank may choose its own manifestation
				opts = append(opts, nam.FromInfo(comm.NewInfo("psnam_manifestation", in)))
			}
			w, err := s.Allocate(c, 8, 8, opts...)
			if err != nil {
				return err
			}
			manifestation := want
			if c.Rank() == 0 {
				manifestation = "psnam_manifestation_libnam"
			}
			info := w.Info()
			for k, v := range map[string]string{"psnam_manifestation": manifestation, "psnam_consistency": "psnam_consistency_volatile",
				"psnam_structure": "psnam_structure_managed_distributed", "weft_nam_sync": "process", "weft_nam_mode": "600"} {
				err = errors.Join(err, expect(info.Get(k) == v, "%s=%q, want %q", k, info.Get(k), v))
			}
			err = errors.Join(err, expect(strings.HasPrefix(info.Get("psnam_window_name"), "nam-"), "%v", info))
			return errors.Join(err, w.Free())
		})
	}
	requireEmpty(t, s)
}

func TestConsistencyCanChangeUntilFree(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	set := func(v string) comm.Info { return comm.NewInfo("psnam_consistency", "psnam_consistency_"+v) }
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8, 8, nam.Name("w"), nam.Volatile)
		if err != nil {
			return err
		}
		outstanding := w.Ifence(0) // SetInfo may be called at any time
		err = errors.Join(w.SetInfo(set("persistent")),
			wants(w.SetInfo(set([]string{"volatile", "persistent"}[c.Rank()])), nam.ErrInfo),
			says(w.SetInfo(set([]string{"volatile", "persistent"}[c.Rank()])), "psnam_consistency on rank 1 is not that of rank 0"),
			says(w.SetInfo(set([]string{"x", "persistent"}[c.Rank()])), `psnam_consistency="psnam_consistency_x"; legal are`),
			wants(w.SetInfo(comm.NewInfo("psnam_structure", "psnam_structure_raw_and_flat")), nam.ErrInfo),
			w.SetInfo(comm.NewInfo("psnam_structure", "psnam_structure_managed_contiguous")),
			wants(w.SetInfo(comm.NewInfo("no_locks", "x")), nam.ErrInfo))
		_, ferr := outstanding.Wait(c.Context())
		return errors.Join(err, ferr, expect(w.Info().Get("psnam_consistency") == "psnam_consistency_persistent", "%v", w.Info()), w.Free())
	})
	_, err := s.Stat("w")
	require.NoError(t, err)

	// A window that is attached twice is made volatile and freed by one of the two. In ParaStation
	// MPI this was the only way to remove a window.
	run(t, 2, func(c *comm.Comm) error {
		other, err := s.Attach(c, "w")
		if err != nil {
			return err
		}
		w, err := s.Attach(c, "w")
		if err != nil {
			return err
		}
		if err := errors.Join(w.SetInfo(set("volatile")), w.Free()); err != nil {
			return err
		}
		_, aerr := s.Attach(c, "w")
		got := []int64{1}
		return errors.Join(wants(aerr, nam.ErrName), other.Fence(0), other.Put(comm.Of(got), 1, 0), other.Fence(0), other.Free())
	})
	requireEmpty(t, s)
}

func TestModeForbids(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Log("root may do everything: only the recorded mode is checked")
	}
	s := newTestStore(t, nam.Config{})
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8, 8, nam.Mode(0o400), nam.Name("ro"), nam.Persistent)
		if err != nil {
			return err
		}
		return w.Free()
	})
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Attach(c, "ro")
		if os.Geteuid() != 0 {
			return wants(err, nam.ErrAccess)
		}
		return errors.Join(err, w.Free())
	})
	a, err := s.Stat("ro")
	require.NoError(t, err)
	require.EqualValues(t, 0o400, a.Mode)
	require.Equal(t, os.Geteuid(), a.UID)
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("WEFT_NAM_DIR", "/some/where")
	require.Equal(t, "/some/where", nam.DefaultDir())
	t.Setenv("WEFT_NAM_DIR", "")
	t.Setenv("XDG_CACHE_HOME", "/cache")
	require.Equal(t, "/cache/weft/nam", nam.DefaultDir())
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	require.Contains(t, nam.DefaultDir(), fmt.Sprintf("weft-%d", os.Geteuid()))
}

// A run that dies in an allocation leaves nothing after the next Open.
func TestAbortedRunLeavesNothing(t *testing.T) {
	boom := errors.New("boom")
	for _, structure := range []nam.Structure{nam.ManagedContiguous, nam.ManagedDistributed} {
		s := newTestStore(t, nam.Config{})
		err := comm.Run(t.Context(), comm.Config{Ranks: 3}, func(c *comm.Comm) error {
			if c.Rank() == 2 {
				return boom
			}
			_, err := s.Allocate(c, 4096, 8, structure, nam.Persistent)
			return err
		})
		require.ErrorIs(t, err, boom)
		requireEmpty(t, s)
	}
}

// The windows of an aborted run are freed automatically, and Free returns the cause.
func TestAbortedRunFreesItsWindows(t *testing.T) {
	boom := errors.New("boom")
	s := newTestStore(t, nam.Config{})
	allocated := make(chan struct{})
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 4096, 8, nam.SyncEpoch)
		if err != nil {
			return err
		}
		if c.Rank() == 1 {
			<-allocated
			return boom
		}
		close(allocated)
		return errors.Join(wants(w.Fence(0), comm.ErrAborted), wants(w.Free(), comm.ErrAborted))
	})
	require.ErrorIs(t, err, boom)
	require.NotErrorIs(t, err, nam.ErrInfo)
	require.Eventually(t, func() bool {
		all, err := s.List()
		return err == nil && len(all) == 0
	}, time.Minute, time.Millisecond, "the windows were not freed")
	requireEmpty(t, s)
}
