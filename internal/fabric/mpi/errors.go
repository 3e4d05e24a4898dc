// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"errors"
	"fmt"
)

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
