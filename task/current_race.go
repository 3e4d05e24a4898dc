// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

//go:build race && !weftlint

package task

import "sync/atomic"

// current is the task whose body runs on a slot. The race detector rightly reports the plain word
// of current.go; under it the word is atomic.
type current struct{ p atomic.Pointer[Task] }

func (c *current) load() *Task   { return c.p.Load() }
func (c *current) store(t *Task) { c.p.Swap(t) } // unlike a Store, ordered after seen

// seen tells the race detector that the fields of t have been read, if t is still the current task.
func (c *current) seen(t *Task) { c.p.CompareAndSwap(t, t) }
