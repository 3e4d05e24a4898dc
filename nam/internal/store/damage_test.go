// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever happens to a region of the database, no window is lost: the store opens, or is repaired,
// and windows that are set aside come back whole.
func TestDamagedDatabaseLosesNothing(t *testing.T) {
	dir := makeWorld(t, nil)
	damageFile(t, filepath.Join(dir, metaName), changeBytes(61), func(what string) {
		c := copyStore(t, dir)
		s := openDamaged(t, c, what)
		requireWhole(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(c))
	})
}

func TestCutDatabaseLosesNothing(t *testing.T) {
	dir := makeWorld(t, nil)
	cut := func(whole []byte, yield func(string, []byte)) {
		for n := 0; n < len(whole); n += 2048 {
			yield(fmt.Sprintf("cut to %d bytes", n), whole[:n])
		}
		yield("no database", []byte("not a database"))
		yield("zeros", make([]byte, len(whole)))
	}
	damageFile(t, filepath.Join(dir, metaName), cut, func(what string) {
		c := copyStore(t, dir)
		_, err := Open(c, Config{Boot: testBoot})
		if err != nil {
			require.ErrorIs(t, err, ErrCorrupt, what)
			require.ErrorContains(t, err, "weft nam repair", what)
		}
		s := openDamaged(t, c, what)
		requireWhole(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(c))
	})
}

// The database has two meta pages. With one damaged, the store opens, is completed from the files,
// and reports it; the next transaction rewrites the page. With both damaged, Open returns
// ErrCorrupt.
func TestDamagedMetaPages(t *testing.T) {
	dir := makeWorld(t, nil)
	size := os.Getpagesize()
	for pages, wants := range map[string]string{"0": "", "1": "", "01": "ErrCorrupt"} {
		c := copyStore(t, dir)
		meta := filepath.Join(c, metaName)
		b := readAll(t, meta)
		for _, p := range pages {
			b[int(p-'0')*size+boltPage+20] ^= 1
		}
		require.NoError(t, os.WriteFile(meta, b, 0o600))
		var said notices
		s, err := Open(c, Config{Boot: testBoot, Notice: said.add})
		if wants != "" {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Empty(t, said.String())
			requireWhole(t, openDamaged(t, c, "both"))
			continue
		}
		require.NoError(t, err)
		require.Contains(t, said.String(), "one of its two meta pages is damaged")
		requireWhole(t, s)
		requireSound(t, s)
		require.NoError(t, s.Close())
		said = notices{}
		s, err = Open(c, Config{Boot: testBoot, Notice: said.add})
		require.NoError(t, err)
		require.Empty(t, said.String(), "it is mended")
		require.NoError(t, s.Close())
	}
}

