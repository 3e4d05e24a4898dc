// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// asUser runs fn as another user, on a thread that ends with fn.
func asUser(t *testing.T, uid, gid int, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread cannot be used by others
		var e syscall.Errno
		defer func() { done <- e }() // also if fn ends the goroutine
		_, _, e = unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
		if e == 0 {
			_, _, e = unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		}
		if e == 0 {
			fn()
		}
	}()
	require.Zero(t, <-done)
}

// A window is read and written as its mode says, by its owner, the owner's group and others. Only
// its owner removes and changes it. Root may do all.
func TestAccess(t *testing.T) {
	const owner, group, other = 1001, 2001, 3001
	for _, user := range []struct {
		name     string
		uid, gid int
		shift    int
	}{{"owner", owner, other, 6}, {"owner in its group", owner, group, 6}, {"group", other, group, 3}, {"other", other, other, 0}, {"root", 0, 0, -1}} {
		asUser(t, user.uid, user.gid, func() {
			for _, mode := range []fs.FileMode{0, 0o400, 0o200, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006, 0o642, 0o426, 0o264, 0o777, 0o111} {
				ent := &Entry{Name: "w", UID: owner, GID: group, Mode: mode}
				have := mode >> max(user.shift, 0)
				for _, row := range []struct {
					readOnly bool
					want     fs.FileMode
					verb     string
				}{{true, 4, "read"}, {false, 6, "written"}} {
					err := checkAccess(ent, row.readOnly)
					if user.shift < 0 || have&row.want == row.want {
						require.NoError(t, err, "%s, %o", user.name, mode)
						continue
					}
					require.ErrorIs(t, err, ErrAccess, "%s, %o", user.name, mode)
					require.ErrorContains(t, err, fmt.Sprintf("may not be %s by user %d", row.verb, user.uid))
				}
			}
			err := checkOwner(&Entry{Name: "w", UID: owner})
			if user.uid == owner || user.uid == 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrAccess)
				require.ErrorContains(t, err, `"w" belongs to user 1001, this is user 3001`)
			}
		})
	}
}

// A user can inspect the windows of another user, but cannot remove, change, restore or drop them.
func TestNotTheOwner(t *testing.T) {
	dir, ent, open := orphanStore(t)
	require.NoError(t, os.Chmod(dir, 0o777))
	s := open(Config{})
	h, err := makeWindow(s, Request{Name: "x", Mode: 0o666, Files: []uint64{8}, Regions: []Region{{Size: 8, Unit: 1}}})
	require.NoError(t, err)
	require.NoError(t, h.Release())
	require.NoError(t, filepath.Walk(dir, func(path string, _ fs.FileInfo, err error) error {
		return errors.Join(err, os.Chmod(path, 0o777)) // the entries decide
	}))
	asUser(t, 3001, 3001, func() {
		for name, err := range map[string]error{
			"remove": s.Remove("x"), "doom": s.Doom(h.entry.ID), "volatile": s.SetVolatile(h.entry.ID, true), "accept": s.Accept("x"), "drop": s.Drop("w"),
			"restore": func() error { _, err := s.Restore("w", ""); return err }(),
		} {
			require.ErrorIs(t, err, ErrAccess, name)
			require.ErrorContains(t, err, "belongs to user 0, this is user 3001", name)
		}
		require.NoError(t, s.Doom(ID{9}), "it is gone already")
		require.NoError(t, s.Reclaim(ID{9}))
		require.NoError(t, s.Reclaim(h.entry.ID), "there is nothing to reclaim")
	})
	require.Equal(t, ent.ID, oneAside(t, s).ID)
	e, err := s.Stat("x")
	require.NoError(t, err)
	require.False(t, e.Volatile)
	_, err = s.AttachID(ID{9}, true, false)
	require.ErrorIs(t, err, ErrName)
	require.ErrorIs(t, s.SetVolatile(ID{9}, true), ErrName)
}

