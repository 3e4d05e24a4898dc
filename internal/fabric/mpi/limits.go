// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mpi

import (
	"time"
)

// Limits and times.
const (
	// EagerLimit is the advice of this fabric in bytes.
	EagerLimit = 8 << 10
	// MaxFrame is the largest payload of a frame in bytes.
	MaxFrame = 16 << 10
	// Linger bounds how long Close waits for what is under way, and then for the peers to close.
	Linger = 5 * time.Second
	// Gather bounds how long Open and Exchange, for which all ranks come together, wait for the ranks to close what was open before.
	Gather = time.Minute
)

// Launched is what the environment tells of an MPI launcher.
type Launched struct {
	By   string // who has started this process; empty: WEFT_MPI=1 says that somebody has
	Rank int    // -1: not told
	Size int    // -1: not told
}
