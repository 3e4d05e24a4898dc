//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import "weft/internal/fabric"

// Seek delivers what comes until p has picked a frame. The caller looks, and goes on to.
func (e *Endpoint) Seek(p fabric.Picker) (picked, tired bool) {
	var long patience
	left, rests := e.turn, 0
	for n := 1; ; n++ {
		if e.stirs() {
			did, picked := e.pollFor(p)
			if picked {
				return true, false
			}
			if did {
				n, long = 0, patience{}
				if e.bulk.waits.Load() > 0 {
					return false, false // copies are made outside of looking
				}
			}
		}
		if p.Enough() {
			return false, false
		}
		if e.aside != nil && n%asideEvery == 0 && e.aside() {
			n, long = 0, patience{}
		}
		if left--; left > 0 {
			continue
		}
		if long.over(lookFor) {
			return false, true
		}
		left = e.turn
		rests++
		rest(rests%yields == 0)
	}
}

// stirs reports whether a poll may find something. It is what poll looks at, in as few loads as that can be. The caller looks.
func (e *Endpoint) stirs() bool {
	for _, p := range e.active {
		if p.in.ready() {
			return true
		}
	}
	return e.box.head.joins.Load() != e.joins || e.deaths.Load() > 0 || e.pending.Load() > 0
}
