// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "weft/internal/launch"

// Launched says whether this process was started as one of the ranks of a job, by "weft run", and then as which of how
// many: what Main is going to run body as. A program asks if it has to know before, such as for its defaults. An error is
// an environment that makes no sense; Main returns it too.
func Launched() (rank, ranks int, ok bool, err error) {
	place, err := launch.Detect()
	if err != nil {
		return 0, 0, false, runError(err)
	}
	if place == nil {
		return 0, 0, false, nil
	}
	return place.Rank, place.Ranks, true, nil
}

// Local reports whether a rank of this communicator is in this process, so that its memory can be reached. It panics if
// there is no such rank.
func (c *Comm) Local(rank int) bool { return c.peers[rank] != nil }
