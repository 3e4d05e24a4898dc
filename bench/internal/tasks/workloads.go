// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import "weft/bench/internal/harness"

// Workloads returns the task workloads, in the order in which they are reported.
func Workloads(gomp *Libgomp) []harness.Workload {
	const million = 1_000_000
	chain := func(size int64) *chains { return newChains(size, 1) }
	chains64 := func(size int64) *chains { return newChains(size, 64) }
	loads := []harness.Workload{{
		Name:   "task/independent",
		About:  "tasks without accesses, made by one task",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{2000},
		Peers: []harness.Peer{
			weft(newIndependent, (*independent).weft),
			plain("goroutines", newIndependent, (*independent).goroutines),
			plain("sequential", newIndependent, (*independent).sequential),
		},
	}, {
		Name:   "task/chain",
		About:  "one chain: every task has the same inout",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{2000},
		Peers: []harness.Peer{
			weft(chain, (*chains).weft),
			plain("channels", chain, (*chains).channels),
			plain("sequential", chain, (*chains).sequential),
		},
	}, {
		Name:   "task/chains64",
		About:  "64 chains of inout tasks, created in turn",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{64 * 40},
		Peers: []harness.Peer{
			weft(chains64, (*chains).weft),
			plain("channels", chains64, (*chains).channels),
			plain("sequential", chains64, (*chains).sequential),
		},
	}, {
		Name:   "task/readers",
		About:  "per object one writer, then 8 readers; 64 objects in turn",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{64 * 9 * 5},
		Peers: []harness.Peer{
			weft(newReaders, (*readers).weft),
			plain("channels", newReaders, (*readers).channels),
			plain("sequential", newReaders, (*readers).sequential),
		},
	}, {
		Name:   "task/blocks",
		About:  "Gauss-Seidel graph: inout own block, in 4 neighbours, 10 steps",
		SizeOf: "blocks per side", Sizes: []int64{64}, Quick: []int64{8},
		Peers: []harness.Peer{
			weft(newBlocks, (*blocks).weft),
			plain("channels", newBlocks, (*blocks).channels),
			plain("sequential", newBlocks, (*blocks).sequential),
		},
	}, {
		Name:   "task/forkjoin",
		About:  "fib(n), two tasks and a wait at every call",
		SizeOf: "n", Sizes: []int64{30}, Quick: []int64{12},
		Peers: []harness.Peer{
			weft(newForkjoin, (*forkjoin).weft),
			plain("goroutines", newForkjoin, (*forkjoin).goroutines),
			plain("sequential", newForkjoin, (*forkjoin).sequential),
		},
	}}
	for i := range loads {
		loads[i].Unit = "ns/task"
		loads[i].Peers = append(loads[i].Peers, gomp.peer(loads[i].Name))
	}
	return loads
}
