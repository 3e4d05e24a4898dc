//go:build !amd64 || race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import "sync/atomic"

// mark is a counter with one writer.
type mark struct{ v atomic.Uint64 }

func (w *mark) own() uint64      { return w.v.Load() }
func (w *mark) publish(n uint64) { w.v.Store(n) }
func (w *mark) load() uint64     { return w.v.Load() }
