// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"

	"weft/internal/fabric"
	"weft/internal/fabric/shm"
	"weft/internal/launch"
)

const shmName = "shm"

var shmProvider = provider{
	name: shmName, connects: "processes of one node",
	open: func(m *meeting) (opened, error) {
		var peers []launch.Peer
		ep, err := shm.New(shm.Config{
			Rank: m.rank, Size: m.size,
			Lookup: func(rank int) (string, error) {
				addr, err := addrOf(peers, rank, shmName)
				return string(addr), err
			},
		})
		if err != nil {
			return opened{}, err
		}
		return opened{
			addr: []byte(ep.Addr()),
			use: func(_ context.Context, all []launch.Peer, mine []int) (fabric.Endpoint, error) {
				peers = all
				ep.Crowd(all[m.rank].LocalSize)
				return ep, nil
			},
			drop: ep.Close,
		}, nil
	},
	trial: func() (fabric.Endpoint, error) { return shm.New(shm.Config{Size: 1}) },
}
