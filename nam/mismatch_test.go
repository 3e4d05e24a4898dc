// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
	"weft/nam"
)

// requireSameErrorOnAll runs a call on all ranks, each of which gets the same error: of that kind,
// with this text, found at rank peer.
func requireSameErrorOnAll(t *testing.T, ranks, peer int, op string, is error, wants string, call func(c *comm.Comm) error) {
	t.Helper()
	errs := make([]error, ranks)
	require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
		errs[c.Rank()] = call(c)
		return nil
	}))
	for r, err := range errs {
		require.ErrorIs(t, err, is, "rank %d", r)
		require.ErrorContains(t, err, wants, "rank %d", r)
		var first, e *nam.Error
		require.ErrorAs(t, errs[0], &first)
		require.ErrorAs(t, err, &e)
		require.Equal(t, first.Err.Error(), e.Err.Error())
		require.Equal(t, op, e.Op)
		require.Equal(t, peer, e.Peer, "%v", err)
	}
}

// One row for each value on which ranks must agree, and for each refused argument, with its text.
// All ranks get the error of one rank, and nothing is left.
func TestRanksDisagree(t *testing.T) {
	const ranks = 3
	s := newTestStore(t, nam.Config{})
	info := func(kv ...string) nam.Option { return nam.FromInfo(comm.NewInfo(kv...)) }
	// The last rank passes another value than the others.
	for wants, opts := range map[string][2]nam.Option{
		"psnam_structure on rank 2":   {nam.ManagedContiguous, nam.ManagedDistributed},
		"psnam_consistency on rank 2": {nam.Volatile, nam.Persistent},
		"weft_nam_sync on rank 2":     {nam.SyncProcess, nam.SyncEpoch},
		"weft_nam_mode on rank 2":     {nam.Mode(0o600), nam.Mode(0o640)},
		"psnam_window_name on rank 2": {nam.Name("a"), nam.Name("b")},
	} {
		for _, swap := range []int{0, 1} {
			requireSameErrorOnAll(t, ranks, nam.NoPeer, "allocate", nam.ErrInfo, wants+" is not that of rank 0; it must be the same on all ranks", func(c *comm.Comm) error {
				return alloc(s, c, 0, 8, opts[(swap+c.Rank()/2)%2])
			})
		}
		// Passing the default agrees with passing nothing.
		if _, ok := opts[0].(nam.Name); !ok {
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: ranks}, func(c *comm.Comm) error {
				return alloc(s, c, 8, 8, []nam.Option{opts[0], nil, opts[0]}[c.Rank()])
			}), wants)
		}
	}
	for _, row := range []struct {
		size, unit int
		opt        nam.Option
		is         error
		wants      string
	}{
		{-1, 8, nil, nam.ErrSize, "region of -1 bytes; legal are 0 to 281474976710656"},
		{1<<48 + 1, 8, nil, nam.ErrSize, "region of 281474976710657 bytes"},
		{8, 0, nil, nam.ErrSize, "displacement unit of 0 bytes; legal are 1 to 2147483647"},
		{8, math.MaxInt32 + 1, nil, nam.ErrSize, "displacement unit of 2147483648 bytes"},
		{8, 8, nam.RawAndFlat, nam.ErrSize, "8 bytes on rank 2; in a psnam_structure_raw_and_flat window only rank 0 may"},
		{8, 8, nam.ReadOnly(true), nam.ErrInfo, "ReadOnly and Unsynced are for Attach"},
		{8, 8, nam.Unsynced(true), nam.ErrInfo, "ReadOnly and Unsynced are for Attach"},
		{8, 8, nam.Structure(0), nam.ErrInfo, "psnam_structure has no value 0; legal are 1 to 3"},
		{8, 8, nam.Structure(4), nam.ErrInfo, "psnam_structure has no value 4"},
		{8, 8, nam.Consistency(0), nam.ErrInfo, "psnam_consistency has no value 0; legal are 1 to 2"},
		{8, 8, nam.Sync(3), nam.ErrInfo, "weft_nam_sync has no value 3"},
		{8, 8, nam.Manifestation(3), nam.ErrInfo, "psnam_manifestation has no value 3"},
		{8, 8, nam.Mode(0), nam.ErrInfo, "mode 0; legal are 01 to 0777"},
		{8, 8, nam.Mode(0o1000), nam.ErrInfo, "mode 01000"},
		{8, 8, info("psnam_structure", "x"), nam.ErrInfo, `psnam_structure="x"; legal are psnam_structure_raw_and_flat, `},
		{8, 8, info("psnam_consistency", "x"), nam.ErrInfo, `psnam_consistency="x"; legal are psnam_consistency_volatile, psnam_consistency_persistent`},
		{8, 8, info("psnam_manifestation", "x"), nam.ErrInfo, `psnam_manifestation="x"; legal are `},
		{8, 8, info("psnam_manifestation", "psnam_manifestation_ libnam"), nam.ErrInfo, "; blanks are not part of the value"},
		{8, 8, info("weft_nam_sync", "x"), nam.ErrInfo, `weft_nam_sync="x"; legal are process, epoch`},
		{8, 8, info("weft_nam_mode", "x"), nam.ErrInfo, `weft_nam_mode="x"; legal are octal numbers up to 777`},
		{8, 8, info("weft_nam_mode", "1000"), nam.ErrInfo, `weft_nam_mode="1000"`},
		{8, 8, info("weft_nam_mode", "0"), nam.ErrInfo, "mode 0"},
		{8, 8, info("weft_nam_prefault", "x"), nam.ErrInfo, `weft_nam_prefault="x"; legal are true, false`},
		{8, 8, info("weft_nam_read_only", "x"), nam.ErrInfo, `weft_nam_read_only="x"; legal are true, false`},
		{8, 8, info("weft_nam_unsynced", "x"), nam.ErrInfo, `weft_nam_unsynced="x"; legal are true, false`},
		{8, 8, info("weft_nam_read_only", "true"), nam.ErrInfo, "ReadOnly and Unsynced are for Attach"},
		{8, 8, info("psnam_window_connect", "false"), nam.ErrInfo, `psnam_window_connect="false"; legal is true`},
		{8, 8, info("psnam_x", ""), nam.ErrInfo, `unknown key "psnam_x"; known are psnam_manifestation, `},
		{8, 8, info("weft_nam_x", ""), nam.ErrInfo, `unknown key "weft_nam_x"`},
	} {
		requireSameErrorOnAll(t, ranks, ranks-1, "allocate", row.is, row.wants, func(c *comm.Comm) error {
			if c.Rank() == ranks-1 {
				return alloc(s, c, row.size, row.unit, row.opt)
			}
			return alloc(s, c, 8, 8)
		})
	}
	requireSameErrorOnAll(t, ranks, 0, "attach", nam.ErrName, `no such window: "x"`, func(c *comm.Comm) error { _, err := s.Attach(c, "x"); return err })
	for _, opt := range []nam.Option{nam.Volatile, nam.SyncProcess, nam.LibNAM, nam.ManagedContiguous, nam.Name("w"), nam.Mode(0o600), nam.Prefault(true)} {
		requireSameErrorOnAll(t, ranks, 2, "attach", nam.ErrInfo, "Attach takes ReadOnly and Unsynced and nothing else", func(c *comm.Comm) error {
			_, err := s.Attach(c, "x", []nam.Option{nil, nil, opt}[c.Rank()])
			return err
		})
	}
	requireSameErrorOnAll(t, ranks, 0, "attach", nam.ErrInfo, "Unsynced is for reading only: add ReadOnly", func(c *comm.Comm) error {
		_, err := s.Attach(c, "x", nam.Unsynced(true))
		return err
	})
	requireSameErrorOnAll(t, ranks, 0, "attach", nam.ErrInfo, `weft_nam_read_only="x"; legal are`, func(c *comm.Comm) error {
		_, err := s.Attach(c, "x", nam.Unsynced(true), info("weft_nam_read_only", "x"))
		return err
	})
	requireEmpty(t, s)
}

