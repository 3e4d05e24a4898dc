//go:build unix

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time that this process has used so far.
func ProcessorTime() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
