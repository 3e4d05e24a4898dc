// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
	"weft/nam/internal/powerloss"
)

// calls intercepts a store's calls of the operating system.
type calls struct {
	mu     sync.Mutex
	active bool           // guarded by mu
	made   []string       // guarded by mu; op, file, bytes
	sites  map[string]int // guarded by mu; op and the store's function → how often
	fail   string         // guarded by mu; a site; "": none
	at     int            // guarded by mu; which time
	why    error          // guarded by mu; the error that was returned; nil: nothing has failed
}

func (k *calls) call(op, path string, off, n int, call func() error) error {
	k.mu.Lock()
	if !k.active {
		k.mu.Unlock()
		return call()
	}
	site := op + " by " + powerloss.Caller()
	k.made = append(k.made, fmt.Sprintf("%s %s %d+%d", op, filepath.Base(path), off, n))
	k.sites[site]++
	fails := site == k.fail && k.sites[site] == k.at
	if fails {
		k.why = &fs.PathError{Op: op, Path: path, Err: syscall.EIO}
	}
	k.mu.Unlock()
	if fails {
		if op == "close" {
			_ = call() // it is closed all the same
		}
		return k.why
	}
	return call()
}

// watch starts recording calls; fail may be empty.
func (k *calls) watch(fail string, at int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active, k.made, k.sites, k.fail, k.at, k.why = true, nil, map[string]int{}, fail, at, nil
}

// stop stops recording, and returns the calls.
func (k *calls) stop(only string) (made []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = false
	for _, m := range k.made {
		if strings.HasPrefix(m, only) {
			made = append(made, m)
		}
	}
	slices.Sort(made)
	return made
}

func openWith(t *testing.T, dir string) (*nam.Store, *calls) {
	t.Helper()
	k := &calls{}
	var cfg nam.Config
	nam.SetSystem(&cfg, k.call)
	s, err := nam.Open(dir, cfg)
	require.NoError(t, err)
	return s, k
}

// collective makes the calls that fail on all ranks if they fail on one. It returns their errors by
// name.
func collective(s *nam.Store, c *comm.Comm, opts ...nam.Option) map[string]error {
	errs := map[string]error{}
	w, err := s.Allocate(c, 8*(c.Rank()+1), 8, append(opts, nam.Name("w"), nam.Prefault(true))...)
	if errs["allocate"] = err; err != nil {
		return errs
	}
	a, err := s.Attach(c, "w")
	if errs["attach"] = err; err == nil {
		_ = a.Free() // its error is not collective
	}
	errs["persistent"] = w.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_persistent"))
	errs["volatile"] = w.SetInfo(comm.NewInfo("psnam_consistency", "psnam_consistency_volatile"))
	_ = w.Free()
	return errs
}

