// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "errors"

// Abort ends the run for all ranks because of err, as if this rank's body had returned it (MPI_Abort): pending
// operations complete with ErrAborted, later ones fail with it, and Run returns err as a *RankError when the bodies
// have come to their end. The first reason counts. Any goroutine may call it.
func (c *Comm) Abort(err error) {
	if err == nil {
		err = errors.New("aborted without a reason")
	}
	c.world.end(&RankError{Rank: c.proc.rank, Err: err})
}
