// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import "weft/internal/fabric"

// sketch is an endpoint that has properties, and nothing else.
type sketch struct{ fabric.Endpoint }

// Sketch returns an endpoint of which only Caps and Close may be called: MPI cannot be tried where no launcher has
// started the program, and can be started once only.
func Sketch() (fabric.Endpoint, error) {
	if !Built {
		return nil, ErrAbsent
	}
	return sketch{}, nil
}

func (sketch) Caps(int) fabric.Caps { return caps }
func (sketch) Close() error         { return nil }

var caps = fabric.Caps{Kind: "mpi", EagerLimit: EagerLimit, MaxFrame: MaxFrame}
