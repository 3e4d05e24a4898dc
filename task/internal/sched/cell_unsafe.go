// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race && !explore

package sched

import (
	"unsafe"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A cell is one element of a ring. A thief may read a cell while the owner overwrites it. Then the
// thief's compare-and-swap of top fails, and it drops what it read. Every machine of Go writes a
// pointer whole, so a plain word is enough, and saves a fence per push.
type cell struct{ n *chain.Node }

func (c *cell) load() *chain.Node   { return c.n }
func (c *cell) store(n *chain.Node) { c.n = n }

// prefetch prefetches the cache lines that running the task writes, with accesses or without.
func (c *cell) prefetch() { xatomic.PrefetchW1st3rd(unsafe.Pointer(c.n)) }
