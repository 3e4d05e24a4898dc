// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"os"
	"time"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes.
	EagerLimit = 8 << 10
	// MaxFrame is the largest payload of a frame in bytes.
	MaxFrame = 16 << 10
	// DefaultSleep is the longest time that the watch sleeps, unless WEFT_MPI_SLEEP says something else.
	DefaultSleep = 16 * time.Millisecond
	// Linger bounds how long Close waits for what is under way, and then for the peers to close.
	Linger = 5 * time.Second
	// Gather bounds how long Open and Exchange, for which all ranks come together, wait for the ranks to close what was open before.
	Gather = time.Minute

	maxSleep = time.Second
)

// longestSleep returns the bound of the watch's sleep.
func longestSleep() (time.Duration, error) {
	text := os.Getenv(EnvSleep)
	if text == "" {
		return DefaultSleep, nil
	}
	if err := CheckSleep(text); err != nil {
		return 0, err
	}
	return time.ParseDuration(text)
}

// CheckSleep says what is wrong with a value of WEFT_MPI_SLEEP.
func CheckSleep(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxSleep {
		return fmt.Errorf("%s=%q; it is a time from 0s (never sleep) to %v, such as 16ms", EnvSleep, text, maxSleep)
	}
	return nil
}
