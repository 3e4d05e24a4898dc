// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"errors"
	"fmt"
	"time"

	"weft/internal/fabric"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes.
	EagerLimit = 8 << 10
	// MaxFrame is the largest payload of a frame in bytes.
	MaxFrame = 16 << 10
	// Linger bounds how long Close waits for what is under way, and then for the peers to close.
	Linger = 5 * time.Second
	// Gather bounds how long Open and Exchange, for which all ranks come together, wait for the
	// ranks to close what was open before.
	Gather = time.Minute
)

// Launched is what the environment tells of an MPI launcher.
type Launched struct {
	By   string // who has started this process; empty: WEFT_MPI=1 says that somebody has
	Rank int    // -1: not told
	Size int    // -1: not told
}

var caps = fabric.Caps{Kind: "mpi", EagerLimit: EagerLimit, MaxFrame: MaxFrame}

// Errors of this fabric.
var (
	// ErrAbsent is the error of a program that was built without MPI.
	ErrAbsent = errors.New("this program was built without MPI; build it with CC=mpicc and -tags mpi")
	// ErrLibrary is what the MPI library reports.
	ErrLibrary = errors.New("the MPI library reports an error")
	// ErrFrame is the error of a message that is none of this fabric's.
	ErrFrame = errors.New("bad message")
)

// Error is the error of an operation.
type Error struct {
	Op    string // "init", "send", "push", ...
	Rank  int    // the peer; -1: none in particular
	Class int    // MPI's error class; 0: it is no error of the library
	Err   error
}

// Error says what failed.
func (e *Error) Error() string {
	if e.Rank >= 0 {
		return fmt.Sprintf("mpi: %s, rank %d: %v", e.Op, e.Rank, e.Err)
	}
	return fmt.Sprintf("mpi: %s: %v", e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
