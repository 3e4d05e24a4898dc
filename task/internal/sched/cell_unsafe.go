// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race && !explore

package sched

import (
	"unsafe"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A cell is one place of a ring. A thief may read a cell that the owner overwrites
// at the same time; its compare-and-swap of top fails then, and what it read is
// not used. A pointer is written whole on every machine of Go, so a plain
// word will do, and saves a fence per push.
type cell struct{ n *chain.Node }

func (c *cell) load() *chain.Node   { return c.n }
func (c *cell) store(n *chain.Node) { c.n = n }

// prefetch prefetches the lines of the task that every run of it writes, with accesses or without.
func (c *cell) prefetch() { xatomic.PrefetchW1st3rd(unsafe.Pointer(c.n)) }