// Legal values are returned as they were given, by Info and by the store's description of the
// window.
func TestInfoValues(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	for i, kv := range [][2]string{
		{"psnam_manifestation", "psnam_manifestation_libnam"}, {"psnam_manifestation", "psnam_manifestation_persshm"},
		{"psnam_consistency", "psnam_consistency_volatile"}, {"psnam_consistency", "psnam_consistency_persistent"},
		{"psnam_structure", "psnam_structure_raw_and_flat"}, {"psnam_structure", "psnam_structure_managed_contiguous"}, {"psnam_structure", "psnam_structure_managed_distributed"},
		{"weft_nam_sync", "process"}, {"weft_nam_sync", "epoch"}, {"weft_nam_mode", "1"}, {"weft_nam_mode", "640"}, {"weft_nam_mode", "777"},
		{"weft_nam_prefault", "true"}, {"weft_nam_prefault", "false"}, {"weft_nam_read_only", "false"}, {"weft_nam_unsynced", "false"}, {"psnam_window_connect", "true"},
		{"psnam_window_name", "mine"}, {"another", "x"},
	} {
		run(t, 1, func(c *comm.Comm) error {
			name := fmt.Sprint("w", i)
			said := comm.NewInfo("psnam_window_name", name)
			said.Set(kv[0], kv[1])
			w, err := s.Allocate(c, 40, 4, nam.FromInfo(said))
			if err != nil {
				return err
			}
			want := map[string]string{"psnam_manifestation": "psnam_manifestation_libnam", "psnam_consistency": "psnam_consistency_volatile", "psnam_structure": "psnam_structure_managed_contiguous",
				"weft_nam_sync": "process", "weft_nam_mode": "600", "psnam_window_name": name}
			if _, ok := want[kv[0]]; ok {
				want[kv[0]] = kv[1]
			}
			got := w.Info()
			for k, v := range want {
				err = errors.Join(err, expect(got.Get(k) == v, "%s=%q, want %q", k, got.Get(k), v))
			}
			for _, k := range []string{"weft_nam_read_only", "weft_nam_unsynced"} {
				err = errors.Join(err, expect(got.Get(k) == "", "%v", got))
			}
			// Setting the present value is no change; any other value is refused, by its key.
			for k, v := range want {
				err = errors.Join(err, w.SetInfo(comm.NewInfo(k, v)))
			}
			for k, v := range map[string]string{"psnam_manifestation": "psnam_manifestation_persshm", "psnam_structure": "psnam_structure_raw_and_flat", "weft_nam_sync": "epoch",
				"weft_nam_mode": "700", "psnam_window_name": "other", "weft_nam_read_only": "true", "weft_nam_unsynced": "true"} {
				if kv[1] == "epoch" && k == "weft_nam_sync" {
					v = "process"
				}
				if want[k] == v {
					continue
				}
				serr := w.SetInfo(comm.NewInfo(k, v))
				err = errors.Join(err, wants(serr, nam.ErrInfo),
					expect(serr != nil && strings.Contains(serr.Error(), k+" cannot be changed any more; only psnam_consistency can"), "%s=%s: %v", k, v, serr))
			}
			a, serr := s.Stat(want["psnam_window_name"])
			if serr != nil {
				return serr
			}
			err = errors.Join(err, expect(a.Regions[0].Manifestation.String() == want["psnam_manifestation"] && a.Consistency.String() == want["psnam_consistency"] && a.Structure.String() == want["psnam_structure"] &&
				a.Sync.String() == want["weft_nam_sync"] && fmt.Sprintf("%o", a.Mode) == want["weft_nam_mode"], "%+v", a))
			err = errors.Join(err, w.Free())
			if want["psnam_consistency"] == "psnam_consistency_persistent" {
				err = errors.Join(err, s.Remove(name))
			}
			return err
		})
	}
	requireEmpty(t, s)
	for text, v := range map[string]fmt.Stringer{"psnam_structure(0)": nam.Structure(0), "psnam_structure(4)": nam.Structure(4), "psnam_structure_managed_distributed": nam.Structure(3),
		"psnam_consistency(3)": nam.Consistency(3), "weft_nam_sync(0)": nam.Sync(0), "psnam_manifestation(3)": nam.Manifestation(3)} {
		require.Equal(t, text, v.String())
	}
}

