// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/nam/internal/powerloss"
)

// Each call of the operating system in a protocol fails, or the machine stops between any two
// calls. A protocol is one row. The state of the store afterwards is one string.

var lastBoot = ID{3, 3}

// protocol is what a process does with a store, from Open to Close.
type protocol struct {
	prepare func(t *testing.T) (dir string) // nil: a store with windows "old", "epoch" and "long"
	boot    ID                              // the machine's boot; zero: testBoot
	do      func(s *Store, done func()) error
	open    func(dir string, cfg Config) (*Store, error) // nil: Open
}

func (p *protocol) run(dir string, system func(string, string, int, int, func() error) error, done func()) error {
	cfg := Config{Boot: testBoot, System: system}
	if p.boot != (ID{}) {
		cfg.Boot = p.boot
	}
	open := p.open
	if open == nil {
		open = Open
	}
	s, err := open(filepath.Join(dir, "s"), cfg)
	if err != nil {
		return err
	}
	done()
	if err = s.ReadOnly(); err == nil && p.do != nil {
		err = p.do(s, done)
	}
	return errors.Join(err, s.Close())
}

// slotted is a request for a window of two files in which epoch k fills slot k, of 3.
func slotted(name string) Request {
	return Request{Name: name, Structure: 3, Files: []uint64{3 * headerSize, 3 * headerSize},
		Regions: []Region{{Size: 3 * headerSize, Unit: 1}, {Size: 3 * headerSize, Unit: 1, File: 1}}}
}

func slot(h *Handle, rank int, k uint64) []byte {
	size := h.entry.Regions[rank].Size / 3
	return h.Region(rank)[(k-1)*size : k*size]
}

// fence fills slot k and counts it, as a fence of package nam does.
func fence(h *Handle, k uint64) error {
	for rank := range h.entry.Regions {
		b := slot(h, rank, k)
		for i := range b {
			b[i] = byte(k) * 17
		}
		if h.entry.SyncEpoch {
			if err := h.Sync(rank, 0, int(h.entry.Regions[rank].Size)); err != nil {
				h.Break()
				return fmt.Errorf("%w: %w", ErrLost, err)
			}
		}
	}
	if err := h.Raise(k); err != nil || !h.entry.SyncEpoch {
		return err
	}
	return h.SyncEpochs()
}

// produce makes a window, or attaches to it, and adds epochs.
func produce(s *Store, req Request, done func(), epochs ...uint64) error {
	h, err := s.Attach(req.Name, false, false)
	if errors.Is(err, ErrName) {
		h, err = makeWindow(s, req)
	}
	if err != nil {
		return err
	}
	done()
	for _, k := range epochs {
		if err = fence(h, k); err != nil {
			break
		}
		done()
	}
	err = errors.Join(err, h.Release())
	if err == nil {
		done()
	}
	return err
}

func longRequest(name string) Request {
	req := Request{Name: name, Structure: 2, Files: []uint64{200 * 48}}
	for i := range 200 {
		req.Regions = append(req.Regions, Region{Size: 48, Unit: 1, Offset: uint64(i) * 48})
	}
	return req
}

func someWindows(t *testing.T) string {
	dir := memDir(t)
	s, err := Open(filepath.Join(dir, "s"), Config{Boot: testBoot})
	require.NoError(t, err)
	epoch := slotted("epoch")
	epoch.SyncEpoch = true
	for _, req := range []Request{slotted("old"), epoch, longRequest("long")} {
		require.NoError(t, produce(s, req, func() {}, 1))
	}
	require.NoError(t, s.Close())
	return dir
}

func withoutDatabase(t *testing.T) string {
	dir := someWindows(t)
	emptyDatabase(t, filepath.Join(dir, "s"))
	return dir
}

