// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package launch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A directory that could not be removed is removed by the next launcher.
func TestDirectoryThatCannotBeRemoved(t *testing.T) {
	home, err := os.MkdirTemp("", "j")
	require.NoError(t, err)
	defer os.RemoveAll(home)
	dir, _, err := makeDir([]string{home}, nil)
	require.NoError(t, err)
	busy := filepath.Join(dir, "busy")
	require.NoError(t, os.Mkdir(busy, 0o700))
	if err := syscall.Mount("none", busy, "tmpfs", 0, "size=4k"); err != nil {
		require.NoError(t, Remove(dir))
		t.Skipf("nothing can be mounted here: %v", err)
	}
	err = Remove(dir)
	require.NoError(t, syscall.Unmount(busy, 0))
	require.ErrorIs(t, err, syscall.EBUSY)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(dir, old, old))
	sweep([]string{home})
	require.NoDirExists(t, dir)
}
