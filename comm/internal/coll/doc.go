// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package coll has what collectives are and how they are computed: which one it is and whether
// ranks agree on that (Collective, Signature), what one rank calls (Call), operators, and two ways
// to a result.
//
// A [Schedule] makes a collective of messages. The algorithms are in files by operation; Algorithms
// says which is taken at which size. [Flat] computes the result at one rank from what all ranks
// show, and [TreeOf] says in which order a reduction combines. Both ways combine in the same order,
// so a sum has the same bits whichever is taken.
//
// The goroutine that completes the last transfer of a step owns the Schedule; nothing else here is
// shared.
package coll