// Two directories are different stores, whichever rank has the other one, even if only the device
// differs.
func TestTwoStores(t *testing.T) {
	a, b := newTestStore(t, nam.Config{}), newTestStore(t, nam.Config{})
	same, err := nam.Open(a.Dir(), nam.Config{})
	require.NoError(t, err)
	run(t, 2, func(c *comm.Comm) error {
		return alloc([]*nam.Store{a, same}[c.Rank()], c, 8, 8)
	})
	require.NoError(t, same.Close())
	run(t, 1, func(c *comm.Comm) error {
		w, err := a.Allocate(c, 8, 8, nam.Persistent, nam.Name("w"))
		return errors.Join(err, w.Free())
	})
	for odd := range 3 {
		of := func(c *comm.Comm) *nam.Store {
			if c.Rank() == odd {
				return b
			}
			return a
		}
		rank := max(odd, 1) // the first one that differs from rank 0
		words := fmt.Sprintf("the store of rank %d is not the store of rank 0; all ranks must open the same directory", rank)
		requireSameErrorOnAll(t, 3, nam.NoPeer, "allocate", nam.ErrStore, words, func(c *comm.Comm) error { return alloc(of(c), c, 8, 8) })
		requireSameErrorOnAll(t, 3, nam.NoPeer, "attach", nam.ErrStore, words, func(c *comm.Comm) error { _, err := of(c).Attach(c, "w"); return err })
	}
	require.NoError(t, a.Remove("w"))
	requireEmpty(t, a)
	requireEmpty(t, b)
}

