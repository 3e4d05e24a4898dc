//go:build !mpi

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

// Built says whether this build has MPI.
const Built = false

// Version returns the MPI library's name and version; there is none.
func Version() string { return "" }

// Process is this process as MPI knows it.
type Process struct{ Rank, Size int }

// Start makes this process known to MPI.
func Start(*Launched) (*Process, error) { return nil, &Error{Op: "init", Rank: -1, Err: ErrAbsent} }

// Exchange gives all processes what each has to say.
func (*Process) Exchange([]byte) ([][]byte, error) {
	return nil, &Error{Op: "exchange", Rank: -1, Err: ErrAbsent}
}

// Open connects ranks of the MPI world.
func (*Process) Open([]int) (fabric.Endpoint, error) {
	return nil, &Error{Op: "open", Rank: -1, Err: ErrAbsent}
}

// Finalize ends MPI.
func (*Process) Finalize() error { return &Error{Op: "finalize", Rank: -1, Err: ErrAbsent} }
