// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package watching measures what it costs to watch tasks that do no work: the graph of task/blocks
// with statistics, with a sampled profile, with a timeline, and, against a program that is built
// without the probe, with nothing.
//
// Each way is a process of its own, so no way shares the memory and the goroutines of another. In
// each round all ways run once, in random order, and a ratio is of two ways in the same round. The
// median of the ratios has an interval: in nineteen of twenty such measurements it contains the
// true median, whatever the distribution.
package watching
