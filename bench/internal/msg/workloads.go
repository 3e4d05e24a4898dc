// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package msg

import "weft/bench/internal/harness"

// Workloads returns the message workloads.
func Workloads() []harness.Workload {
	return []harness.Workload{{
		Name:   "msg/pingpong",
		About:  "half a round trip between two ranks of one process",
		Unit:   "ns",
		SizeOf: "bytes",
		Sizes:  []int64{8, 64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20},
		Quick:  []int64{8, 64 << 10},
		Ranks:  []int{2},
		Peers: []harness.Peer{
			peer(harness.Ours, weft),
			peer("channels", channels),
			peer("copy", plainCopy),
		},
	}}
}
