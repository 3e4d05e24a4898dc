// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package task_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/task"
)

// Bodies on all slots that block in a system call are reported, too.
func TestBlockedSlotsInSystemCalls(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	fd := int(r.Fd()) // and so it blocks the thread
	text := blocks(t, task.Config{Workers: 1}, newReports(), func() {
		var b [1]byte
		_, _ = syscall.Read(fd, b[:])
	}, func() { w.Close() })
	require.Contains(t, text, "[syscall")
}
