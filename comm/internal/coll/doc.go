// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package coll describes collectives and computes them. [Collective] and [Signature] say which
// collective it is, so that ranks can compare that. [Call] is the call of one rank. There are
// operators, and two ways to compute a result.
//
// A [Schedule] runs a collective by messages. The algorithms are in files by operation; Algorithms
// says which one is used at which size. [Flat] computes the result of one rank from the published
// contributions of all ranks, and [TreeOf] gives the order in which a reduction combines. Both ways
// combine in the same order, so a sum has the same bits either way.
//
// The goroutine that completes the last transfer of a step owns the Schedule; nothing else here is
// shared.
package coll
