//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"testing"
)

// TestExploreFull: a full ring. Its producer sleeps until there is room, and all its frames arrive.
func TestExploreFull(t *testing.T) { exploreAll(t, fullPrograms) }

// startFull starts a job of two ranks. Rank 1 has filled its ring, starting at the given line, and
// has rung the doorbell of rank 0.
func (l *exploredJob) startFull(lines int) []*rank {
	r := l.startConnected(2)
	r[1].startDoorbellLoop()
	r[1].checkAtEnd()
	advanceRing(r[1], r[0], lines)
	r[1].fillRing(r[0])
	return r
}

var fullPrograms = []program{
	{"one more", 0, func(l *exploredJob) {
		r := l.startFull(0)
		r[1].sender(0, 1)
	}},
	{"two more", 1_000, func(l *exploredJob) {
		r := l.startFull(1)
		r[1].sender(0, 2)
	}},
	{"a long one", 0, func(l *exploredJob) { // it does not fit before the end of the lap either
		r := l.startFull(3)
		r[1].Go("1 sender", func() { r[1].send(0, true) })
	}},
	{"a producer that waits for an answer", 1_000, func(l *exploredJob) {
		// The producer's process waits for an answer to the frame that has no room.
		r := l.startFull(0)
		n := r[1].sent[0] + 1
		r[0].each = func(_ int, k uint64) {
			if k == n {
				r[0].send(1, false)
			}
		}
		r[1].sender(0, 1)
		r[1].waiter(0, 1)
	}},
	{"a consumer that enters and leaves", 1_000, func(l *exploredJob) {
		r := l.startFull(0)
		r[1].sender(0, 1)
		r[0].enterAndLeave()
	}},
	{"a lap", 1_000, func(l *exploredJob) {
		// the ring is empty, and the frames are more than it holds
		r := l.startConnected(2)
		r[1].startDoorbellLoop()
		r[1].checkAtEnd()
		advanceRing(r[1], r[0], 2)
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

// checkGoodbye checks at the end that rank k has not been lost to r.
func (r *rank) checkGoodbye(k int) {
	r.End(func() error {
		if len(r.lost) != 0 {
			return fmt.Errorf("rank %d is lost although it has said goodbye", k)
		}
		return nil
	})
}

// dies has a rank send frames until its process is killed before the given step. Then it calls
// news, by which the others learn of the death.
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

// checkLostOnce checks at the end that r was told once that rank k is lost, and of no other loss.
func (r *rank) checkLostOnce(k int) {
	r.End(func() error {
		if len(r.lost) != 1 || r.lost[0] != k {
			return fmt.Errorf("rank %d was told that these are lost: %v; want %d, once", r.e.cfg.Rank, r.lost, k)
		}
		return nil
	})
}

func endPrograms() []program {
	programs := []program{
		{"one closes", 0, func(l *exploredJob) { // the frames that it sent before arrive
			r := l.startConnected(2)
			r[1].startDoorbellLoop()
			r[0].checkGoodbye(1)
			r[1].Go("1", func() {
				r[1].send(0, false)
				_ = r[1].e.Close()
			})
		}},
		{"one closes while another goroutine sends", 0, func(l *exploredJob) {
			r := l.startConnected(2)
			r[1].startDoorbellLoop()
			r[0].checkGoodbye(1)
			r[1].sender(0, 1)
			r[1].closes()
		}},
		{"both close", 1_000, func(l *exploredJob) {
			r := l.start(2)
			connectBoth(r[0], r[1])
			r[0].startDoorbellLoop()
			r[1].startDoorbellLoop()
			r[0].checkGoodbye(1)
			r[1].checkGoodbye(0)
			r[0].closes()
			r[1].closes()
		}},
		{"one closes and the other sends", 1_000, func(l *exploredJob) {
			r := l.start(2)
			connectBoth(r[0], r[1])
			r[0].startDoorbellLoop()
			r[1].startDoorbellLoop()
			r[1].checkGoodbye(0)
			r[0].closes()
			r[1].sender(0, 2)
		}},
		{"one closes while another goroutine enters and leaves", 1_000, func(l *exploredJob) {
			r := l.start(2)
			connectBoth(r[0], r[1])
			r[0].startDoorbellLoop()
			r[0].enterAndLeave()
			r[0].closes()
			r[1].sender(0, 1)
		}},
		{"one closes with a full ring", 1_000, func(l *exploredJob) {
			r := l.startConnected(2)
			r[1].startDoorbellLoop()
			r[1].fillRing(r[0])
			r[0].checkGoodbye(1)
			r[1].closes()
		}},
	}
	// Killed before each step. The steps of a frame are a lock, the frame, a load and a change of
	// the doorbell word, the byte, and the unlock. A first frame has two more, which announce the
	// sender.
	for step := range 12 {
		some := 0
		if step > 6 { // in the second frame
			some = 1_000
		}
		programs = append(programs, program{fmt.Sprintf("one dies before step %d", step), some, func(l *exploredJob) {
			r := l.startConnected(3)
			r[0].checkLostOnce(1)
			r[1].dies(step, 2, r[0].e.peers.At(1).unreachable)
			r[2].sender(0, 1)
		}})
	}
	for step := range 7 {
		programs = append(programs, program{fmt.Sprintf("one dies before step %d while a goroutine enters and leaves", step), 0, func(l *exploredJob) {
			r := l.startConnected(2)
			r[0].checkLostOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[0].enterAndLeave()
		}})
	}
	for step := range 9 {
		programs = append(programs, program{fmt.Sprintf("one that was sent to dies before step %d of its first frame", step), 0, func(l *exploredJob) {
			r := l.start(2)
			r[0].startDoorbellLoop()
			r[0].checkAtEnd()
			r[0].connectTo(r[1])
			r[0].checkLostOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[0].Go("0 poll", func() { r[0].g.Poll() })
		}}, program{fmt.Sprintf("one that was sent to dies before step %d of its first frame, and another one sends", step), 1000, func(l *exploredJob) {
			r := l.start(3)
			// The frame of rank 2 causes a poll that may not see yet that rank 1 has connected.
			connectBoth(r[0], r[2])
			r[0].startDoorbellLoop()
			r[0].checkAtEnd()
			r[0].connectTo(r[1])
			r[0].checkLostOnce(1)
			r[1].dies(step, 1, r[0].e.peers.At(1).unreachable)
			r[2].sender(0, 1)
		}}, program{fmt.Sprintf("an unknown peer dies before step %d of its first frame", step), 1000, func(l *exploredJob) {
			r := l.start(3)
			connectBoth(r[0], r[2])
			r[0].startDoorbellLoop()
			r[0].checkAtEnd()
			r[1].dies(step, 1, r[0].e.doorbell.ring) // as Drop does after a report of the launcher
			r[2].sender(0, 1)
		}})
	}
	return programs
}