// Each call of the operating system of one rank fails in turn. A collective call fails on all ranks
// with the same text, or on none. The next Open cleans up all that is left. No file stays open. The
// same calls work when they are tried again.
func TestOneRanksCallsFail(t *testing.T) {
	const ranks = 2
	told := map[string]bool{}
	for _, opts := range [][]nam.Option{{nam.ManagedContiguous}, {nam.ManagedDistributed, nam.Persistent}} {
		try := func(bad int, site string, at int) *calls {
			dir := shortDir(t)
			var stores [ranks]*nam.Store
			var all [ranks]*calls
			for r := range ranks {
				stores[r], all[r] = openWith(t, dir)
			}
			all[bad].watch(site, at)
			var errs [ranks]map[string]error
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
				errs[c.Rank()] = collective(stores[c.Rank()], c, opts...)
				return nil
			}))
			all[bad].stop("")
			what := fmt.Sprintf("%v, rank %d, %s, time %d", opts, bad, site, at)
			for name, err := range errs[0] {
				other := errs[1][name]
				require.Equal(t, err == nil, other == nil, "%s: %s: %v, and %v", what, name, err, other)
				if err == nil {
					continue
				}
				told[name] = true
				first, _, _ := strings.Cut(err.Error(), "\n")
				second, _, _ := strings.Cut(other.Error(), "\n")
				require.Equal(t, first, second, what)
				var e *nam.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, bad, e.Peer, "%s: %s: %v", what, name, err)
			}
			require.Equal(t, len(errs[0]), len(errs[1]), what)
			// The store is unchanged, or has a persistent window.
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
				s := stores[c.Rank()]
				if _, err := s.Stat("w"); err == nil && c.Rank() == 0 {
					if err := s.Remove("w"); err != nil {
						return fmt.Errorf("%s: %w", what, err)
					}
				}
				if err := c.Barrier(); err != nil {
					return err
				}
				return errors.Join(slices.Collect(maps.Values(collective(s, c, opts[0])))...)
			}))
			for _, s := range stores {
				require.NoError(t, s.Close(), what)
			}
			require.Empty(t, openIn(dir), what)
			s, err := nam.Open(dir, nam.Config{})
			require.NoError(t, err, what)
			requireEmpty(t, s)
			require.NoError(t, s.Close())
			require.NoError(t, os.RemoveAll(dir))
			return all[bad]
		}
		for bad := range ranks {
			sites := try(bad, "", 0).sites
			for _, site := range slices.Sorted(maps.Keys(sites)) {
				for at := range min(2, sites[site]) {
					try(bad, site, at+1)
				}
			}
		}
	}
	require.Equal(t, map[string]bool{"allocate": true, "attach": true, "persistent": true, "volatile": true}, told)
}

// A failure at rank 0 makes no calls of the operating system at other ranks. No rank returns from a
// failed call before rank 0 has cleaned up.
func TestWhatFailsIsOverAtOnce(t *testing.T) {
	dir := shortDir(t)
	var returned atomic.Bool
	early := false
	var cfg nam.Config
	nam.SetStep(&cfg, func(name string) {
		if name == "delete:forgetting" {
			for range 1000 { // gives the other rank time to return too early
				runtime.Gosched()
			}
			early = returned.Load()
		}
	})
	first, err := nam.Open(dir, cfg)
	require.NoError(t, err)
	second, k := openWith(t, dir)
	stores := []*nam.Store{first, second}
	run(t, 2, func(c *comm.Comm) error {
		s := stores[c.Rank()]
		k.watch("", 0)
		_, err := s.Attach(c, "nothing")
		err = errors.Join(wants(err, nam.ErrName), c.Barrier())
		if c.Rank() == 1 {
			err = errors.Join(err, expect(len(k.stop("")) == 0, "asked: %q", k.made))
			k.watch("map by mapFiles", 1)
		}
		_, aerr := s.Allocate(c, 8, 8, nam.Persistent)
		if c.Rank() == 1 {
			returned.Store(true)
		}
		return errors.Join(err, says(aerr, syscall.EIO.Error()))
	})
	k.stop("")
	require.False(t, early, "a rank returned while there was something left")
	requireEmpty(t, first)
	require.NoError(t, first.Close())
	require.NoError(t, second.Close())
}

// openIn lists the files of a directory that this process has open.
func openIn(dir string) (all []string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			all = append(all, to)
		}
	}
	return all
}

