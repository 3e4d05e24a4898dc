// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Windows in a read-only store can be viewed. A run that would write to it reports an error before
// it begins.
func TestStoreThatCannotBeWritten(t *testing.T) {
	newTestDir(t)
	status, _, stderr := heatCommand("-size 40 -bs 10 -t 4 -nam-freq 2 -nam-dir kept -window w")
	require.Equal(t, exitOK, status, stderr)
	require.NoError(t, os.Mkdir("read", 0o700))
	if err := syscall.Mount("kept", "read", "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	defer func() { require.NoError(t, syscall.Unmount("read", 0)) }()
	require.NoError(t, syscall.Mount("", "read", "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	status, stdout, stderr := heatCommand("view -nam-dir read")
	require.Equal(t, exitOK, status, stderr)
	require.Contains(t, stdout, "3 frames, one every 2 steps, from window w")
	status, _, stderr = heatCommand("-size 40 -bs 10 -t 4 -nam-freq 2 -nam-dir read")
	require.Equal(t, exitUsage, status)
	require.Contains(t, stderr, "no snapshots can be written to")
	require.Contains(t, stderr, "read-only file system")
}