func protocols() map[string]protocol {
	volatile := slotted("volatile")
	volatile.Volatile = true
	epoch := slotted("epoch2")
	epoch.SyncEpoch = true
	return map[string]protocol{
		"make":            {prepare: memDir},
		"make and fill":   {prepare: memDir, do: func(s *Store, done func()) error { return produce(s, slotted("new"), done, 1, 2) }},
		"create":          {do: func(s *Store, done func()) error { return produce(s, slotted("new"), done, 1, 2) }},
		"create long":     {do: func(s *Store, done func()) error { return produce(s, longRequest("new"), done, 1) }},
		"create volatile": {do: func(s *Store, done func()) error { return produce(s, volatile, done, 1) }},
		"create epoch":    {do: func(s *Store, done func()) error { return produce(s, epoch, done, 1, 2, 3) }},
		"abort": {do: func(s *Store, done func()) error {
			c, err := s.Create(slotted("new"))
			if err != nil {
				return err
			}
			return errors.Join(c.Reserve(0), c.Abort())
		}},
		"use":         {do: func(s *Store, done func()) error { return produce(s, slotted("old"), done, 2, 3) }},
		"use, epochs": {do: func(s *Store, done func()) error { return produce(s, slotted("epoch"), done, 2, 3) }},
		"read": {do: func(s *Store, done func()) error {
			h, err := s.Attach("old", true, false)
			if err != nil {
				return err
			}
			return h.Release()
		}},
		"reader last": {do: func(s *Store, done func()) error {
			h, err := s.Attach("old", false, false)
			if err != nil {
				return err
			}
			r, err := s.Attach("old", true, false)
			if err != nil {
				return errors.Join(err, h.Release())
			}
			err = errors.Join(fence(h, 2), h.Exclusive(0, 0, 8, func() {}))
			err = errors.Join(err, h.Release(), r.Release())
			if err == nil {
				done()
			}
			return err
		}},
		"reader after a kill": {do: func(s *Store, done func()) error {
			h, err := s.Attach("old", true, false)
			if err != nil {
				return err
			}
			killed, err := Open(s.Dir(), Config{Boot: testBoot})
			if err == nil {
				var w *Handle
				if w, err = killed.Attach("old", false, false); err == nil {
					err = errors.Join(fence(w, 2), w.unmap())
				}
				killed.closeLock()
			}
			return errors.Join(err, h.Release())
		}},
		"make persistent": {do: func(s *Store, done func()) error {
			h, err := makeWindow(s, volatile)
			if err != nil {
				return err
			}
			if err = s.SetVolatile(h.entry.ID, false); err == nil {
				done()
			}
			return errors.Join(err, h.Release())
		}},
		"make volatile": {do: func(s *Store, done func()) error {
			h, err := s.Attach("old", false, false)
			if err != nil {
				return err
			}
			if err = s.SetVolatile(h.entry.ID, true); err == nil {
				done()
			}
			return errors.Join(err, h.Release())
		}},
		"remove": {do: func(s *Store, done func()) error { return s.Remove("old") }},
		"remove in use": {do: func(s *Store, done func()) error {
			h, err := s.Attach("old", false, false)
			if err != nil {
				return err
			}
			if err = s.Doom(h.entry.ID); err == nil {
				done()
			}
			return errors.Join(err, h.Release())
		}},
		"list": {do: func(s *Store, done func()) error {
			list, err := s.List()
			for _, e := range list {
				err = errors.Join(err, e.Problem)
			}
			_, err2 := s.SetAside()
			_, err3 := s.Stat("epoch")
			return errors.Join(err, err2, err3)
		}},
		"recover": {prepare: func(t *testing.T) string {
			dir := someWindows(t)
			s, err := Open(filepath.Join(dir, "s"), Config{Boot: testBoot})
			require.NoError(t, err)
			for _, name := range []string{"half", "other half"[:5] + "2"} {
				c, err := s.Create(slotted(name))
				require.NoError(t, err)
				require.NoError(t, c.Reserve(1))
				c.first.Close() // its creator dies
			}
			h, err := makeWindow(s, volatile)
			require.NoError(t, err)
			h.unmap()
			require.NoError(t, os.WriteFile(s.path(ID{9}), make([]byte, 100), 0o600)) // an orphan
			s.closeLock()
			return dir
		}},
		"restore":      {prepare: withoutDatabase, do: func(s *Store, done func()) error { _, err := s.Restore("old", ""); return err }},
		"restore as":   {prepare: withoutDatabase, do: func(s *Store, done func()) error { _, err := s.Restore("old", "other"); return err }},
		"restore long": {prepare: withoutDatabase, do: func(s *Store, done func()) error { _, err := s.Restore("long", "longer"); return err }},
		"drop":         {prepare: withoutDatabase, do: func(s *Store, done func()) error { return s.Drop("old") }},
		"repair": {prepare: func(t *testing.T) string {
			dir := someWindows(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "s", metaName), []byte("damaged"), 0o600))
			return dir
		}, open: func(dir string, cfg Config) (*Store, error) {
			if _, err := Repair(dir, cfg); err != nil {
				return nil, err
			}
			return Open(dir, cfg)
		}},
		"accept": {boot: otherBoot, prepare: func(t *testing.T) string {
			dir := someWindows(t)
			s, err := Open(filepath.Join(dir, "s"), Config{Boot: testBoot})
			require.NoError(t, err)
			h, err := s.Attach("old", false, false)
			require.NoError(t, err)
			require.NoError(t, fence(h, 2))
			h.unmap()
			s.closeLock()
			return dir
		}, do: func(s *Store, done func()) error { return s.Accept("old") }},
		"upgrade": {prepare: func(t *testing.T) string {
			dir := memDir(t)
			require.NoError(t, os.Rename(layout1(t), filepath.Join(dir, "s")))
			return dir
		}},
	}
}