// With SyncEpoch a fence forces the regions that were written since the last fence, each at the
// ranks that wrote it, and the header at each rank. With SyncProcess it makes no calls.
func TestWhatAFenceForces(t *testing.T) {
	const ranks, elems = 2, 16
	for name, opts := range map[string]nam.Structure{"contiguous": nam.ManagedContiguous, "distributed": nam.ManagedDistributed} {
		for _, sync := range []nam.Sync{nam.SyncEpoch, nam.SyncProcess} {
			s, k := openWith(t, shortDir(t))
			region := []string{"syncRange 0 4096+128", "syncRange 0 4224+128"} // by rank
			if name == "distributed" {
				region[1] = "syncRange 1 4096+128"
			}
			run(t, ranks, func(c *comm.Comm) error {
				one := comm.Of([]int64{1})
				w, err := s.Allocate(c, elems*8, 8, opts, sync)
				if err != nil {
					return err
				}
				for i, step := range []struct {
					do    func(me int) error
					wants []string
				}{
					{func(int) error { return nil }, nil},
					{func(me int) error { return w.Put(one, 1-me, 0) }, region},
					{func(me int) error { return w.Get(one, 1-me, 0) }, nil},
					{func(me int) error { return w.Accumulate(one, 0, me, comm.Sum) }, []string{region[0], region[0]}},
					{func(me int) error { return errors.Join(w.Put(one, 1, me), w.Put(one, 1, me+4)) }, []string{region[1], region[1]}},
					{func(me int) error {
						if me == 0 {
							return w.Put(one, 1, 0)
						}
						return nil
					}, region[1:]},
					{func(int) error { return nil }, nil},
				} {
					if err := errors.Join(c.Barrier(), w.Fence(0), c.Barrier()); err != nil {
						return err
					}
					if c.Rank() == 0 {
						k.watch("", 0)
					}
					if err := errors.Join(c.Barrier(), step.do(c.Rank()), w.Fence(0), c.Barrier()); err != nil {
						return err
					}
					if c.Rank() > 0 {
						continue
					}
					var want []string
					got := k.stop("sync")
					if sync == nam.SyncEpoch {
						want = append([]string{"syncRange 0 0+4096", "syncRange 0 0+4096"}, step.wants...)
					}
					for i, file := range files(s) {
						for j := range got {
							got[j] = strings.Replace(got[j], " "+file+" ", fmt.Sprintf(" %d ", i), 1)
						}
					}
					slices.Sort(got)
					slices.Sort(want)
					if err := expect(slices.Equal(want, got), "%s, %v, step %d: %q, want %q", name, sync, i, got, want); err != nil {
						return err
					}
				}
				return w.Free()
			})
			require.NoError(t, s.Close())
		}
	}
}

// files returns the file names of the store's only window, the first file first.
func files(s *nam.Store) (names []string) {
	all, err := s.List()
	if err != nil || len(all) != 1 {
		return nil
	}
	entries, _ := os.ReadDir(filepath.Join(s.Dir(), "alloc"))
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), all[0].ID) {
			names = slices.Insert(names, 0, e.Name())
		} else {
			names = append(names, e.Name())
		}
	}
	return names
}

// With SyncEpoch a fence whose force fails returns ErrLost, and so do all later fences, and no
// earlier one. The epoch count stays.
func TestFenceWhoseForceFails(t *testing.T) {
	const fences = 4
	// The fence of each force: the data, then the count.
	forced := []int{0, 1, 1, 2, 2, 3, 3}
	for i, lost := range forced {
		dir := shortDir(t)
		n := 0
		var cfg nam.Config
		active := false
		nam.SetSystem(&cfg, func(op, path string, off, size int, call func() error) error {
			if active && op == "syncRange" {
				if n++; n-1 == i {
					return &fs.PathError{Op: op, Path: path, Err: syscall.EIO}
				}
			}
			return call()
		})
		s, err := nam.Open(dir, cfg)
		require.NoError(t, err)
		run(t, 1, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 64, 8, nam.SyncEpoch, nam.Persistent, nam.Name("w"))
			if err != nil {
				return err
			}
			active = true
			for f := range fences {
				if f > 0 {
					err = errors.Join(err, w.Put(comm.Of([]int64{1}), 0, 0))
				}
				ferr := w.Fence(0)
				err = errors.Join(err, expect((f >= lost) == errors.Is(ferr, nam.ErrLost), "force %d: fence %d: %v", i, f, ferr))
				if f == lost {
					err = errors.Join(err, wants(ferr, syscall.EIO))
				}
			}
			active = false
			// The count itself may be raised if its force fails; no later epoch is counted.
			err = errors.Join(err, expect(int(w.Epochs()) <= lost+1 && int(w.Epochs()) >= lost, "force %d: %d epochs", i, w.Epochs()))
			return errors.Join(err, w.Free())
		})
		require.NoError(t, s.Close())
		s, err = nam.Open(dir, nam.Config{})
		require.NoError(t, err)
		a, err := s.Stat("w")
		require.NoError(t, err)
		require.LessOrEqual(t, int(a.Epochs), lost+1)
		require.NoError(t, s.Close())
	}
}

