// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package wake

import "weft/bench/internal/harness"

// Workloads returns the workloads, in the order in which they are reported.
func Workloads() []harness.Workload {
	load := func(name, about string, ours harness.Peer) harness.Workload {
		return harness.Workload{
			Name: name, About: about, Unit: "ns",
			// After half a millisecond every thread that looks for work is asleep, Go's own threads
			// too.
			SizeOf: "µs asleep before", Sizes: []int64{500}, Quick: []int64{50},
			Goals: []harness.Goal{{Workers: 2, RivalWorkers: 2, Ratio: 1.5}},
			Peers: []harness.Peer{ours, peer("goroutine", false, goroutine), peer("syscall", false, syscall), peer("futex", true, futex)},
		}
	}
	return []harness.Workload{
		load("task/wake", "from Spawn to the task's first instruction on a slot that was parked", weft(spawn)),
		load("task/unblock", "from Unblock to the first instruction of the task that was blocked", weft(unblock)),
	}
}
