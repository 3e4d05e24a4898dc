// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// segmentsOf returns the files of a store's windows, the largest last.
func segmentsOf(t *testing.T, s *nam.Store) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(s.Dir(), "alloc", "*.seg"))
	require.NoError(t, err)
	return all
}

// A window's file is cut while ranks have it mapped. Each operation on the missing part is ErrLost,
// at the rank that makes it and nowhere else. The epoch is not counted, and every rank's fence
// returns ErrLost. The remaining part can be read.
func TestFileCutUnderAWindow(t *testing.T) {
	const page, elems = 4096, 4 * 4096 / 8
	for name, opts := range map[string][]nam.Option{
		"contiguous":  {nam.ManagedContiguous},
		"distributed": {nam.ManagedDistributed},
		"raw":         {nam.RawAndFlat},
		"epoch":       {nam.SyncEpoch},
	} {
		for _, ops := range []string{"put", "large put", "get", "accumulate", "none: no header"} {
			t.Run(name+"/"+ops, func(t *testing.T) {
				s := newTestStore(t, nam.Config{})
				size := elems * 8
				if ops == "large put" { // bypasses the cache
					size = 1 << 20
				}
				run(t, 2, func(c *comm.Comm) error {
					n := size
					if name == "raw" && c.Rank() == 1 {
						n = 0
					}
					w, err := s.Allocate(c, n, 8, append(opts, nam.Persistent, nam.Name("w"))...)
					if err != nil {
						return err
					}
					data := make([]int64, size/8)
					data[0] = 7
					err = errors.Join(w.Fence(0), w.Put(comm.Of(data[:1]), 0, 0), w.Fence(0), expect(w.Epochs() == 2, "%d epochs", w.Epochs()), c.Barrier())
					if err != nil {
						return err
					}
					left := int64(2 * page) // the header and the first page of data
					if ops == "none: no header" {
						left = 0
					}
					if c.Rank() == 0 {
						for _, file := range segmentsOf(t, s) {
							if st, err := os.Stat(file); err != nil || st.Size() < left {
								return errors.Join(errors.New("too short"), err)
							}
							if err := os.Truncate(file, left); err != nil {
								return err
							}
						}
					}
					if err := c.Barrier(); err != nil {
						return err
					}
					last := size/8 - 1
					var lost error
					switch ops {
					case "put":
						lost = w.Put(comm.Of(data[:1]), 0, last)
					case "large put":
						lost = w.Put(comm.Of(data), 0, 0)
					case "get":
						lost = w.Get(comm.Of(data[:1]), 0, last)
					case "accumulate":
						lost = w.Accumulate(comm.Of(data[:1]), 0, last, comm.Sum)
					default:
						lost = w.Get(comm.Of(data[:1]), 0, 0)
					}
					err = wants(lost, nam.ErrLost)
					if ops == "get" {
						got := []int64{0}
						err = errors.Join(err, w.Get(comm.Of(got), 0, 0), expect(got[0] == 7, "read %d", got[0]), w.Fence(0))
					} else if berr := c.Barrier(); berr != nil { // both have tried
						return berr
					} else {
						err = errors.Join(err, wants(w.Fence(0), nam.ErrLost))
						want := uint64(2)
						if left == 0 {
							want = 0
						}
						err = errors.Join(err, expect(w.Epochs() == want, "%d epochs", w.Epochs()))
					}
					return errors.Join(err, w.Free())
				})
				a, err := s.Stat("w")
				require.NoError(t, err)
				require.Equal(t, "damaged", a.State)
				require.Contains(t, a.Problem, "lost")
				run(t, 2, func(c *comm.Comm) error {
					_, err := s.Attach(c, "w", nam.ReadOnly(true))
					return errors.Join(wants(err, nam.ErrLost), wants(err, nam.ErrCorrupt))
				})
				require.NoError(t, s.Remove("w"))
				requireEmpty(t, s)
			})
		}
	}
}

// A pipe that replaces a window's file blocks no call.
func TestPipeInPlaceOfAWindow(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8, nam.Persistent, nam.Name("w"))
		if err != nil {
			return err
		}
		return w.Free()
	})
	file := segmentsOf(t, s)[0]
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o600))
	run(t, 2, func(c *comm.Comm) error {
		_, err := s.Attach(c, "w")
		_, err2 := s.Attach(c, "w", nam.ReadOnly(true))
		return errors.Join(wants(err, nam.ErrLost), wants(err2, nam.ErrLost), wants(err2, nam.ErrCorrupt))
	})
	a, err := s.Stat("w")
	require.NoError(t, err)
	require.Equal(t, "damaged", a.State)
	s2, err := nam.Open(s.Dir(), nam.Config{})
	require.NoError(t, err)
	require.NoError(t, s2.Remove("w"))
	require.NoError(t, s2.Close())
}