// littleEndian is 1 on machines whose lowest byte comes first, and 0 on others.
var littleEndian = byte(binary.NativeEndian.Uint16([]byte{1, 0}) & 1)

// A damaged count is not raised and not forced: the fence returns ErrCorrupt, and later fences
// ErrLost.
func TestDamagedCountAtAFence(t *testing.T) {
	for _, sync := range []nam.Sync{nam.SyncProcess, nam.SyncEpoch} {
		s, k := openWith(t, shortDir(t))
		run(t, 1, func(c *comm.Comm) error {
			w, err := s.Allocate(c, 64, 8, sync)
			if err != nil {
				return err
			}
			err = w.Fence(0)
			f, ferr := os.OpenFile(segmentsOf(t, s)[0], os.O_RDWR, 0)
			if err = errors.Join(err, ferr); err != nil {
				return err
			}
			// A number and its checksum, in which one bit is made wrong.
			b := make([]byte, 8)
			_, rerr := f.ReadAt(b, 16)
			b[0], b[7] = b[0]^0x80*(1-littleEndian), b[7]^0x80*littleEndian
			_, werr := f.WriteAt(b, 16)
			err = errors.Join(err, rerr, werr, f.Close())
			k.watch("", 0)
			ferr = w.Fence(0)
			made := k.stop("sync")
			return errors.Join(err, wants(ferr, nam.ErrCorrupt), expect(len(made) == 0, "forced: %q", made), expect(w.Epochs() == 0, "%d epochs", w.Epochs()),
				wants(w.Fence(0), nam.ErrLost), w.Free())
		})
		require.NoError(t, s.Close())
	}
}

// Free returns the error of a volatile window that cannot be removed; the next Open removes it.
func TestFreeThatCannotRemove(t *testing.T) {
	dir := shortDir(t)
	s, k := openWith(t, dir)
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			k.watch("commit by doomLocked", 1)
		}
		if err := c.Barrier(); err != nil {
			return err
		}
		err = w.Free()
		if c.Rank() > 0 {
			return err
		}
		k.stop("")
		var e *nam.Error
		return errors.Join(wants(err, syscall.EIO), expect(errors.As(err, &e) && e.Op == "free" && e.Name == w.Name(), "%#v", e))
	})
	require.NoError(t, s.Close())
	s, err := nam.Open(dir, nam.Config{})
	require.NoError(t, err)
	requireEmpty(t, s)
	require.NoError(t, s.Close())
}

// A window that cannot be forced to the disk by Free is ErrLost, for this window and this call, and
// none of its epochs is certain.
func TestFreeThatCannotForce(t *testing.T) {
	dir := shortDir(t)
	s, k := openWith(t, dir)
	run(t, 1, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 64, 8, nam.Persistent, nam.Name("w"))
		if err != nil {
			return err
		}
		err = errors.Join(w.Fence(0), w.Put(comm.Of([]int64{1}), 0, 0), w.Fence(0))
		k.watch("syncFile by flush", 1)
		ferr := w.Free()
		k.stop("")
		var e *nam.Error
		return errors.Join(err, wants(ferr, nam.ErrLost), wants(ferr, syscall.EIO),
			expect(errors.As(ferr, &e) && e.Op == "free" && e.Name == "w" && e.Peer == nam.NoPeer, "%#v", e))
	})
	require.NoError(t, s.Close())
}
