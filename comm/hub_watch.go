// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"math/bits"
	"runtime"
)

// watchFlat and watchLarge are how often a caller looks before it sleeps: about as long as it takes to be woken at another processor; while
// others copy for us, a little less. Guesses.
const (
	watchFlat   = 10000
	watchParted = 20000 // for one that has to be woken first
	watchLarge  = 8000
	longFound   = 1000    // so many looks that found, one after the other, are a state that lasts
	seldom      = 1 << 12 // wakes between two tries to be at two processors, at most
	yields      = 20      // where processors are scarce, others are let run instead
)

// watch looks for a while whether it goes on.
func (h *hub) watch(d *collCall, me int, seq uint64) bool {
	if h.procs < h.size {
		for range yields {
			runtime.Gosched()
			if h.ready(d, me, seq) {
				return true
			}
		}
		return false
	}
	r := &h.ranks[me]
	if r.woke.Load() && !h.part(r, seq) {
		return false
	}
	n := watchFlat
	switch {
	case d.large:
		n = watchLarge
	case h.parted.Load() >= seq:
		n = watchParted
	}
	for range n {
		if h.ready(d, me, seq) {
			if n := r.found.Load() + 1; n < longFound {
				r.found.Store(n)
			} else if r.wakes.Load() != 0 {
				r.wakes.Store(0)
			}
			return true
		}
	}
	r.found.Store(0)
	return false
}

// part is called for a rank that has just woken a caller, and reports whether the rank looks all the same. That caller is not running yet, but next in line
// at the rank's own processor: it goes on when the rank sleeps, at once, and to look would only keep it from that, until another processor comes to take
// it, which takes longer. So two ranks can go on for ever at one processor, each waking the other. Now and then the rank steps back into the line of
// all processors, for another one to take it, while the one that it has woken looks in the collective after this: from then on both look, and nobody is woken.
// If none comes, or what the two have then does not last, that has cost what a look takes; so it is tried more and more seldom, until it lasts.
func (h *hub) part(r *hubRank, seq uint64) bool {
	r.woke.Store(false)
	n := r.wakes.Add(1)
	if again := n&(n-1) == 0 && bits.TrailingZeros32(n)%3 == 0; !again && n%seldom != 0 {
		return false // it is not 1, 8, 64, …
	}
	h.parted.Store(seq + 1)
	runtime.Gosched()
	return true
}
