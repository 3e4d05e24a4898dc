// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"fmt"

	"weft/internal/fabric/mpi"
	"weft/internal/launch"
)

// Launched says whether this process was started as one of the ranks of a job, by "weft run", or by mpirun or srun in a build with
// MPI, and then as which of how many: what Main is going to run body as. A program asks if it has to know before, such as for its
// defaults. An error is an environment that makes no sense; Main returns it too. What only the MPI library knows (WEFT_MPI=1 without a
// launcher that tells) is not known here.
func Launched() (rank, ranks int, ok bool, err error) {
	place, err := launch.Detect()
	switch {
	case err != nil:
		return 0, 0, false, runError(err)
	case place != nil:
		return place.Rank, place.Ranks, true, nil
	}
	switch l, err := mpi.Detect(); {
	case err != nil:
		return 0, 0, false, runError(fmt.Errorf("%w: %w", ErrConfig, err))
	case l != nil && l.Needed() != nil:
		return 0, 0, false, runError(l.Needed())
	case l != nil && mpi.Built && !l.Alone() && l.Rank >= 0 && l.Size > 0:
		return l.Rank, l.Size, true, nil
	}
	return 0, 0, false, nil
}

// Local reports whether a rank of this communicator is in this process, so that its memory can be reached. It panics if
// there is no such rank.
func (c *Comm) Local(rank int) bool { return c.peers[rank] != nil }
