// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"math/bits"
	"runtime"

	"weft/comm/internal/coll"
)

// poll reports whether a collective can proceed. It polls until it can, or until the budget is used
// up.
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

// spread is called for a rank whose last collective has woken a caller. It reports whether the rank
// may poll nevertheless.
//
// The Go scheduler puts the woken caller next in line at the waker's own processor. If the waker
// sleeps, the woken caller runs at once. If the waker polls, the woken caller waits until another
// processor steals it, which takes longer. So the waker normally does not poll. Then two ranks can
// share one processor for ever, each waking the other.
//
// To end that, spread sometimes yields: the waker goes to the end of the global queue, where
// another processor can take it. The woken caller polls with a larger budget in the next collective
// (spreadAt). If another processor takes the waker, both ranks poll from then on and nobody is
// woken. If not, the try has cost one poll budget. So tries become rare until the ranks stay
// spread: they are made with the 1st, 8th, 64th wake and so on, and every spreadInterval wakes.
func (s *Member) spread(seq uint64) bool {
	s.woke.Store(false)
	n := s.wakes.Add(1)
	if again := n&(n-1) == 0 && bits.TrailingZeros32(n)%3 == 0; !again && n%spreadInterval != 0 {
		return false // n is not 1, 8, 64, …
	}
	s.st.spreadAt.Store(seq + 1)
	runtime.Gosched()
	return true
}

// noCall is the call of a waiter that is not in use.
var noCall coll.Call

func makeWaiter() *waiter {
	w := &waiter{ch: make(signal, 1)}
	w.ready = func() bool { return w.st.ready(&w.call, w.rank, w.seq) }
	return w
}
