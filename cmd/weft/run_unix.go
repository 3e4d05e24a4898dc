// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// surviveClosedPipe makes a write to a pipe that nobody reads an error, where it would end the
// process: there are ranks to be seen to their end. It returns the function that ends that.
func surviveClosedPipe() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}