// describe opens a store and returns a text of its contents.
func describe(dir string, boot ID) string {
	var all []string
	s, err := Open(filepath.Join(dir, "s"), Config{Boot: boot})
	if err != nil {
		return "BAD: " + strings.ReplaceAll(err.Error(), dir, "")
	}
	defer s.Close()
	list, err := s.List()
	if err != nil {
		return "BAD: " + err.Error()
	}
	for _, e := range list {
		what := fmt.Sprint(e.Name, e.State, e.Volatile, e.SyncEpoch, e.Mode, e.Regions[0], len(e.Regions), " unsynced ", e.Unsynced, " vouched ", e.Vouched)
		if e.Problem != nil {
			what += " BAD: " + e.Problem.Error()
		} else if h, err := s.Attach(e.Name, true, true); err != nil {
			what += " BAD: " + err.Error()
		} else {
			sum := crc32.NewIEEE()
			for rank := range e.Regions {
				if e.Regions[rank].Size != 3*headerSize {
					if !e.Unsynced {
						sum.Write(h.Region(rank))
					}
					continue
				}
				for k := uint64(1); k <= min(e.Vouched, 3); k++ {
					for _, b := range slot(h, rank, k) {
						if b != byte(k)*17 {
							what += fmt.Sprintf(" BAD: slot %d of rank %d", k, rank)
							break
						}
					}
				}
			}
			what += fmt.Sprint(" sum ", sum.Sum32())
			if err := h.Release(); err != nil {
				what += " BAD: " + err.Error()
			}
		}
		all = append(all, what)
	}
	asides, err := s.SetAside()
	for _, a := range asides {
		name := "?"
		if a.Entry != nil {
			name = a.Entry.Name
		}
		all = append(all, fmt.Sprint("aside ", name, a.Epochs, a.Problem != nil))
	}
	if err != nil {
		all = append(all, "BAD: "+err.Error())
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// prepared returns the directory that a protocol begins with.
func (p *protocol) prepared(t *testing.T) string {
	if p.prepare == nil {
		return someWindows(t)
	}
	return p.prepare(t)
}

// left lists the files in a directory that this process has open or mapped.
func left(dir string) (all []string) {
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			all = append(all, to)
		}
	}
	maps, _ := os.ReadFile("/proc/self/maps")
	for _, line := range strings.Split(string(maps), "\n") {
		if strings.Contains(line, dir+"/") {
			all = append(all, line)
		}
	}
	return all
}

