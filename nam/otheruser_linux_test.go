// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/comm"
)

// DirForOthers returns a new directory that every user can reach, wherever that of the tests is.
func DirForOthers(t *testing.T) string {
	t.Helper()
	for _, base := range []string{os.TempDir(), "/tmp", "/dev/shm"} {
		open := true
		for at := base; open && at != "/"; at = filepath.Dir(at) {
			st, err := os.Stat(at)
			open = err == nil && st.Mode()&0o001 != 0
		}
		if !open {
			continue
		}
		if dir, err := os.MkdirTemp(base, "weft-nam-user-"); err == nil {
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
			require.NoError(t, os.Chmod(dir, 0o755))
			return dir
		}
	}
	t.Skip("no directory that other users can reach")
	return ""
}

// asOtherUser runs fn as a user without rights, on a thread that ends with fn.
func asOtherUser(t *testing.T, fn func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread cannot be used by others
		const nobody = 65534
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); e != 0 {
			done <- e
			return
		}
		done <- fn()
	}()
	return <-done
}

// A window that this user may not read is not called damaged. A window that is set aside has its
// size and time.
func TestWindowsOfAnotherUser(t *testing.T) {
	dir, empty := DirForOthers(t), t.TempDir()
	for _, d := range []string{dir, empty} {
		s, err := Open(d, Config{})
		require.NoError(t, err)
		if d == dir {
			require.NoError(t, comm.Run(t.Context(), comm.Config{Ranks: 1}, func(c *comm.Comm) error {
				w, err := s.Allocate(c, 64, 8, Persistent, Name("w"))
				return errors.Join(err, w.Free())
			}))
		}
		require.NoError(t, s.Close())
	}
	for path, mode := range map[string]fs.FileMode{".": 0o755, "alloc": 0o755, "lock": 0o644, "meta.db": 0o644} {
		require.NoError(t, os.Chmod(filepath.Join(dir, path), mode))
	}
	listAsOther := func(list func(*Store) ([]*Allocation, error)) (all []*Allocation) {
		t.Helper()
		require.NoError(t, asOtherUser(t, func() error {
			s, err := Open(dir, Config{ReadOnly: true})
			if err != nil {
				return err
			}
			all, err = list(s)
			return errors.Join(err, s.Close())
		}))
		require.Len(t, all, 1)
		require.Contains(t, all[0].Problem, "permission denied")
		return all
	}
	require.Equal(t, "ready", listAsOther((*Store).List)[0].State)

	older, err := os.ReadFile(filepath.Join(empty, "meta.db"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta.db"), older, 0o644))
	a := listAsOther((*Store).SetAside)[0]
	require.EqualValues(t, 8192, a.Footprint)
	require.WithinDuration(t, time.Now(), a.Created, time.Hour)
}
