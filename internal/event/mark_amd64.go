//go:build !race

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import "sync/atomic"

// mark is a counter with one writer. An amd64 processor makes stores visible in program order, and
// Go's compiler does not reorder them. So a plain store publishes everything that the writer stored
// before it. sync/atomic would add a full fence, which costs as much as the rest of a record.
type mark struct{ v uint64 }

func (w *mark) own() uint64      { return w.v }
func (w *mark) publish(n uint64) { w.v = n }
func (w *mark) load() uint64     { return atomic.LoadUint64(&w.v) }