// mayFail has the calls whose error is not returned to the caller, and why.
var mayFail = map[string]string{
	"open by inspectFile": "an orphan that cannot be read is set aside",
	"read by inspectFile": "the same",
	"open by reconcile":   "the entry stays as it is; Attach reports the error",
	"read by reconcile":   "the same",
	"open by inUse":       "an unknown answer counts as yes",
	"lock by inUse":       "the same",
	"open by makeMeta":    "reserving blocks is best effort",
	"read by doomLocked":  "a damaged window can be removed",
	"read by status":      "Attach reports it",
	"open by status":      "the same",
	"remove by unlink":    "files of another user that cannot be removed are reported, and stay",
	"read by inspectMeta": "Repair replaces a database that cannot be read, and keeps it",
	"link by keepDamaged": "it is renamed instead",
}

// Each call of the operating system fails in turn. The caller gets the cause. The store is then in
// a state that it had at some moment of the protocol. Nothing stays open, mapped or locked. The
// same protocol works when it is tried again.
func TestEachCallFails(t *testing.T) {
	for name, p := range protocols() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := p.prepared(t)
			boot := testBoot
			if p.boot != (ID{}) {
				boot = p.boot
			}
			whole := memDir(t)
			require.NoError(t, os.CopyFS(whole, os.DirFS(base)))
			d, err := powerloss.New(whole)
			require.NoError(t, err)
			defer d.Close()
			var sites []string
			require.NoError(t, p.run(whole, func(op, path string, off, size int, call func() error) error {
				sites = append(sites, op+" by "+powerloss.Caller())
				return d.Call(op, path, off, size, call)
			}, func() {}))
			end, err := d.Mark()
			require.NoError(t, err)
			texts := describer{t: t, boot: boot, seen: map[string]string{}}
			legal := map[string]bool{}
			for at := d.Start(); at <= end; at++ {
				legal[texts.describe(d.Full(at))] = true
			}
			after := texts.describe(d.Full(end))
			require.NotContains(t, after, "BAD")

			times := map[string]int{}
			for i, site := range sites {
				if times[site]++; times[site] > 2 {
					continue // the same again, for another window
				}
				what := ""
				var why syscall.Errno
				dir := copyStore(t, base)
				n := 0
				err := p.run(dir, func(op, path string, off, size int, call func() error) error {
					if n++; n-1 != i {
						return call()
					}
					why = map[string]syscall.Errno{"reserve": syscall.ENOSPC, "write": syscall.ENOSPC, "commit": syscall.ENOSPC, "mkdir": syscall.EROFS,
						"remove": syscall.EROFS, "rename": syscall.EROFS, "map": syscall.ENOMEM, "lock": syscall.ENOLCK, "lockRange": syscall.ENOLCK}[op]
					if why == 0 {
						why = syscall.EIO
					}
					site = op + " by " + powerloss.Caller()
					what = fmt.Sprintf("%s: call %d, %s, %s", name, i, site, filepath.Base(path))
					if op == "close" {
						call() // it is closed all the same
					}
					return &fs.PathError{Op: op, Path: path, Err: why}
				}, func() {})
				require.NotEmpty(t, what)
				_, silent := mayFail[site]
				if err != nil && !silent {
					require.ErrorContains(t, err, why.Error(), what)
				} else if !silent {
					t.Errorf("silent: %s, %s", site, what)
				}
				require.Empty(t, left(dir), what)
				text := describe(dir, boot)
				if silent && strings.Contains(site, "inspectFile") {
					require.NotContains(t, text, "BAD", what)
					continue
				}
				require.True(t, legal[text], "%s: %v\n%s", what, err, text)
				err = p.run(dir, nil, func() {})
				require.True(t, err == nil || errors.Is(err, ErrExist) || errors.Is(err, ErrName), "%s: again: %v", what, err)
				text = describe(dir, boot)
				require.True(t, text == after || err != nil && legal[text], "%s: again: %v\n%s\nwant\n%s", what, err, text, after)
				require.NoError(t, os.RemoveAll(dir))
			}
		})
	}
}
