// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func newTestStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func oneRegion(name string, size uint64) Request {
	return Request{Name: name, Files: []uint64{size}, Regions: []Region{{Size: size, Unit: 8}}}
}

// makeWindow runs the create protocol as package nam does.
func makeWindow(s *Store, req Request) (*Handle, error) {
	c, err := s.Create(req)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Handle, error) { return nil, errors.Join(err, c.Abort()) }
	for i := range c.Entry().Files {
		if err := c.Reserve(i); err != nil {
			return fail(err)
		}
	}
	h, err := s.AttachID(c.Entry().ID, false, false)
	if err != nil {
		return fail(err)
	}
	if err := c.Commit(); err != nil {
		return fail(errors.Join(err, h.Release()))
	}
	return h, nil
}

// A creation that fails after its last transaction leaves neither a window nor a name.
func TestCommitThatFails(t *testing.T) {
	var s *Store
	cut := false
	cfg := Config{Step: func(name string) {
		if name == "create:committed" && cut { // so that the flag cannot be cleared
			files, err := filepath.Glob(filepath.Join(s.allocPath(), "*"+suffix))
			require.NoError(t, err)
			require.Len(t, files, 1)
			require.NoError(t, os.Truncate(files[0], headerSize))
		}
	}}
	s = newTestStore(t, cfg)
	cut = true
	_, err := makeWindow(s, oneRegion("w", 3*headerSize))
	require.ErrorIs(t, err, ErrGone)
	all, err := s.List()
	require.NoError(t, err)
	require.Empty(t, all)
	requireSound(t, s)
	cut = false
	h, err := makeWindow(s, oneRegion("w", 3*headerSize))
	require.NoError(t, err)
	require.NoError(t, h.Release())
}

func epochsOf(h *Handle) uint64 {
	n, err := h.Epochs()
	if err != nil {
		panic(err)
	}
	return n
}

func mustRaise(h *Handle, n uint64) {
	if err := h.Raise(n); err != nil {
		panic(err)
	}
}

// requireSound checks that files and entries match, and that no leftovers exist.
func requireSound(t *testing.T, s *Store) {
	t.Helper()
	ents, err := s.List()
	require.NoError(t, err)
	want := []string{}
	for _, r := range ents {
		require.Equal(t, Ready, r.State, "entry %q", r.Name)
		var sum uint64
		for _, f := range r.Files {
			st, err := os.Stat(s.path(f.ID))
			require.NoError(t, err)
			sum += uint64(st.Size())
			want = append(want, f.ID.String()+suffix)
		}
		require.Equal(t, r.Footprint(), sum)
		if !r.Volatile { // or the files would be leftovers if the entry were lost
			h, err := s.header(r.Entry)
			require.NoError(t, err)
			require.Zero(t, h.flags&headVolatile, "the header of %q says that it is volatile", r.Name)
		}
	}
	entries, err := os.ReadDir(s.allocPath())
	require.NoError(t, err)
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	require.ElementsMatch(t, want, got)
}

// A closed store keeps its lock as long as a window is in use, because volatile windows are removed
// under that lock, each after its last user.
func TestCloseWhileWindowsAreUsed(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	var used []*Handle
	for _, name := range []string{"a", "b", "c"} {
		req := oneRegion(name, 64)
		req.Volatile = true
		h, err := makeWindow(s, req)
		require.NoError(t, err)
		used = append(used, h)
	}
	require.NoError(t, s.Close())
	for i, h := range used {
		require.NotNil(t, s.lock, "%d of 3 have left", i)
		require.NoError(t, h.Release())
	}
	require.Nil(t, s.lock)
	again, err := Open(dir, Config{})
	require.NoError(t, err)
	all, err := again.List()
	require.NoError(t, err)
	require.Empty(t, all)
	require.NoError(t, again.Close())
}

func TestPersistentSurvivesReleaseAndReopen(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	h, err := makeWindow(s, Request{Name: "w", Files: []uint64{100, 0, 5000}, Mode: 0o640, Structure: 3,
		Regions: []Region{{Size: 60, Unit: 4, File: 0}, {Size: 40, Unit: 8, File: 0, Offset: 60}, {Unit: 1, File: 1}, {Size: 5000, Unit: 1, File: 2}}})
	require.NoError(t, err)
	for i, r := range h.Entry().Regions {
		m := h.Region(i)
		require.Len(t, m, int(r.Size))
		for j := range m {
			m[j] = byte(i*31 + j)
		}
	}
	mustRaise(h, 7)
	h.Raise(3)
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Close(), ErrClosed)
	_, err = s.List()
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.Attach("w", false, false)
	require.ErrorIs(t, err, ErrClosed)

	s, err = Open(dir, Config{})
	require.NoError(t, err)
	defer s.Close()
	ent, err := s.Stat("w")
	require.NoError(t, err)
	require.EqualValues(t, 7, ent.Epochs)
	require.Equal(t, fs.FileMode(0o640), ent.Mode)
	require.EqualValues(t, 5100, ent.Bytes())
	require.EqualValues(t, 2*headerSize+headerSize+headerSize+2*headerSize, ent.Footprint())
	h, err = s.Attach("w", true, false)
	require.NoError(t, err)
	require.True(t, h.ReadOnly())
	require.EqualValues(t, 7, epochsOf(h))
	for i := range ent.Regions {
		for j, b := range h.Region(i) {
			require.Equal(t, byte(i*31+j), b)
		}
	}
	require.NoError(t, h.Release())
	requireSound(t, s)
}

