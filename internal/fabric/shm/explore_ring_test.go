//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"testing"
)

// TestExploreFull: a ring that is full. Its producer sleeps until there is room, and what it could
// not write comes after all.
func TestExploreFull(t *testing.T) { exploreAll(t, fullPrograms) }

// full makes a job in which rank 1 has filled its ring, begun so many lines behind its beginning,
// and rank 0 is knocked.
func (l *lab) full(lines int) []*rank {
	r := l.at(2)
	r[1].sleeps()
	r[1].atRest()
	laps(r[1], r[0], lines)
	r[1].fills(r[0])
	return r
}

var fullPrograms = []program{
	{"one more", 0, func(l *lab) {
		r := l.full(0)
		r[1].sender(0, 1)
	}},
	{"two more", 1_000, func(l *lab) {
		r := l.full(1)
		r[1].sender(0, 2)
	}},
	{"a long one", 0, func(l *lab) { // that does not fit behind the last one either
		r := l.full(3)
		r[1].Go("1 sender", func() { r[1].send(0, true) })
	}},
	{"who waits", 1_000, func(l *lab) {
		// the producer's process waits for an answer to the frame that has no room
		r := l.full(0)
		n := r[1].sent[0] + 1
		r[0].each = func(_ int, k uint64) {
			if k == n {
				r[0].send(1, false)
			}
		}
		r[1].sender(0, 1)
		r[1].waiter(0, 1)
	}},
	{"who looks there", 1_000, func(l *lab) {
		// the consumer's process has somebody who comes and goes
		r := l.full(0)
		r[1].sender(0, 1)
		r[0].visits()
	}},
	{"a lap", 1_000, func(l *lab) { // the ring is empty, and more goes through it than it holds
		r := l.at(2)
		r[1].sleeps()
		r[1].atRest()
		laps(r[1], r[0], 2)
		r[1].Go("1 sender", func() {
			for k := range 4 {
				r[1].send(0, k%2 == 0)
			}
		})
	}},
}

// TestExploreEnd: closing, and processes that die.
func TestExploreEnd(t *testing.T) { exploreAll(t, endPrograms()) }

// closes has the rank close.
func (r *rank) closes() {
	r.Go(fmt.Sprintf("%d closes", r.e.cfg.Rank), func() { _ = r.e.Close() })
}

// saysGoodbye says that in the end, rank k has not been lost to r.
func (r *rank) saysGoodbye(k int) {
	r.End(func() error {
		if len(r.lost) != 0 {
			return fmt.Errorf("rank %d is lost, which has said goodbye", k)
		}
		return nil
	})
}

// dies has a rank send frames until its process is killed before a step, of which the others learn
// as they do.
func (r *rank) dies(step, frames int, news func()) {
	r.Mortal(fmt.Sprintf("%d sender", r.e.cfg.Rank), step, func() {
		for range frames {
			r.send(0, false)
		}
	}, func() {
		r.dead = true
		news()
	})
}

// isToldOnce says that r is told once that rank k is lost.
func (r *rank) isToldOnce(k int) {
	r.End(func() error {
		if len(r.lost) != 1 || r.lost[0] != k {
			return fmt.Errorf("rank %d is told that these are lost: %v; it is %d", r.e.cfg.Rank, r.lost, k)
		}
		return nil
	})
}

func endPrograms() []program {
	programs := []program{
		{"one closes", 0, func(l *lab) { // what it has sent before comes
			r := l.at(2)
			r[1].sleeps()
			r[0].saysGoodbye(1)
			r[1].Go("1", func() {
				r[1].send(0, false)
				_ = r[1].e.Close()
			})
		}},
		{"one closes while another goroutine sends", 0, func(l *lab) {
			r := l.at(2)
			r[1].sleeps()
			r[0].saysGoodbye(1)
			r[1].sender(0, 1)
			r[1].closes()
		}},
		{"both close", 1_000, func(l *lab) {
			r := l.job(2)
			acquainted(r[0], r[1])
			r[0].sleeps()
			r[1].sleeps()
			r[0].saysGoodbye(1)
			r[1].saysGoodbye(0)
			r[0].closes()
			r[1].closes()
		}},
		{"one closes and the other sends", 1_000, func(l *lab) {
			r := l.job(2)
			acquainted(r[0], r[1])
			r[0].sleeps()
			r[1].sleeps()
			r[1].saysGoodbye(0)
			r[0].closes()
			r[1].sender(0, 2)
		}},
		{"one closes where somebody looks", 1_000, func(l *lab) {
			r := l.job(2)
			acquainted(r[0], r[1])
			r[0].sleeps()
			r[0].visits()
			r[0].closes()
			r[1].sender(0, 1)
		}},
		{"one closes with a full ring", 1_000, func(l *lab) {
			r := l.at(2)
			r[1].sleeps()
			r[1].fills(r[0])
			r[0].saysGoodbye(1)
			r[1].closes()
		}},
	}
	// Killed before each step. Those of a frame are a lock, the frame, a load and a change of the
	// look word, the byte, and the unlock; of a first frame, two more, by which one makes oneself
	// known.
	for step := range 12 {
		some := 0
		if step > 6 { // in the second frame
			some = 1_000
		}
		programs = append(programs, program{fmt.Sprintf("one dies before step %d", step), some, func(l *lab) {
			r := l.at(3)
			r[0].isToldOnce(1)
			r[1].dies(step, 2, r[0].e.peers.At(1).unreachable)
			r[2].sender(0, 1)
		}})
	}
	for step := range 7 {
		programs = append(programs, program{fmt.Sprintf("one dies before step %d where somebody looks", step), 0, func(l *lab) {
			r := l.at(2)
			r[0].isToldOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[0].visits()
		}})
	}
	for step := range 9 {
		programs = append(programs, program{fmt.Sprintf("one that was sent to dies before step %d of its first frame", step), 0, func(l *lab) {
			r := l.job(2)
			r[0].sleeps()
			r[0].atRest()
			r[0].knows(r[1])
			r[0].isToldOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[0].Go("0 looker", func() { r[0].g.Poll() })
		}}, program{fmt.Sprintf("one that was sent to dies before step %d of its first frame, and another one sends", step), 1000, func(l *lab) {
			r := l.job(3)
			// whose frame has somebody poll who does not see yet that rank 1 has come
			acquainted(r[0], r[2])
			r[0].sleeps()
			r[0].atRest()
			r[0].knows(r[1])
			r[0].isToldOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[2].sender(0, 1)
		}}, program{fmt.Sprintf("a stranger dies before step %d of its first frame", step), 1000, func(l *lab) {
			r := l.job(3)
			acquainted(r[0], r[2])
			r[0].sleeps()
			r[0].atRest()
			r[1].dies(step, 1, r[0].e.bell.ring) // as Drop does, upon news from the launcher
			r[2].sender(0, 1)
		}})
	}
	return programs
}
