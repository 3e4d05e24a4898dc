// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package rma

import "fmt"

// fenceOf is a window as the operation of a fence's request.
type fenceOf Win

func (f *fenceOf) String() string {
	c := (*Win)(f).Comm()
	return fmt.Sprintf("fence of a window, at rank %d of %d", c.Rank(), c.Size())
}

// describe says what a receive of the port's waits for: "" for a standing one, unless a fence waits
// for the rank.
func (p *port) describe(src, tag int) string {
	switch {
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
