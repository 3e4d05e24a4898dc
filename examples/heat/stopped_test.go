// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weft/examples/heat/internal/conf"
	"weft/nam"
)

// The machine stops in the middle of a run. With -nam-sync epoch, the complete snapshots can be
// viewed. With process, it is unknown whether they are on the disk; heat view says so until the
// user accepts them.
func TestMachineStopsDuringARun(t *testing.T) {
	for _, sync := range conf.Syncs {
		t.Run(sync, func(t *testing.T) {
			newTestDir(t)
			store, err := nam.Open("running", nam.Config{})
			require.NoError(t, err)
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), fmt.Sprintf("%s=-ranks 2 -size 64 -bs 32 -timesteps 400000 -nam-freq 100 -window w -nam-dir running -nam-sync %s", childEnv, sync))
			require.NoError(t, child.Start())
			defer func() { _ = child.Process.Kill() }()
			require.Eventually(t, func() bool {
				a, err := store.Stat("w")
				return err == nil && a.Epochs >= 6
			}, time.Minute, 5*time.Millisecond, "no third snapshot")
			require.NoError(t, os.CopyFS("stopped", os.DirFS("running")))
			require.NoError(t, child.Process.Kill())
			require.ErrorContains(t, child.Wait(), "killed")
			require.NoError(t, store.Close())

			// In a header of layout 2, the machine's run in which the window was in use is at byte
			// 56.
			files, err := filepath.Glob("stopped/alloc/*.seg")
			require.NoError(t, err)
			require.Len(t, files, 1)
			f, err := os.OpenFile(files[0], os.O_RDWR, 0)
			require.NoError(t, err)
			boot := make([]byte, 16)
			_, err = f.ReadAt(boot, 56)
			require.NoError(t, err)
			require.Equal(t, sync == conf.SyncEpoch, string(boot) == string(make([]byte, 16)), "a window that is forced to the disk has no mark")
			if sync != conf.SyncEpoch {
				_, err = f.WriteAt([]byte("that of last week"[:16]), 56)
				require.NoError(t, err)
			}
			require.NoError(t, f.Close())

			status, stdout, stderr := heatCommand("view -nam-dir stopped -window w -gif w.gif")
			if sync == conf.SyncEpoch {
				require.Equal(t, exitOK, status, stderr)
				require.Contains(t, stdout, "frames, one every 100 steps, from window w")
				return
			}
			require.Equal(t, exitFailed, status)
			require.Contains(t, stderr, "the machine has stopped before the window was on the disk")
			require.Contains(t, stderr, "can vouch for 0 of them")
			require.Contains(t, stderr, "weft nam accept")
			require.Equal(t, 1, strings.Count(stderr, "heat:"), stderr)
			store, err = nam.Open("stopped", nam.Config{})
			require.NoError(t, err)
			require.NoError(t, store.Accept("w"))
			require.NoError(t, store.Close())
			status, stdout, stderr = heatCommand("view -nam-dir stopped -gif w.gif")
			require.Equal(t, exitOK, status, stderr)
			require.Contains(t, stdout, "from window w")
		})
	}
}
