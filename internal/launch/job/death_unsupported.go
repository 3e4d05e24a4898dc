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

// adoptOrphans does nothing: init reaps the processes.
func adoptOrphans() {}

// dying always returns false: failures are kept for a fixed time.
func dying(int) bool { return false }

// killMarked kills nothing: the janitor kills process groups only.
func killMarked(string) int { return 0 }