func TestNames(t *testing.T) {
	s := newTestStore(t, Config{})
	a, err := makeWindow(s, oneRegion("", 8))
	require.NoError(t, err)
	b, err := makeWindow(s, oneRegion("", 8))
	require.NoError(t, err)
	require.NotEqual(t, a.Entry().Name, b.Entry().Name)
	require.Regexp(t, "^nam-[0-9a-f]{32}$", a.Entry().Name)

	_, err = s.Create(oneRegion(a.Entry().Name, 8))
	require.ErrorIs(t, err, ErrExist)
	require.Contains(t, err.Error(), a.Entry().Name)
	for _, name := range []string{"a b", "a\x00", string(make([]byte, 256)), "\xff"} {
		_, err = s.Create(oneRegion(name, 8))
		require.ErrorIs(t, err, ErrSize, "%q", name)
	}
	_, err = s.Attach("nobody", false, false)
	require.ErrorIs(t, err, ErrName)
	require.ErrorIs(t, s.Remove("nobody"), ErrName)
	_, err = s.Stat("nobody")
	require.ErrorIs(t, err, ErrName)

	c, err := s.Create(oneRegion("half", 8))
	require.NoError(t, err)
	_, err = s.Attach("half", false, false)
	require.ErrorIs(t, err, ErrName, "a window that is being made cannot be attached to")
	require.ErrorIs(t, s.Remove("half"), ErrBusy)
	require.NoError(t, c.Abort())
	require.NoError(t, c.Abort())
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	requireSound(t, s)
}

func TestRequestsRefused(t *testing.T) {
	s := newTestStore(t, Config{})
	for name, req := range map[string]Request{
		"no file":       {Regions: []Region{{Unit: 1}}},
		"no region":     {Files: []uint64{8}},
		"unit 0":        {Files: []uint64{8}, Regions: []Region{{Size: 8}}},
		"other file":    {Files: []uint64{8}, Regions: []Region{{Size: 8, Unit: 1, File: 1}}},
		"beyond":        {Files: []uint64{8}, Regions: []Region{{Size: 8, Unit: 1, Offset: 1}}},
		"wraps":         {Files: []uint64{8}, Regions: []Region{{Size: 8, Unit: 1, Offset: math.MaxUint64 - 3}}},
		"file too long": {Files: []uint64{math.MaxUint64}, Regions: []Region{{Size: 8, Unit: 1}}},
		"mode":          {Mode: 0o1777, Files: []uint64{8}, Regions: []Region{{Size: 8, Unit: 1}}},
	} {
		_, err := s.Create(req)
		require.ErrorIs(t, err, ErrSize, name)
	}
	requireSound(t, s)
}

func TestRemoveWaitsForLastUser(t *testing.T) {
	dir := t.TempDir()
	var stores [3]*Store // each has its own file description, like a process
	var err error
	for i := range stores {
		stores[i], err = Open(dir, Config{})
		require.NoError(t, err)
	}
	h0, err := makeWindow(stores[0], oneRegion("w", 8192))
	require.NoError(t, err)
	h1, err := stores[1].Attach("w", false, false)
	require.NoError(t, err)
	h1b, err := stores[1].Attach("w", false, false)
	require.NoError(t, err)
	require.Same(t, h1, h1b, "one mapping per process")

	require.NoError(t, stores[2].Remove("w"))
	_, err = stores[2].Attach("w", false, false)
	require.ErrorIs(t, err, ErrName)
	ents, err := stores[2].List()
	require.NoError(t, err)
	require.Len(t, ents, 1)
	require.Equal(t, Deleting, ents[0].State)

	// The name is free again while the memory is not.
	other, err := makeWindow(stores[2], oneRegion("w", 10))
	require.NoError(t, err)

	h0.Region(0)[5] = 42
	require.Equal(t, byte(42), h1.Region(0)[5])
	require.NoError(t, h0.Release())
	require.NoError(t, h1.Release())
	require.Equal(t, byte(42), h1b.Region(0)[5])
	require.NoError(t, h1b.Release())
	ents, err = stores[0].List()
	require.NoError(t, err)
	require.Len(t, ents, 1)
	require.Equal(t, other.Entry().ID, ents[0].ID)
	require.Equal(t, other.Entry().ID, mustStat(stores[1], "w").ID, "the name is the other's")
	require.NoError(t, other.Release())
	requireSound(t, stores[0])
	for _, s := range stores {
		require.NoError(t, s.Close())
	}
}