// The table of names is compared with the entries, and errors in it are corrected from them.
func TestMendedNames(t *testing.T) {
	for name, row := range map[string]struct {
		damage func(tx *txn, a, b ID) error
		mended bool
	}{
		"nothing":     {func(*txn, ID, ID) error { return nil }, false},
		"a name lost": {func(tx *txn, _, _ ID) error { return tx.tx.Bucket(bucketNames).Delete([]byte("a")) }, true},
		"a name more": {func(tx *txn, a, _ ID) error { return tx.tx.Bucket(bucketNames).Put([]byte("c"), a[:]) }, true},
		"another's":   {func(tx *txn, a, _ ID) error { return tx.tx.Bucket(bucketNames).Put([]byte("b"), a[:]) }, true},
		"unknown id":  {func(tx *txn, _, _ ID) error { return tx.tx.Bucket(bucketNames).Put([]byte("b"), make([]byte, 16)) }, true},
		"a short id":  {func(tx *txn, _, _ ID) error { return tx.tx.Bucket(bucketNames).Put([]byte("b"), []byte("x")) }, true},
		"all names": {func(tx *txn, _, _ ID) error {
			return errors.Join(tx.tx.Bucket(bucketNames).Delete([]byte("a")), tx.tx.Bucket(bucketNames).Delete([]byte("b")))
		}, true},
		"two of a name": {func(tx *txn, _, b ID) error { return putNamed(tx, b, "a") }, false},
	} {
		dir := memDir(t)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		ids := map[string]ID{}
		for _, name := range []string{"a", "b"} {
			h, err := makeWindow(s, oneRegion(name, 8))
			require.NoError(t, err)
			ids[name] = h.entry.ID
			require.NoError(t, h.Release())
		}
		require.NoError(t, s.update(func(tx *txn) error {
			tx.dirty = true
			return row.damage(tx, ids["a"], ids["b"])
		}))
		require.NoError(t, s.Close())
		for again := range 2 {
			var said notices
			s, err = Open(dir, Config{Boot: testBoot, Notice: said.add})
			require.NoError(t, err, name)
			require.Equal(t, row.mended && again == 0, strings.Contains(said.String(), "the table of names in "+s.metaPath()+" is damaged and is taken from the entries"), name)
			require.NoError(t, s.view(func(tx *txn) error {
				names := map[string]ID{}
				err := tx.tx.Bucket(bucketNames).ForEach(func(k, v []byte) error { names[string(k)] = ID(v); return nil })
				want := ids
				if name == "two of a name" { // the present owner of the name keeps it
					want = map[string]ID{"a": ids["a"]}
				}
				require.Equal(t, want, names, name)
				return err
			}))
			require.NoError(t, s.Close())
		}
	}
}

// A damaged entry of a window in use is taken from the file. The file's flags say what happens when
// its last user leaves.
func TestMendedEntryOfAWindowInUse(t *testing.T) {
	for name, state := range map[string]State{"persistent": Ready, "volatile": Ready, "removed": Deleting} {
		dir := memDir(t)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		req := oneRegion("w", 8)
		req.Volatile = name == "volatile"
		h, err := makeWindow(s, req)
		require.NoError(t, err)
		id := h.entry.ID
		if name == "removed" {
			require.NoError(t, s.Remove("w"))
		}
		require.NoError(t, s.update(func(tx *txn) error {
			tx.dirty = true
			return tx.tx.Bucket(bucketEntries).Put(id[:], []byte("damaged"))
		}))
		var said notices
		other, err := Open(dir, Config{Boot: testBoot, Notice: said.add})
		require.NoError(t, err)
		require.Contains(t, said.String(), fmt.Sprintf(`the database entry of "w" (%v) is damaged and is taken from its file`, id))
		e, err := other.StatID(id)
		require.NoError(t, err)
		require.Equal(t, state, e.State, name)
		require.Equal(t, name == "volatile", e.Volatile, name)
		require.NoError(t, h.Release())
		_, err = other.StatID(id)
		require.Equal(t, name != "persistent", errors.Is(err, ErrName), "%s: %v", name, err)
		requireSound(t, other)
		require.NoError(t, other.Close())
		require.NoError(t, s.Close())
	}
}