// Ranks that call different functions get an error that names both.
func TestRanksCallDifferentThings(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	err := comm.Run(t.Context(), comm.Config{Ranks: 2}, func(c *comm.Comm) error {
		if c.Rank() == 0 {
			return alloc(s, c, 8, 8)
		}
		_, err := s.Attach(c, "w")
		return err
	})
	require.ErrorContains(t, err, "rank 0 is in allocate, rank 1 is in attach")
	requireEmpty(t, s)
}

// The description of a window, in the program and as JSON.
func TestAllocationIsDescribed(t *testing.T) {
	s := newTestStore(t, nam.Config{})
	before := time.Now()
	run(t, 2, func(c *comm.Comm) error {
		w, err := s.Allocate(c, 8*(c.Rank()+1), c.Rank()+1, nam.Name("w"), nam.ManagedDistributed, nam.SyncEpoch, nam.Mode(0o640), []nam.Manifestation{nam.LibNAM, nam.PersSHM}[c.Rank()])
		if err != nil {
			return err
		}
		err = errors.Join(w.Fence(0), c.Barrier())
		if c.Rank() == 0 {
			all, lerr := s.List()
			err = errors.Join(err, lerr, expect(len(all) == 1, "%v", all))
			a, serr := s.Stat("w")
			if err = errors.Join(err, serr); err != nil {
				return err
			}
			err = errors.Join(err, expect(len(a.ID) == 32 && strings.HasPrefix(filepath.Base(segment(s, a.ID)), a.ID), "id %q", a.ID),
				expect(!a.Created.Before(before.Add(-time.Second)) && !a.Created.After(time.Now()), "made at %v", a.Created),
				expect(strings.Contains(a.Creator, fmt.Sprintf("[%d]@", os.Getpid())), "by %q", a.Creator))
			for r, unit := range []int{1, 2} {
				_, u := w.Region(r)
				err = errors.Join(err, expect(u == unit, "unit %d of rank %d", u, r))
			}
			a.ID, a.Created, a.Creator, a.UID, a.GID = "", time.Time{}, "", a.UID-os.Geteuid(), a.GID-os.Getegid()
			b, jerr := json.Marshal(a)
			const want = `{"name":"w","id":"","state":"ready","structure":"psnam_structure_managed_distributed","consistency":"psnam_consistency_volatile","sync":"epoch",` +
				`"bytes":24,"footprint":16384,"epochs":1,"vouched":1,"mode":416,"uid":0,"gid":0,"created":"0001-01-01T00:00:00Z","creator":"",` +
				`"regions":[{"size":8,"unit":1,"manifestation":"psnam_manifestation_libnam"},{"size":16,"unit":2,"manifestation":"psnam_manifestation_persshm"}]}`
			err = errors.Join(err, jerr, expect(string(b) == want, "%s", b))
		}
		return errors.Join(err, c.Barrier(), w.Free())
	})
	requireEmpty(t, s)
}

