// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package nam

import "weft/internal/event"

// What a recorded run says of network-attached memory, beside what package rma says of the window: the name, when it is known; each epoch that is
// counted, at each rank, before its fence is complete; and that a volatile window's memory is given up. backing.ev is nil in a run that is not recorded.
// Store.Remove is no rank's, and is not recorded.

// named records which memory the window is. Nobody else has the window yet.
func (w *Win) named(maker bool) {
	w.b.number = w.TraceID()
	how := uint8(event.AttachedTo)
	if maker {
		how = event.Allocated
	}
	name := w.b.ev.Recorder().Names().Spec(event.Origin{Label: w.rec.Name})
	w.b.ev.Put(event.WindowNamed, uint64(w.b.number), 0, event.WindowNamedC(name, how))
}

// durable records that the epochs up to the last one survive the program.
func (b *backing) durable() {
	if b.ev != nil {
		b.ev.Put(event.Durable, uint64(b.number), b.fences, 0)
	}
}

// removed records that the memory is given up, with the window.
func (w *Win) removed() { w.b.ev.Put(event.WindowRemoved, uint64(w.b.number), 0, 0) }
