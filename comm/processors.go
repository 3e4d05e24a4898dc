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
