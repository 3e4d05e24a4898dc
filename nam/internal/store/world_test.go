// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A world is a store with windows of all structures and consistencies. Each byte of their content
// depends on the window, the rank and the position. A test damages the world's files and then
// checks whether each committed window is still there, whole.

var (
	testBoot  = ID{1, 1}
	otherBoot = ID{2, 2}
)

// worldWindow describes a window of the world.
type worldWindow struct {
	req    Request
	epochs uint64
}

// worldWindows returns the persistent windows: raw, contiguous and distributed, each with both
// kinds of sync, and one with so many regions that its entry is stored after its data.
func worldWindows() []worldWindow {
	var all []worldWindow
	for i, epoch := range []bool{false, true} {
		all = append(all,
			worldWindow{Request{Name: fmt.Sprint("raw", i), Structure: 1, SyncEpoch: epoch, Files: []uint64{300}, Regions: []Region{{Size: 300, Unit: 1, Manifestation: 1}}}, uint64(2 + i)},
			worldWindow{Request{Name: fmt.Sprint("contiguous", i), Structure: 2, SyncEpoch: epoch, Mode: 0o640, Files: []uint64{192},
				Regions: []Region{{Size: 64, Unit: 8, Manifestation: 1}, {Size: 40, Unit: 4, Manifestation: 2, Offset: 64}, {Size: 64, Unit: 8, Manifestation: 1, Offset: 128}}}, uint64(4 + i)},
			worldWindow{Request{Name: fmt.Sprint("distributed", i), Structure: 3, SyncEpoch: epoch, Files: []uint64{100, 5000},
				Regions: []Region{{Size: 100, Unit: 4, Manifestation: 1}, {Unit: 1, Manifestation: 1}, {Size: 5000, Unit: 8, Manifestation: 1, File: 1}}}, uint64(6 + i)})
	}
	many := worldWindow{Request{Name: "many", Structure: 2, Files: []uint64{200 * 64}}, 8}
	for i := range 200 {
		many.req.Regions = append(many.req.Regions, Region{Size: 64, Unit: 8, Manifestation: 1, Offset: uint64(i) * 64})
	}
	return append(all, many)
}

func worldByte(name string, rank, i int) byte { return byte(len(name)*7+int(name[0])+rank*31+i) | 1 }

// makeWorld makes the store in a new directory, and closes it.
func makeWorld(t *testing.T, step func(string)) string {
	t.Helper()
	dir := memDir(t)
	s, err := Open(dir, Config{Boot: testBoot, Step: step})
	require.NoError(t, err)
	for _, w := range worldWindows() {
		h, err := makeWindow(s, w.req)
		require.NoError(t, err)
		for r := range w.req.Regions {
			m := h.Region(r)
			for i := range m {
				m[i] = worldByte(w.req.Name, r, i)
			}
		}
		require.NoError(t, h.Raise(w.epochs))
		require.NoError(t, h.Release())
	}
	require.NoError(t, s.Close())
	return dir
}

func copyStore(t *testing.T, dir string) string {
	t.Helper()
	c := memDir(t)
	require.NoError(t, os.CopyFS(c, os.DirFS(dir)))
	return c
}

// whole returns what is wrong with a window of the world; nil: nothing.
func (w *worldWindow) whole(s *Store) error {
	e, err := s.Stat(w.req.Name)
	if err != nil {
		return err
	}
	if e.Problem != nil || e.State != Ready || e.Structure != w.req.Structure || e.Volatile || e.SyncEpoch != w.req.SyncEpoch ||
		len(e.Regions) != len(w.req.Regions) || w.req.Mode != 0 && e.Mode != w.req.Mode {
		return fmt.Errorf("%q has become %+v, %v", w.req.Name, e.Entry, e.Problem)
	}
	if e.Epochs != w.epochs {
		return fmt.Errorf("%q has %d epochs, it had %d", w.req.Name, e.Epochs, w.epochs)
	}
	h, err := s.Attach(w.req.Name, true, false)
	if err != nil {
		return err
	}
	defer h.Release()
	for r, want := range w.req.Regions {
		if got := e.Regions[r]; got != want {
			return fmt.Errorf("%q: region %d is %+v, it was %+v", w.req.Name, r, got, want)
		}
		for i, b := range h.Region(r) {
			if b != worldByte(w.req.Name, r, i) {
				return fmt.Errorf("%q: byte %d of rank %d is %d", w.req.Name, i, r, b)
			}
		}
	}
	return nil
}

// requireWhole checks all windows of the world but those named.
func requireWhole(t *testing.T, s *Store, but ...string) {
	t.Helper()
	for _, w := range worldWindows() {
		if !strings.Contains(strings.Join(but, " "), w.req.Name) {
			require.NoError(t, w.whole(s))
		}
	}
}

// segments lists the files of the windows, with their sizes.
func segments(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, allocDir))
	require.NoError(t, err)
	all := make(map[string]int64)
	for _, e := range entries {
		st, err := e.Info()
		require.NoError(t, err)
		all[e.Name()] = st.Size()
	}
	return all
}

// notices collects the notices of a store.
type notices struct {
	mu  sync.Mutex
	all []string
}

func (n *notices) add(text string, _ bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, text)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, "\n")
}

// openDamaged opens a store with a damaged database and brings all windows back: it repairs a store
// that Open refuses with ErrCorrupt, and restores what is set aside.
func openDamaged(t *testing.T, dir, what string) *Store {
	t.Helper()
	before := segments(t, dir)
	var said notices
	cfg := Config{Boot: testBoot, Notice: said.add}
	s, err := Open(dir, cfg)
	require.Equal(t, before, segments(t, dir), "%s: Open has changed files", what)
	if err != nil {
		require.True(t, errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion), "%s: %v", what, err)
		_, err = Repair(dir, cfg)
		require.NoError(t, err, what)
		s, err = Open(dir, cfg)
		require.NoError(t, err, what)
	}
	asides, err := s.SetAside()
	require.NoError(t, err, what)
	for _, a := range asides {
		require.NotEmpty(t, said.String(), "%s: %v is set aside in silence", what, a.ID)
		_, err := s.Restore(a.ID.String(), "")
		require.NoError(t, err, what)
	}
	require.Equal(t, before, segments(t, dir), what)
	return s
}

// damageFile applies one damage after the other to a file, and calls check after each.
func damageFile(t *testing.T, path string, damages func(whole []byte, yield func(what string, b []byte)), check func(what string)) {
	t.Helper()
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	damages(whole, func(what string, b []byte) {
		require.NoError(t, os.WriteFile(path, b, 0o600))
		check(what)
	})
	require.NoError(t, os.WriteFile(path, whole, 0o600))
}

// changeBytes changes one byte in each region of n bytes, and zeroes each region of 512.
func changeBytes(n int) func([]byte, func(string, []byte)) {
	return func(whole []byte, yield func(string, []byte)) {
		b := append([]byte{}, whole...)
		for at := n / 2; at < len(b); at += n {
			if whole[at] == 0 && at%(8*n) != n/2 {
				continue // most of a database is empty; a sample of that is enough
			}
			b[at] ^= 0x55
			yield(fmt.Sprintf("byte %d changed", at), b)
			b[at] = whole[at]
		}
		for at := 0; at < len(b); at += 512 {
			clear(b[at:min(len(b), at+512)])
			if string(b) != string(whole) {
				yield(fmt.Sprintf("bytes from %d zero", at), b)
			}
			copy(b[at:], whole[at:min(len(b), at+512)])
		}
	}
}

func readAll(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	return b
}
