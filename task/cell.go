// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build !race && !explore

package task

// cell is one place of a ring. A thief may read a cell that the owner overwrites
// at the same time; its compare-and-swap of top fails then, and what it read is
// not used. A pointer is written whole on every machine of Go, so a plain
// word will do, and saves a fence per push.
type cell struct{ p *Task }

func (c *cell) load() *Task   { return c.p }
func (c *cell) fetch()        { prefetchRun(c.p) }
func (c *cell) store(t *Task) { c.p = t }
