// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package watching measures what it costs to watch tasks that do no work: the graph of task/blocks
// with statistics, with a sampled profile, with a timeline, and, against a program that is built
// without the probe, with nothing.
//
// Each way is a process of its own, so that none sees the memory and the goroutines of another. In
// each round all ways run once, in an order by chance, and a ratio is of two that ran in the same
// round. Medians of ratios are told with an interval: in nineteen of twenty such measurements it
// has the true median in it, whatever the distribution.
package watching