// A program does not repair a store of a newer layout.
func TestRepairOfANewerStore(t *testing.T) {
	dir := makeWorld(t, nil)
	meta := filepath.Join(dir, metaName)
	require.NoError(t, os.WriteFile(meta, []byte("damaged"), 0o600))
	for file := range segments(t, dir) {
		f, err := os.OpenFile(filepath.Join(dir, allocDir, file), os.O_RDWR, 0)
		require.NoError(t, err)
		_, err = f.WriteAt(append([]byte("WEFTNAM3"), flagsBytes(3)...), 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	before := segments(t, dir)
	_, err := Repair(dir, Config{})
	require.ErrorIs(t, err, ErrVersion)
	require.Equal(t, "damaged", string(readAll(t, meta)))
	require.Equal(t, before, segments(t, dir))
}

// A new store opens with either meta page damaged.
func TestDamagedMetaPageOfANewStore(t *testing.T) {
	for page := range 2 {
		dir := memDir(t)
		s, err := Open(dir, Config{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		b := readAll(t, filepath.Join(dir, metaName))
		b[page*os.Getpagesize()+boltPage+20] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), b, 0o600))
		s, err = Open(dir, Config{})
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
}

// A lost database is not replaced by an empty one.
func TestLostDatabase(t *testing.T) {
	dir := makeWorld(t, nil)
	require.NoError(t, os.Remove(filepath.Join(dir, metaName)))
	before := segments(t, dir)
	for _, cfg := range []Config{{}, {MustExist: true}, {ReadOnly: true}} {
		_, err := Open(dir, cfg)
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "7 windows can be brought back from the files")
		require.Equal(t, before, segments(t, dir))
		require.NoFileExists(t, filepath.Join(dir, metaName))
	}
	s := openDamaged(t, dir, "lost")
	requireWhole(t, s)
	requireSound(t, s)
	require.NoError(t, s.Close())
	ents, err := Repair(dir, Config{})
	require.NoError(t, err)
	require.Nil(t, ents, "nothing is to be repaired")
}

// If the database or the lock is replaced by something other than a regular file, Open refuses it
// and does not block.
func TestNoFileInPlaceOfTheDatabase(t *testing.T) {
	for _, name := range []string{metaName, lockName} {
		for kind, put := range map[string]func(path string) error{
			"pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
			"directory": func(path string) error { return os.Mkdir(path, 0o700) },
			"link":      func(path string) error { return os.Symlink("elsewhere", path) },
		} {
			dir := makeWorld(t, nil)
			before := segments(t, dir)
			require.NoError(t, os.Remove(filepath.Join(dir, name)))
			require.NoError(t, put(filepath.Join(dir, name)))
			for _, cfg := range []Config{{}, {ReadOnly: true}} {
				_, err := Open(dir, cfg)
				require.Error(t, err, "%s %s", kind, name)
				if name == metaName {
					require.ErrorIs(t, err, ErrCorrupt, kind)
				}
			}
			require.Equal(t, before, segments(t, dir))
			if name == metaName {
				s := openDamaged(t, dir, kind) // as the error says
				requireWhole(t, s)
				require.NoError(t, s.Close())
			}
		}
	}
}

// The database of an earlier moment is put back. Windows made since then are set aside and can be
// restored; windows removed since then are reported as damaged; no existing file is removed.
func TestOlderDatabase(t *testing.T) {
	dir := memDir(t)
	older := map[string][]byte{}
	n := 0
	s, err := Open(dir, Config{Boot: testBoot, Step: func(step string) {
		b, err := os.ReadFile(filepath.Join(dir, metaName))
		if err == nil {
			older[fmt.Sprintf("%d, at %s", n, step)] = b
			n++
		}
	}})
	require.NoError(t, err)
	for _, w := range worldWindows() {
		req := w.req
		req.Volatile = len(req.Name)%2 == 0 // some are volatile at first
		h, err := makeWindow(s, req)
		require.NoError(t, err)
		for r := range req.Regions {
			m := h.Region(r)
			for i := range m {
				m[i] = worldByte(req.Name, r, i)
			}
		}
		mustRaise(h, w.epochs)
		require.NoError(t, s.SetVolatile(h.Entry().ID, false))
		require.NoError(t, h.Release())
	}
	gone, err := makeWindow(s, oneRegion("gone", 10))
	require.NoError(t, err)
	require.NoError(t, gone.Release())
	require.NoError(t, s.Remove("gone"))
	require.NoError(t, s.Close())
	s.cfg.Step = nil
	require.Greater(t, len(older), 60)

	for what, b := range older {
		c := copyStore(t, dir)
		require.NoError(t, os.WriteFile(filepath.Join(c, metaName), b, 0o600))
		s := openDamaged(t, c, what)
		requireWhole(t, s)
		if e, err := s.Stat("gone"); err == nil {
			require.ErrorIs(t, e.Problem, ErrLost, what)
			require.NoError(t, s.Remove("gone"), what)
		}
		requireSound(t, s)
		require.NoError(t, s.Close())
		require.NoError(t, os.RemoveAll(c))
	}
}

// A header is damaged while the entry is whole: Attach returns the window's data or an error, and
// nothing is removed. If the entry is lost as well, the file is set aside until it is dropped.
func TestDamagedHeaders(t *testing.T) {
	// passes reports whether a count in a header passes its check although byte at has changed: the
	// checksum has only 16 bits.
	passes := func(b []byte, at int) bool {
		var id ID
		copy(id[:], b[offID:])
		return slices.ContainsFunc([]int{offEpochs, offVouched}, func(off int) bool {
			_, ok := unpackCount(binary.NativeEndian.Uint64(b[off:]), id)
			return ok && (at >= off && at < off+8 || at >= offID && at < offID+len(id))
		})
	}
	dir := makeWorld(t, nil)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	windows := map[string]worldWindow{}
	for _, w := range worldWindows() {
		e, err := s.Stat(w.req.Name)
		require.NoError(t, err)
		windows[e.ID.String()+suffix] = w
	}
	require.NoError(t, s.Close())
	for file, w := range windows {
		if w.req.SyncEpoch {
			continue // the same bytes
		}
		path := filepath.Join(dir, allocDir, file)
		damages := func(whole []byte, yield func(string, []byte)) {
			b := append([]byte{}, whole...)
			for at := range 128 { // the words, and the start of the entry
				if at >= 108 && at < 124 {
					continue
				}
				b[at] ^= 0x81
				if !passes(b, at) {
					yield(fmt.Sprintf("%s: byte %d", w.req.Name, at), b)
				}
				b[at] = whole[at]
			}
			for _, at := range []int{inlineAt, inlineAt + 40, len(whole) - 4096} {
				b[at] ^= 0x81
				if at < headerSize || w.req.Name == "many" {
					yield(fmt.Sprintf("%s: byte %d", w.req.Name, at), b)
				}
				b[at] = whole[at]
			}
			clear(b[:headerSize])
			yield(w.req.Name+": no header", b)
			yield(w.req.Name+": cut in the header", whole[:100])
		}
		damageFile(t, path, damages, func(what string) {
			before := segments(t, dir)
			s, err := Open(dir, Config{Boot: testBoot})
			require.NoError(t, err, what)
			requireWhole(t, s, w.req.Name)
			if err := w.whole(s); err != nil {
				_, aerr := s.Attach(w.req.Name, false, false)
				if aerr == nil {
					// A flag, or the mark of a clean file, has changed; neither is data.
					require.ErrorContains(t, err, "has become", what)
				}
			}
			require.NoError(t, s.Close())
			require.Equal(t, before, segments(t, dir), "%s: removed", what)
		})
		// Without any entry.
		meta := readAll(t, filepath.Join(dir, metaName))
		damageFile(t, path, damages, func(what string) {
			require.NoError(t, os.Remove(filepath.Join(dir, metaName)))
			before := segments(t, dir)
			_, err := Repair(dir, Config{Boot: testBoot})
			require.NoError(t, err, what)
			s, err := Open(dir, Config{Boot: testBoot})
			require.NoError(t, err, what)
			requireWhole(t, s, w.req.Name)
			require.Equal(t, before, segments(t, dir), "%s: removed", what)
			if _, err := s.Stat(w.req.Name); err != nil {
				asides, err := s.SetAside()
				require.NoError(t, err)
				require.NotEmpty(t, asides, what)
				for _, a := range asides {
					require.Error(t, a.Problem, what)
				}
			}
			require.NoError(t, s.Close())
		})
		require.NoError(t, os.WriteFile(filepath.Join(dir, metaName), meta, 0o600))
	}
	s, err = Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	requireWhole(t, s)
	require.NoError(t, s.Close())
}

// An entry that is damaged, or stored under another window's ID, is ErrCorrupt for every call that
// needs it. No other window is affected.
func TestDamagedEntryIsNamed(t *testing.T) {
	for name, damage := range map[string]func(tx *txn, id, other ID) error{
		"a bit": func(tx *txn, id, _ ID) error {
			b := bytes.Clone(tx.tx.Bucket(bucketEntries).Get(id[:]))
			b[len(b)/2] ^= 4
			return tx.tx.Bucket(bucketEntries).Put(id[:], b)
		},
		"cut off": func(tx *txn, id, _ ID) error {
			b := bytes.Clone(tx.tx.Bucket(bucketEntries).Get(id[:]))
			return tx.tx.Bucket(bucketEntries).Put(id[:], b[:len(b)-1])
		},
		"another's": func(tx *txn, id, other ID) error {
			return tx.tx.Bucket(bucketEntries).Put(id[:], bytes.Clone(tx.tx.Bucket(bucketEntries).Get(other[:])))
		},
		"a short id": func(tx *txn, id, _ ID) error {
			return tx.tx.Bucket(bucketNames).Put([]byte("bad"), id[:3])
		},
	} {
		s := newTestStore(t, Config{})
		ids := map[string]ID{}
		for _, name := range []string{"bad", "good", "aside"} {
			h, err := makeWindow(s, oneRegion(name, 64))
			require.NoError(t, err)
			ids[name] = h.entry.ID
			require.NoError(t, h.Release())
		}
		require.NoError(t, s.update(func(tx *txn) error {
			tx.dirty = true
			aside := ids["aside"] // its file has no entry
			return errors.Join(damage(tx, ids["bad"], ids["good"]),
				tx.tx.Bucket(bucketNames).Delete([]byte("aside")), tx.tx.Bucket(bucketEntries).Delete(aside[:]))
		}))
		_, err := s.Stat("bad")
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.ErrorContains(t, err, map[string]string{"a bit": "metadata entry: checksum", "cut off": "metadata entry: checksum", "another's": "is filed under",
			"a short id": `name "bad" leads to an id of 3 bytes`}[name])
		if name != "a short id" {
			_, err = s.StatID(ids["bad"])
			require.ErrorIs(t, err, ErrCorrupt, name)
		}
		_, err = s.List()
		require.Equal(t, name != "a short id", errors.Is(err, ErrCorrupt), "%s: %v", name, err)
		_, err = s.Attach("bad", false, false)
		require.ErrorIs(t, err, ErrCorrupt, name)
		require.ErrorIs(t, s.Remove("bad"), ErrCorrupt, name)
		_, err = s.Create(oneRegion("bad", 64))
		require.ErrorIs(t, err, ErrCorrupt, name)
		_, err = s.Restore("aside", "bad")
		require.ErrorIs(t, err, ErrCorrupt, name)
		h, err := s.Attach("good", false, false)
		require.NoError(t, err, name)
		require.NoError(t, h.Release())
	}
}