func segment(s *nam.Store, id string) string {
	found, _ := filepath.Glob(filepath.Join(s.Dir(), "alloc", id+"*"))
	return strings.Join(found, "")
}

// Each call on a closed store returns ErrClosed. A directory without a store is an error for calls
// that make none.
func TestClosedStore(t *testing.T) {
	s, err := nam.Open(shortDir(t), nam.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	requireError := func(err, is error, op, name string) {
		t.Helper()
		require.ErrorIs(t, err, is)
		var e *nam.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, nam.Error{Op: op, Name: name, Peer: nam.NoPeer}, nam.Error{Op: e.Op, Name: e.Name, Peer: e.Peer})
		require.Equal(t, fmt.Sprintf("nam: %s %q: %v", op, name, e.Err), err.Error())
	}
	_, err = s.List()
	requireError(err, nam.ErrClosed, "list", s.Dir())
	_, err = s.SetAside()
	requireError(err, nam.ErrClosed, "list", s.Dir())
	_, err = s.Stat("w")
	requireError(err, nam.ErrClosed, "stat", "w")
	_, err = s.Restore("w", "")
	requireError(err, nam.ErrClosed, "restore", "w")
	requireError(s.Remove("w"), nam.ErrClosed, "remove", "w")
	requireError(s.Drop("w"), nam.ErrClosed, "drop", "w")
	requireError(s.Accept("w"), nam.ErrClosed, "accept", "w")
	requireError(s.Close(), nam.ErrClosed, "close", s.Dir())
	requireSameErrorOnAll(t, 2, 0, "allocate", nam.ErrClosed, `nam: allocate "w" (rank 0): store is closed`, func(c *comm.Comm) error { return alloc(s, c, 8, 8, nam.Name("w")) })
	requireSameErrorOnAll(t, 2, 0, "attach", nam.ErrClosed, `nam: attach "w" (rank 0): store is closed`, func(c *comm.Comm) error { _, err := s.Attach(c, "w"); return err })

	// A store that is open for reading says why, and changes nothing.
	s, err = nam.Open(s.Dir(), nam.Config{})
	require.NoError(t, err)
	require.NoError(t, s.ReadOnly())
	require.NoError(t, s.Close())
	s, err = nam.Open(s.Dir(), nam.Config{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorContains(t, s.ReadOnly(), "Config.ReadOnly is set")
	requireError(s.Remove("w"), nam.ErrAccess, "remove", "w")
	requireSameErrorOnAll(t, 2, 0, "allocate", nam.ErrAccess, "the store is open for reading only", func(c *comm.Comm) error { return alloc(s, c, 8, 8) })
	requireSameErrorOnAll(t, 2, 0, "attach", nam.ErrAccess, "and so are its windows", func(c *comm.Comm) error { _, err := s.Attach(c, "w"); return err })
	require.NoError(t, s.Close())

	none := filepath.Join(shortDir(t), "none")
	_, err = nam.Repair(none, nam.Config{})
	requireError(err, fs.ErrNotExist, "repair", none)
	for _, cfg := range []nam.Config{{MustExist: true}, {ReadOnly: true}} {
		_, err = nam.Open(none, cfg)
		requireError(err, fs.ErrNotExist, "open", none)
	}
	_, err = nam.Open(none, nam.Config{Capacity: -1})
	requireError(err, nam.ErrSize, "open", none)
	require.ErrorContains(t, err, "capacity -1; it must be 0 (no limit) or more")
	require.NoDirExists(t, none)
	require.NoError(t, nam.CheckName("w"))
	require.ErrorContains(t, nam.CheckName("a b"), "blanks and control characters are not legal")
}
