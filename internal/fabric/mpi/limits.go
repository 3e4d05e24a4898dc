// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"fmt"
	"os"
	"time"

	"weft/internal/fabric"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes.
	EagerLimit = 8 << 10
	// MaxFrame is the largest payload of a frame in bytes.
	MaxFrame = 16 << 10
	// DefaultSleep is the longest time that the watch sleeps, unless WEFT_MPI_SLEEP says something else.
	DefaultSleep = 8 * time.Millisecond
	// Linger bounds how long Close waits for what is under way, and then for the peers to close.
	Linger = 5 * time.Second

	version   = 1
	headSize  = 8 * fabric.HeadWords
	frameSize = headSize + MaxFrame
	slots     = 64 // receives of frames that are posted

	maxSleep = time.Second

	maxShare, maxShares = 1 << 16, 1 << 30 // bytes of an exchange
)

// The tags of messages on the frames' communicator.
const (
	kindFrame = 1 + iota // a frame: head, data
	kindBye              // nothing comes behind this
	kindTag              // the transfer of a key has another tag: head with key and tag
)

// longestSleep returns the bound of the watch's sleep.
func longestSleep() (time.Duration, error) {
	text := os.Getenv(EnvSleep)
	if text == "" {
		return DefaultSleep, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxSleep {
		return 0, fmt.Errorf("%s=%q; it is a time from 0s (never sleep) to %v, such as 8ms", EnvSleep, text, maxSleep)
	}
	return d, nil
}

// CheckSleep says what is wrong with a value of WEFT_MPI_SLEEP.
func CheckSleep(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > maxSleep {
		return fmt.Errorf("%s=%q; it is a time from 0s (never sleep) to %v, such as 8ms", EnvSleep, text, maxSleep)
	}
	return nil
}