// A window that was in use when the machine stopped is unsynced on all ranks. A window with
// SyncEpoch, or that was freed, is not.
func TestMachineStops(t *testing.T) {
	dir := shortDir(t)
	open := func(dir, boot string) *nam.Store {
		cfg := nam.Config{}
		nam.SetBoot(&cfg, boot)
		s, err := nam.Open(dir, cfg)
		require.NoError(t, err)
		return s
	}
	s := open(dir, "before")
	later := shortDir(t)
	run(t, 2, func(c *comm.Comm) error {
		var all []*nam.Win
		for _, name := range []string{"freed", "process", "epoch"} {
			sync := nam.SyncProcess
			if name == "epoch" {
				sync = nam.SyncEpoch
			}
			w, err := s.Allocate(c, 64, 8, nam.Persistent, nam.Name(name), sync)
			if err != nil {
				return err
			}
			if err := errors.Join(w.Fence(0), w.Put(comm.Of([]int64{5}), c.Rank(), 0), w.Fence(0)); err != nil {
				return err
			}
			if name == "freed" {
				err = w.Free()
			} else {
				all = append(all, w)
			}
			if err != nil {
				return err
			}
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		if c.Rank() == 0 { // a possible state of the disk if the machine stops now
			if err := os.CopyFS(later, os.DirFS(dir)); err != nil {
				return err
			}
		}
		return errors.Join(c.Barrier(), all[0].Free(), all[1].Free())
	})
	require.NoError(t, s.Close())

	s = open(later, "after")
	for name, want := range map[string]nam.Allocation{
		"freed":   {State: "ready", Epochs: 2, Vouched: 2},
		"epoch":   {State: "ready", Epochs: 2, Vouched: 2},
		"process": {State: "unsynced", Epochs: 2, Vouched: 0},
	} {
		a, err := s.Stat(name)
		require.NoError(t, err)
		require.Equal(t, want, nam.Allocation{State: a.State, Epochs: a.Epochs, Vouched: a.Vouched}, name)
	}
	run(t, 3, func(c *comm.Comm) error {
		_, err := s.Attach(c, "process")
		_, err2 := s.Attach(c, "process", nam.ReadOnly(true))
		_, err3 := s.Attach(c, "process", nam.Unsynced(true))
		w, err4 := s.Attach(c, "process", nam.FromInfo(comm.NewInfo("weft_nam_read_only", "true", "weft_nam_unsynced", "true")))
		if err := errors.Join(wants(err, nam.ErrUnsynced), wants(err2, nam.ErrUnsynced), wants(err3, nam.ErrInfo), err4); err != nil {
			return err
		}
		return errors.Join(expect(w.Epochs() == 0, "%d epochs", w.Epochs()), expect(w.Info().Get("weft_nam_unsynced") == "true", "%v", w.Info()), w.Free())
	})
	require.NoError(t, s.Accept("process"))
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Attach(c, "process")
		if err != nil {
			return err
		}
		return errors.Join(expect(w.Epochs() == 2, "%d epochs", w.Epochs()), w.Free())
	})
	require.NoError(t, s.Close())
}

// The logger gets what is wrong with a store.
func TestStoreSaysWhatItMends(t *testing.T) {
	dir := shortDir(t)
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8, nam.Persistent, nam.Name("w"))
		if err != nil {
			return err
		}
		return w.Free()
	})
	require.NoError(t, s.Close())
	meta := filepath.Join(dir, "meta.db")
	require.NoError(t, os.Remove(meta))
	_, err = nam.Open(dir, nam.Config{})
	require.ErrorIs(t, err, nam.ErrCorrupt)
	require.NotErrorIs(t, err, fs.ErrNotExist)
	names, err := nam.Repair(dir, nam.Config{})
	require.NoError(t, err)
	require.Equal(t, []string{"w"}, names)

	empty := shortDir(t)
	s, err = nam.Open(empty, nam.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	b, err := os.ReadFile(filepath.Join(empty, "meta.db"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(meta, b, 0o600))
	var log bytes.Buffer
	s, err = nam.Open(dir, nam.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.Contains(t, log.String(), "1 window in "+dir+" without a database entry: set aside")
	run(t, 2, func(c *comm.Comm) error {
		_, err := s.Attach(c, "w")
		return errors.Join(wants(err, nam.ErrName), expect(err != nil && bytes.Contains([]byte(err.Error()), []byte("a window of this name is set aside")), "%v", err))
	})
	_, serr := s.Stat("w")
	for _, err := range []error{serr, s.Remove("w"), s.Accept("w")} {
		require.ErrorIs(t, err, nam.ErrName)
		require.ErrorContains(t, err, "a window of this name is set aside (weft nam ls -C "+dir+")")
	}
	_, serr = s.Stat("x")
	for _, err := range []error{serr, s.Remove("x"), s.Accept("x")} {
		require.ErrorIs(t, err, nam.ErrName)
		require.NotContains(t, err.Error(), "set aside", "another one is")
	}
	all, err := s.SetAside()
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, "set aside", all[0].State)
	require.Equal(t, "w", all[0].Name)
	require.Len(t, all[0].ID, 32)
	require.EqualValues(t, 8192, all[0].Footprint)
	require.Empty(t, all[0].Problem)
	require.Equal(t, []nam.RegionInfo{{Size: 64, Unit: 8, Manifestation: nam.LibNAM}}, all[0].Regions)
	name, err := s.Restore(all[0].ID, "again")
	require.NoError(t, err)
	require.Equal(t, "again", name)
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Attach(c, "again")
		if err != nil {
			return err
		}
		return w.Free()
	})
	require.ErrorIs(t, s.Drop("w"), nam.ErrName)
	require.NoError(t, s.Close())
}
