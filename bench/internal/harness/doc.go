// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package harness measures workloads side by side.
//
// A [Workload] is data: a name, a unit, sizes, rank counts and a list of peers, weft first. A peer
// is a function that prepares one measurement and returns a [Probe]; each call of the probe is one
// sample, in the workload's unit, and checks its own answer:
//
//	w := harness.Workload{Name: "task/chain", Unit: "ns/task", Sizes: []int64{1e6}, Peers: []harness.Peer{
//		{Name: "weft", Open: openWeft},
//		{Name: "channels", Open: openChannels},
//	}}
//	plan := harness.NewPlan([]harness.Workload{w}, cfg)
//	rows, err := plan.Run(ctx, observer)
//
// A plan is a list of groups (workload × size × ranks × workers). The peers of one group are
// measured in turns (peer, weft, peer, weft, …), so a disturbance of the machine meets all of them.
// A group goes through these states:
//
//	open every peer → one unrecorded sample of each → Reps rounds of one sample of each
//	→ close every peer → rows
//
// Invariants: GOMAXPROCS equals the row's workers from open to close; no two samples overlap; every
// sample starts after a garbage collection; a row with a sample that failed has OK false and makes
// [Report.Failed] true.
//
// Nothing here is safe for concurrent use. Run blocks until the plan is complete or its context is
// cancelled. It checks the context between samples.
package harness
