// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveClosedPipe makes a write to a pipe without a reader return an error. By default such a
// write ends the process, but the launcher must wait for its ranks. The result restores the
// default.
func surviveClosedPipe() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
