// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"weft/internal/fabric"
	"weft/internal/fabric/shm"
	"weft/internal/launch"
)

const shmName = "shm"

// EnvSingleCopy is the environment variable that says from how many bytes on a message between two processes of a node is copied once, by the kernel.
const EnvSingleCopy = "WEFT_SINGLE_COPY"

// DefaultSingleCopy is its default.
const DefaultSingleCopy = shm.DefaultSingleCopy

// singleCopy reads EnvSingleCopy.
func singleCopy(text string) (int, error) {
	switch text {
	case "":
		return 0, nil
	case "never":
		return -1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%w: %s=%q; it is a number of bytes, at least 1, or never", ErrConfig, EnvSingleCopy, text)
	}
	return n, nil
}

var shmProvider = provider{
	name: shmName, connects: "processes of one node",
	open: func(m *meeting) (opened, error) {
		single, err := singleCopy(os.Getenv(EnvSingleCopy))
		if err != nil {
			return opened{}, err
		}
		var peers []launch.Peer
		ep, err := shm.New(shm.Config{
			Rank: m.rank, Size: m.size, SingleCopy: single,
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
				ep.Crowd(all[m.rank].LocalSize, nodeProcessors(all, m.rank))
				return ep, nil
			},
			drop: ep.Close,
		}, nil
	},
	trial: func() (fabric.Endpoint, error) { return shm.New(shm.Config{Size: 1}) },
}
