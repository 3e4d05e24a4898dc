// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build race || explore

package sched

import (
	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A cell is one element of a ring. The race detector rightly reports the plain word of
// cell_unsafe.go; under it the word is atomic, and the explorer has to see it.
type cell struct{ n xatomic.Pointer[chain.Node] }

func (c *cell) load() *chain.Node   { return c.n.Load() }
func (c *cell) store(n *chain.Node) { c.n.Store(n) }
func (c *cell) prefetch()           {}
