// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"weft/bench/internal/harness"
	"weft/bench/internal/native"
)

// goals returns the targets of a workload: with two workers the ratio to the best rival, and with
// one worker at most 1.5 times the best rival with two.
func goals(two float64, more ...harness.Goal) []harness.Goal {
	return append([]harness.Goal{{Workers: 2, RivalWorkers: 2, Ratio: two}, {Workers: 1, RivalWorkers: 2, Ratio: 1.5}}, more...)
}

// Workloads returns the task workloads, in the order in which they are reported.
func Workloads(kit *native.Kit) []harness.Workload {
	const million = 1_000_000
	chain := func(size int64) *chains { return newChains(size, 1) }
	sweeps := func(size int64) *blocks { return newBlocks(size, blockSteps) }
	solver := func(size int64) *blocks { return newBlocks(size, replaySteps) }
	chains64 := func(size int64) *chains { return newChains(size, 64) }
	loads := []harness.Workload{{
		Name:   "task/independent",
		About:  "tasks without accesses, made by one task",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{2000},
		Goals: goals(1.0, harness.Goal{Workers: 1, RivalWorkers: 1, Against: native.Libomp.Name, Ratio: 1.0}),
		Peers: []harness.Peer{
			weft(newIndependent, (*independent).weft),
			plain("goroutines", newIndependent, (*independent).goroutines),
			pooled(newIndependent, (*independent).ants),
			fallible("errgroup", newIndependent, (*independent).errgroup),
			plain("sequential", newIndependent, (*independent).sequential),
		},
	}, {
		Name:   "task/chain",
		About:  "one chain: every task has the same inout",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{2000},
		Goals: goals(0.35),
		Peers: []harness.Peer{
			weft(chain, (*chains).weft),
			plain("channels", chain, (*chains).channels),
			plain("sequential", chain, (*chains).sequential),
		},
	}, {
		Name:   "task/chains64",
		About:  "64 chains of inout tasks, created in turn",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{64 * 40},
		Goals: goals(0.2),
		Peers: []harness.Peer{
			weft(chains64, (*chains).weft),
			plain("channels", chains64, (*chains).channels),
			plain("sequential", chains64, (*chains).sequential),
		},
	}, {
		Name:   "task/readers",
		About:  "per object one writer, then 8 readers; 64 objects in turn",
		SizeOf: "tasks", Sizes: []int64{million}, Quick: []int64{64 * 9 * 5},
		Goals: goals(0.25),
		Peers: []harness.Peer{
			weft(newReaders, (*readers).weft),
			plain("channels", newReaders, (*readers).channels),
			plain("sequential", newReaders, (*readers).sequential),
		},
	}, {
		Name:   "task/blocks",
		About:  "Gauss-Seidel graph: inout own block, in 4 neighbours, 10 steps",
		SizeOf: "blocks per side", Sizes: []int64{64}, Quick: []int64{8},
		Goals: goals(0.65),
		Peers: []harness.Peer{
			weft(sweeps, (*blocks).weft),
			plain("channels", sweeps, (*blocks).channels),
			plain("sequential", sweeps, (*blocks).sequential),
		},
	}, {
		Name:   "task/replay",
		About:  "task/blocks, 100 steps: one recorded and replayed, or all spawned",
		SizeOf: "blocks per side", Sizes: []int64{64}, Quick: []int64{8},
		Goals: []harness.Goal{{Workers: 1, RivalWorkers: 1, Against: spawned, Ratio: 0.3}, {Workers: 2, RivalWorkers: 2, Against: spawned, Ratio: 0.3}},
		Peers: []harness.Peer{
			weft(solver, (*blocks).replayed),
			rival(spawned, weft(solver, (*blocks).weft)),
			plain("sequential", solver, (*blocks).sequential),
		},
	}, {
		Name:   "task/forkjoin",
		About:  "fib(n), two tasks and a wait at every call",
		SizeOf: "n", Sizes: []int64{30}, Quick: []int64{12},
		Goals: goals(0.6),
		Peers: []harness.Peer{
			weft(newForkjoin, (*forkjoin).weft),
			plain("goroutines", newForkjoin, (*forkjoin).goroutines),
			pooled(newForkjoin, (*forkjoin).ants),
			fallible("errgroup", newForkjoin, (*forkjoin).errgroup),
			plain("sequential", newForkjoin, (*forkjoin).sequential),
		},
	}}
	for i := range loads {
		loads[i].Unit = "ns/task"
		if loads[i].Name == "task/replay" {
			continue // weft is its own rival
		}
		for _, tc := range native.Toolchains() {
			loads[i].Peers = append(loads[i].Peers, foreign(kit, tc, loads[i].Name))
		}
	}
	return append(loads, scale()...)
}
