// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package taskbench runs Task Bench's graphs (Slaughter et al., SC 2020) on weft and its peers, and
// finds their minimum effective task granularity, METG(50 %).
//
// A graph is a grid of tasks: Steps rows of up to Width points. The task at (step, point) depends
// on some points of the step before; a [Pattern] says which. Each task checks its inputs, runs a
// [Kernel] and writes (step, point) into its output:
//
//	g, err := taskbench.NewGraph(taskbench.Config{Pattern: taskbench.Stencil1D, Width: 16, Steps: 1000})
//	kernel := taskbench.Kernel{Kind: taskbench.ComputeBound}
//	machine, err := taskbench.Systems(kit)[0].Open(ctx, g, kernel, 2)
//	ns, err := machine.Run(ctx, iterations, least) // per task
//
// Outputs are kept in two buffers, as in the published measurements: step t writes buffer t mod 2
// and reads the other. So a task also follows the tasks that read the output that it overwrites.
// Systems with accesses (weft, OpenMP) find these dependences themselves; for the others a point
// lists them.
//
// Every run is checked. An input that is not exactly the expected (step, point) is a wrong answer.
// So is an output with the wrong number of writes, and a run with another amount of work. So a
// dependence that a system forgets is an error, not a better figure.
//
// The efficiency of a run is its rate of kernel iterations over the peak: the rate at which the
// same number of threads runs the same kernel in large grains, without a graph. [Search] finds the
// smallest granularity (workers × time / tasks) at which the efficiency is still one half.
//
// Nothing here is safe for concurrent use, except that the tasks of a run are concurrent.
package taskbench
