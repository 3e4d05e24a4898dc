// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build race || explore

package task

import "weft/internal/xatomic"

// cell is one place of a ring. The race detector rightly reports the plain word of
// cell.go; under it the word is atomic, and the explorer has to see it.
type cell struct{ p xatomic.Pointer[Task] }

func (c *cell) load() *Task   { return c.p.Load() }
func (c *cell) fetch()        {}
func (c *cell) store(t *Task) { c.p.Store(t) }
