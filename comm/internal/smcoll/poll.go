// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"math/bits"
	"runtime"

	"weft/comm/internal/coll"
)

// watch looks for a while whether it goes on.
func (s *Member) poll(d *coll.Call, seq uint64) bool {
	st := s.st
	if st.mapped {
		w := newWaiter()
		defer w.free()
		w.st, w.call, w.rank, w.seq = st, *d, s.rank, seq
		s.host.Watch(w.ready)
		return w.ready()
	}
	if st.procs < st.size {
		for range yields {
			runtime.Gosched()
			if st.ready(d, s.rank, seq) {
				return true
			}
		}
		return false
	}
	if s.woke.Load() && !s.spread(seq) {
		return false
	}
	n := pollFlat
	switch {
	case d.Large:
		n = pollLarge
	case st.spreadAt.Load() >= seq:
		n = pollSpread
	}
	for range n {
		if st.ready(d, s.rank, seq) {
			if n := s.found.Load() + 1; n < steadyPolls {
				s.found.Store(n)
			} else if s.wakes.Load() != 0 {
				s.wakes.Store(0)
			}
			return true
		}
	}
	s.found.Store(0)
	return false
}

// part is called for a rank that has just woken a caller, and reports whether the rank looks all
// the same. That caller is not running yet, but next in line at the rank's own processor: it goes
// on when the rank sleeps, at once, and to look would only keep it from that, until another
// processor comes to take it, which takes longer. So two ranks can go on for ever at one processor,
// each waking the other. Now and then the rank steps back into the line of all processors, for
// another one to take it, while the one that it has woken looks in the collective after this: from
// then on both look, and nobody is woken. If none comes, or what the two have then does not last,
// that has cost what a look takes; so it is tried more and more seldom, until it lasts.
func (s *Member) spread(seq uint64) bool {
	s.woke.Store(false)
	n := s.wakes.Add(1)
	if again := n&(n-1) == 0 && bits.TrailingZeros32(n)%3 == 0; !again && n%spreadInterval != 0 {
		return false // it is not 1, 8, 64, …
	}
	s.st.spreadAt.Store(seq + 1)
	runtime.Gosched()
	return true
}

// noCall is what a waiter looks for that is free.
var noCall coll.Call

func makeWaiter() *waiter {
	w := &waiter{ch: make(signal, 1)}
	w.ready = func() bool { return w.st.ready(&w.call, w.rank, w.seq) }
	return w
}
