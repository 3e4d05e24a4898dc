// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import (
	"fmt"
	"sync/atomic"
)

// fenceOf is a window as the operation of a fence's request.
type fenceOf Win

func (f *fenceOf) String() string {
	c := (*Win)(f).Comm()
	return fmt.Sprintf("fence of a window, at rank %d of %d", c.Rank(), c.Size())
}

// teller is what the communicator of a port knows of the port, and so of the window's memory. The
// run keeps communicators, and requests that are over, for longer than a window lives.
type teller struct {
	of atomic.Pointer[port] // nil: it is closed
}

// describe says what a receive of the port's waits for: "" for a standing one, unless a fence waits
// for the rank.
func (t *teller) describe(src, tag int) string {
	p := t.of.Load()
	switch {
	case p == nil:
		return ""
	case tag == bundleTag:
		p.mu.Lock()
		defer p.mu.Unlock()
		if l := p.lanes[src]; p.done == nil || l.marked || l.lost {
			return ""
		}
		return fmt.Sprintf("rank %d in %s number %d", src, fences[p.fenceKind()], p.epoch+1)
	case tag&1 == 1:
		return fmt.Sprintf("rank %d to answer a get", src)
	}
	return fmt.Sprintf("rank %d to send what it puts", src)
}
