// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package job

import (
	"os"
	"syscall"
)

// dieWithParent does nothing: the janitor kills the ranks.
func dieWithParent(*syscall.SysProcAttr) {}

func self() (string, error) { return os.Executable() }

// adoptOrphans does nothing: init takes notice.
func adoptOrphans() {}

// dying knows nothing: failures wait for each other for a fixed time.
func dying(int) bool { return false }

// killMarked kills nothing: the groups have to do.
func killMarked(string) int { return 0 }