func TestVolatileIsRemovedWithItsLastUser(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	req := oneRegion("v", 100)
	req.Volatile = true
	h, err := makeWindow(s, req)
	require.NoError(t, err)
	s2, err := Open(dir, Config{}) // recovery must not remove a window in use
	require.NoError(t, err)
	h2, err := s2.Attach("v", false, false)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	_, err = s.Stat("v")
	require.NoError(t, err)
	require.NoError(t, h2.Release())
	_, err = s.Stat("v")
	require.ErrorIs(t, err, ErrName)

	h, err = makeWindow(s, req)
	require.NoError(t, err)
	require.NoError(t, s.SetVolatile(h.Entry().ID, false))
	require.NoError(t, h.Release())
	h, err = s.Attach("v", false, false)
	require.NoError(t, err, "made persistent before the release")
	require.NoError(t, s.SetVolatile(h.Entry().ID, true))
	require.NoError(t, s.Close())
	require.NoError(t, h.Release(), "a release after Close still reclaims")
	_, err = s2.Stat("v")
	require.ErrorIs(t, err, ErrName)
	requireSound(t, s2)
	require.NoError(t, s2.Close())
}

func TestCapacity(t *testing.T) {
	s := newTestStore(t, Config{Capacity: 10 * headerSize})
	a, err := makeWindow(s, oneRegion("a", 5*headerSize)) // 6 pages
	require.NoError(t, err)
	_, err = makeWindow(s, oneRegion("b", 3*headerSize+1)) // 5 pages
	require.ErrorIs(t, err, ErrNoSpace)
	_, err = makeWindow(s, oneRegion("b", 1<<50))
	require.ErrorIs(t, err, ErrNoSpace)
	b, err := makeWindow(s, oneRegion("b", 3*headerSize)) // 4 pages: full
	require.NoError(t, err)
	_, err = makeWindow(s, oneRegion("c", 0))
	require.ErrorIs(t, err, ErrNoSpace)
	require.NoError(t, s.Remove("a"))
	_, err = makeWindow(s, oneRegion("c", 0))
	require.ErrorIs(t, err, ErrNoSpace, "it is still in use")
	require.NoError(t, a.Release())
	c, err := makeWindow(s, oneRegion("c", 5*headerSize))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	require.NoError(t, c.Release())
	requireSound(t, s)
}

func TestFileSizeLimitIsAnErrorNotASignal(t *testing.T) {
	s := newTestStore(t, Config{})
	var old unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1 << 26, Max: old.Max}))
	_, err := makeWindow(s, oneRegion("w", 2<<26))
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
	require.ErrorIs(t, err, ErrNoSpace)
	requireSound(t, s)
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Config{LockWait: time.Millisecond})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 3*headerSize))
	require.NoError(t, err)
	file := s.path(h.Entry().ID)
	require.NoError(t, h.Release())

	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	changedAt := func(at int) []byte {
		b := slices.Clone(whole)
		b[at] ^= 1
		return b
	}
	for name, damage := range map[string][]byte{
		"short": whole[:2*headerSize],
		"empty": {},
		"magic": changedAt(0),
		"id":    changedAt(offID),
	} {
		require.NoError(t, os.WriteFile(file, damage, 0o600))
		_, err = s.Attach("w", false, false)
		require.ErrorIs(t, err, ErrCorrupt, name)
	}
	require.NoError(t, os.Remove(file))
	_, err = s.Attach("w", false, false)
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoError(t, s.Remove("w"), "a damaged window can still be removed")
	requireSound(t, s)

	// Files with other names are left alone.
	alien := filepath.Join(dir, allocDir, "notes.txt")
	require.NoError(t, os.WriteFile(alien, nil, 0o600))
	s2, err := Open(dir, Config{})
	require.NoError(t, err)
	require.FileExists(t, alien)
	require.NoError(t, s2.Close())

	require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), []byte("not a database"), 0o600))
	_, err = Open(dir, Config{})
	require.ErrorIs(t, err, ErrCorrupt)
	require.NoError(t, s.Close())
}

