// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"sync/atomic"

	"weft/internal/race"
)

func (h *holders) init(slots int) {
	n := 16
	for n < 8*slots {
		n *= 2
	}
	h.tab = make([]atomic.Pointer[Slot], n)
	h.mask = uintptr(n - 1)
}

// home is where the search for g begins.
func home(g uintptr) uintptr { return g>>7 ^ g>>17 }

// set records that goroutine g, the caller, holds s from now on.
func (h *holders) set(g uintptr, s *Slot) {
	s.g.Store(g)
	if h.find(g) == s || g == 0 {
		return
	}
	race.Hide()
	defer race.Show()
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.cell != nil {
		s.cell.Store(nil)
	}
	for d := uintptr(0); ; d++ {
		c := &h.tab[(home(g)+d)&h.mask]
		if c.Load() == nil {
			if d > h.far.Load() {
				h.far.Store(d)
			}
			c.Store(s)
			s.cell = c
			return
		}
	}
}

// find returns the slot that goroutine g, the caller, holds; nil if none.
func (h *holders) find(g uintptr) *Slot {
	for d, far := uintptr(0), h.far.Load(); d <= far; d++ {
		if s := h.tab[(home(g)+d)&h.mask].Load(); s != nil && s.g.Load() == g {
			return s
		}
	}
	return nil
}
