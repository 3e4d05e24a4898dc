// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"weft/internal/launch"
	"weft/internal/launch/bind"
)

// processorsName is what a rank's processors are among what ranks say of themselves before they talk.
const processorsName = "processors"

// ownProcessors says which processors this process may use, nil if it does not know. A launcher may have bound it to a part of the machine.
func ownProcessors() []byte {
	s, err := bind.Allowed()
	if err != nil || len(s.String()) > launch.MaxAddr {
		return nil
	}
	return []byte(s.String())
}

// nodeProcessors returns how many processors the ranks of a rank's node may use together; 0 if one of them does not say.
func nodeProcessors(peers []launch.Peer, rank int) int {
	all := map[int]bool{}
	for i := range peers {
		if peers[i].Node != peers[rank].Node {
			continue
		}
		s, err := bind.ParseSet(string(peers[i].Addrs[processorsName]))
		if err != nil {
			return 0
		}
		for _, cpu := range s {
			all[cpu] = true
		}
	}
	return len(all)
}

// Launched says whether this process was started as one of the ranks of a job, by "weft run", or by mpirun or srun in a build with
// MPI, and then as which of how many: what Main is going to run body as. A program asks if it has to know before, such as for its
// defaults. An error is an environment that makes no sense; Main returns it too. Where only the MPI library knows (WEFT_MPI=1 without a
// launcher that tells), it begins MPI, and Main has to follow.
func Launched() (rank, ranks int, ok bool, err error) {
	place, err := launch.Detect()
	switch {
	case err != nil:
		return 0, 0, false, runError(err)
	case place != nil:
		return place.Rank, place.Ranks, true, nil
	}
	return launchedByMPI()
}

// Local reports whether a rank of this communicator is in this process, so that its memory can be reached. It panics if
// there is no such rank.
func (c *Comm) Local(rank int) bool { return c.peers[rank] != nil }