// Any changed byte of an entry on the disk is detected. The entry is taken from the file, which is
// reported. If the file's header is damaged as well, Open returns ErrCorrupt, and the memory is
// left alone.
func TestDamagedEntryIsMended(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 100))
	require.NoError(t, err)
	encoded := h.Entry().Encode()
	segment := s.path(h.Entry().ID)
	require.NoError(t, h.Release())
	require.NoError(t, s.Close())

	meta := filepath.Join(dir, metaName)
	whole := readAll(t, meta)
	header := readAll(t, segment)
	// The newest stored version has this generation or the next one. The bytes before the
	// generation are the same.
	const same = 4 + 2 + 2
	mended, refused := 0, 0
	for at := 0; ; at++ {
		i := bytes.Index(whole[at:], encoded[:same])
		if i < 0 {
			break
		}
		at += i
		for off := 0; off < len(encoded); off += 7 {
			// A sample is enough; the test of the encoding checks all bytes.
			damaged := append([]byte{}, whole...)
			damaged[at+off] ^= 0x10
			require.NoError(t, os.WriteFile(meta, damaged, 0o600))
			require.NoError(t, os.WriteFile(segment, append([]byte("x"), header[1:]...), 0o600))
			if s, err := Open(dir, Config{}); err == nil {
				// An old version of the entry, on a page that is free now.
				require.NoError(t, s.Close())
				break
			}
			_, err := Open(dir, Config{})
			require.ErrorIs(t, err, ErrCorrupt, "byte %d", off)
			require.ErrorContains(t, err, "weft nam repair")
			refused++

			require.NoError(t, os.WriteFile(segment, header, 0o600))
			var said notices
			s, err := Open(dir, Config{Notice: said.add})
			require.NoError(t, err)
			require.Contains(t, said.String(), "is taken from its file")
			e, err := s.Stat("w")
			require.NoError(t, err)
			require.NoError(t, e.Problem)
			require.EqualValues(t, 100, e.Bytes())
			h, err := s.Attach("w", false, false)
			require.NoError(t, err)
			require.NoError(t, h.Release())
			require.NoError(t, s.Close())
			mended++
		}
	}
	require.Greater(t, mended, len(encoded)/7)
	require.Equal(t, mended, refused)
}

func TestLockWaitIsBounded(t *testing.T) {
	s := newTestStore(t, Config{LockWait: time.Millisecond})
	f, err := os.Open(filepath.Join(s.Dir(), lockName))
	require.NoError(t, err)
	ok, err := tryLock(f, true)
	require.NoError(t, err)
	require.True(t, ok)
	_, err = s.List()
	require.ErrorIs(t, err, ErrBusy)
	require.NoError(t, f.Close())
	_, err = s.List()
	require.NoError(t, err)
}

func TestExclusiveHammer(t *testing.T) {
	dir := t.TempDir()
	const users, rounds = 4, 200
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	h0, err := makeWindow(s, oneRegion("w", 64))
	require.NoError(t, err)
	var wg sync.WaitGroup
	for u := range users {
		wg.Go(func() {
			s, err := Open(dir, Config{})
			if err != nil {
				t.Error(err)
				return
			}
			h, err := s.Attach("w", false, false)
			if err != nil {
				t.Error(err)
				return
			}
			m := h.Region(0)
			for i := range rounds {
				if err := h.Exclusive(0, 3, 2, func() {
					n := int(m[3]) + int(m[4])<<8 + 1
					m[3], m[4] = byte(n), byte(n>>8)
				}); err != nil {
					t.Error(err)
				}
				mustRaise(h, uint64(u*rounds+i))
			}
			if err := errors.Join(h.Release(), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	m := h0.Region(0)
	require.Equal(t, users*rounds, int(m[3])+int(m[4])<<8)
	require.EqualValues(t, users*rounds-1, epochsOf(h0))
	require.NoError(t, h0.Release())
	require.NoError(t, s.Close())
}

// Create, attach, remove and list from several stores at once; at the end nothing is left.
func TestLifecycleHammer(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			s, err := Open(dir, Config{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 8 {
				req := oneRegion([]string{"x", "y"}[i%2], 100)
				req.Volatile = i%3 == 0
				h, err := makeWindow(s, req)
				if errors.Is(err, ErrExist) {
					h, err = s.Attach(req.Name, false, false)
				}
				if err != nil {
					if !errors.Is(err, ErrName) {
						t.Error(err)
					}
					continue
				}
				h.Region(0)[0]++
				if err := s.Remove(req.Name); err != nil && !errors.Is(err, ErrName) && !errors.Is(err, ErrBusy) {
					t.Error(err)
				}
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s, err := Open(dir, Config{})
	require.NoError(t, err)
	requireSound(t, s)
	require.NoError(t, s.Close())
}

func mustStat(s *Store, name string) Status {
	e, err := s.Stat(name)
	if err != nil {
		panic(err)
	}
	return e
}
