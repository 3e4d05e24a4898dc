//go:build !mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

// Built reports whether this build has MPI.
const Built = false

// Version returns the empty string, since there is no MPI library.
func Version() string { return "" }

// Process is a placeholder for builds without MPI.
type Process struct{ Rank, Size int }

// Start returns ErrAbsent.
func Start(*Launched) (*Process, error) { return nil, &Error{Op: "init", Rank: -1, Err: ErrAbsent} }

// Exchange returns ErrAbsent.
func (*Process) Exchange([]byte) ([][]byte, error) {
	return nil, &Error{Op: "exchange", Rank: -1, Err: ErrAbsent}
}

// Open returns ErrAbsent.
func (*Process) Open([]int) (fabric.Endpoint, error) {
	return nil, &Error{Op: "open", Rank: -1, Err: ErrAbsent}
}

// Finalize returns ErrAbsent.
func (*Process) Finalize() error { return &Error{Op: "finalize", Rank: -1, Err: ErrAbsent} }