// A damaged entry without a copy is named in the error, with the reason why there is no copy.
func TestEntriesWithoutACopy(t *testing.T) {
	for why, key := range map[string]func(files []File) []byte{
		"key of 3 bytes": func(files []File) []byte { return files[0].ID[:3] },
		// rank 0's file has the window's entry
		"its file has no entry":     func(files []File) []byte { return files[1].ID[:] },
		"no such file or directory": func([]File) []byte { return make([]byte, len(ID{})) },
	} {
		dir := makeWorld(t, nil)
		s, err := Open(dir, Config{Boot: testBoot})
		require.NoError(t, err)
		key := key(mustStat(s, "distributed0").Files)
		require.NoError(t, s.update(func(tx *txn) error {
			tx.dirty = true
			return tx.tx.Bucket(bucketEntries).Put(key, []byte("damaged"))
		}))
		require.NoError(t, s.Close())
		_, err = Open(dir, Config{Boot: testBoot})
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, fmt.Sprintf("database entry %x: ", key))
		require.ErrorContains(t, err, why)
	}
}

// putNamed stores an entry under another name, without the table of names.
func putNamed(tx *txn, id ID, name string) error {
	ent, err := tx.byID(id)
	if err != nil {
		return err
	}
	old := ent.Name
	ent.Name = name
	return errors.Join(tx.tx.Bucket(bucketEntries).Put(id[:], ent.Encode()), tx.tx.Bucket(bucketNames).Delete([]byte(old)))
}

// A removed window that is in use is not repaired: an Open meanwhile reports nothing, and the name
// is gone.
func TestRemovedAndInUse(t *testing.T) {
	dir := memDir(t)
	s, err := Open(dir, Config{Boot: testBoot})
	require.NoError(t, err)
	h, err := makeWindow(s, oneRegion("w", 8))
	require.NoError(t, err)
	id := h.entry.ID
	require.NoError(t, s.Remove("w"))
	var said notices
	other, err := Open(dir, Config{Boot: testBoot, Notice: said.add})
	require.NoError(t, err)
	require.Empty(t, said.String())
	_, err = other.Stat("w")
	require.ErrorIs(t, err, ErrName)
	e, err := other.StatID(id)
	require.NoError(t, err)
	require.Equal(t, Deleting, e.State)
	generation := e.Generation
	_, err = other.AttachID(id, false, false)
	require.ErrorIs(t, err, ErrName)
	require.ErrorContains(t, err, `"w" was removed`)
	err = other.SetVolatile(id, false)
	require.ErrorIs(t, err, ErrName)
	require.ErrorContains(t, err, `"w" was removed`)
	require.NoError(t, other.Reclaim(id), "it is in use")
	e, err = other.StatID(id)
	require.NoError(t, err)
	require.Equal(t, generation, e.Generation, "nothing was written")
	require.NoError(t, other.Doom(id), "twice")
	require.NoError(t, h.Release())
	require.PanicsWithValue(t, `store: release of window "w", which has 0 users`, func() { _ = h.Release() })
	requireSound(t, other)
	require.NoError(t, other.Close())
	require.NoError(t, s.Close())
}

// Each change of an entry is counted. A request has defaults.
func TestEntryOfARequest(t *testing.T) {
	before := time.Now()
	s := newTestStore(t, Config{})
	h, err := makeWindow(s, oneRegion("w", 8))
	require.NoError(t, err)
	e := mustStat(s, "w")
	require.EqualValues(t, 2, e.Generation, "filed, and ready")
	require.Equal(t, fs.FileMode(0o600), e.Mode)
	require.EqualValues(t, os.Geteuid(), e.UID)
	require.EqualValues(t, os.Getegid(), e.GID)
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("%s[%d]@%s", filepath.Base(os.Args[0]), os.Getpid(), host), e.Creator)
	require.False(t, e.Created.Before(before.Add(-time.Second)) || e.Created.After(time.Now().Add(time.Second)))
	for i, volatile := range []bool{true, false} {
		require.NoError(t, s.SetVolatile(h.entry.ID, volatile))
		e = mustStat(s, "w")
		require.Equal(t, volatile, e.Volatile)
		require.EqualValues(t, 3+i, e.Generation)
	}
	st, err := os.Stat(s.path(h.entry.ID))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), st.Mode().Perm())
	require.NoError(t, h.Release())
	for _, mode := range []fs.FileMode{0o1000, 0o1777, fs.ModeDir | 0o700} {
		req := oneRegion("x", 8)
		req.Mode = mode
		_, err = s.Create(req)
		require.ErrorIs(t, err, ErrSize)
		require.ErrorContains(t, err, "legal are permission bits, 0 to 0777")
	}
}
