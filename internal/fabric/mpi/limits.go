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
	// EagerLimit is this fabric's Caps.EagerLimit, in bytes.
	EagerLimit = 8 << 10
	// MaxFrame is the largest payload of a frame in bytes.
	MaxFrame = 16 << 10
	// Linger bounds how long Close waits for MPI to send everything, and then how long Finalize
	// waits for the peers to close.
	Linger = 5 * time.Second
	// Gather bounds how long Open and Exchange, which all ranks call, wait for the other ranks to
	// close the previous endpoint.
	Gather = time.Minute
)

// Launched is the environment's information about an MPI launcher.
type Launched struct {
	By   string // the launcher's name; empty: only WEFT_MPI=1 says that there is one
	Rank int    // -1: unknown
	Size int    // -1: unknown
}

var caps = fabric.Caps{Kind: "mpi", EagerLimit: EagerLimit, MaxFrame: MaxFrame}

// Errors of this fabric.
var (
	// ErrAbsent is the error of a program that was built without MPI.
	ErrAbsent = errors.New("this program was built without MPI; build it with CC=mpicc and -tags mpi")
	// ErrLibrary is the error of a call that the MPI library reports as failed.
	ErrLibrary = errors.New("the MPI library reports an error")
	// ErrFrame is the error of a message that does not follow this fabric's protocol.
	ErrFrame = errors.New("bad message")
)

// Error is the error of an operation.
type Error struct {
	Op    string // "init", "send", "push", ...
	Rank  int    // the peer; -1: no particular one
	Class int    // MPI's error class; 0: not an error of the library
	Err   error
}

// Error returns the operation, the rank and the cause.
func (e *Error) Error() string {
	if e.Rank >= 0 {
		return fmt.Sprintf("mpi: %s, rank %d: %v", e.Op, e.Rank, e.Err)
	}
	return fmt.Sprintf("mpi: %s: %v", e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
