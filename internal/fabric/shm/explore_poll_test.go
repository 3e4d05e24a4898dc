//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"testing"

	"weft/internal/xatomic"
)

// TestExplorePoll: senders, polling goroutines and the doorbell goroutine. In the end all frames
// have arrived, and the receiver can be woken.
func TestExplorePoll(t *testing.T) { exploreAll(t, pollPrograms) }

// startConnected starts a job of n ranks. Rank 0 is connected with each other rank, has a doorbell
// goroutine, and is checked at the end.
func (l *exploredJob) startConnected(n int) []*rank {
	ranks := l.start(n)
	for _, r := range ranks[1:] {
		connectBoth(ranks[0], r)
	}
	ranks[0].startDoorbellLoop()
	ranks[0].checkAtEnd()
	return ranks
}

// enterAndLeave has a goroutine take the turn, disarm, and leave without a poll.
func (r *rank) enterAndLeave() {
	r.Go(fmt.Sprintf("%d visitor", r.e.cfg.Rank), func() {
		if r.g.Enter() {
			r.g.Leave()
		}
	})
}

var pollPrograms = []program{
	{"a sender", 0, func(l *exploredJob) {
		r := l.startConnected(2)
		r[1].sender(0, 3)
	}},
	{"two senders", 0, func(l *exploredJob) {
		r := l.startConnected(3)
		r[1].sender(0, 2)
		r[2].sender(0, 1)
	}},
	{"two senders of a process", 0, func(l *exploredJob) {
		r := l.startConnected(2)
		for k := range 2 {
			r[1].Go(fmt.Sprintf("1 sender %d", k), func() {
				// The frame's number is known only under the lock.
				p := r[1].e.peers.At(0)
				f := numbered(0)
				f.Origin = 1
				p.mu.Lock()
				r[1].sent[0]++
				f.Head[0] = r[1].sent[0]
				ok := p.out.put(kindFrame, &f)
				p.ringDoorbell()
				p.mu.Unlock()
				l.Check(ok, "no room")
			})
		}
	}},
	{"a waiter", 0, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].waiter(1, 1)
		r[1].sender(0, 1)
	}},
	{"a waiter, and more", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].waiter(1, 1)
		r[1].sender(0, 2)
	}},
	{"a waiter between two senders", 1_000, func(l *exploredJob) {
		r := l.startConnected(3)
		r[0].waiter(1, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"a direct receive", 0, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].directReceiver(1, 1)
		r[1].sender(0, 1)
	}},
	{"a direct receive, and more", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].directReceiver(1, 1)
		r[1].sender(0, 2)
	}},
	{"a direct receive of the second frame", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].directReceiver(1, 2)
		r[1].sender(0, 2)
	}},
	{"a direct receive and a waiter", 1_000, func(l *exploredJob) {
		r := l.startConnected(3)
		r[0].directReceiver(1, 1)
		r[0].waiter(2, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"two waiters", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[0].waiter(1, 1)
		r[0].waiter(1, 2)
		r[1].sender(0, 2)
	}},
	{"two waiters, two senders", 1_000, func(l *exploredJob) {
		r := l.startConnected(3)
		r[0].waiter(1, 1)
		r[0].waiter(2, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"enter and leave", 0, func(l *exploredJob) {
		r := l.startConnected(2)
		r[1].sender(0, 1)
		r[0].enterAndLeave()
	}},
	{"enter and leave, and more", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[1].sender(0, 2)
		r[0].enterAndLeave()
	}},
	{"two enter and leave", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[1].sender(0, 1)
		r[0].enterAndLeave()
		r[0].enterAndLeave()
	}},
	{"a loop of tries", 1_000, func(l *exploredJob) {
		r := l.startConnected(2)
		r[1].sender(0, 2)
		r[0].Go("0 tester", func() {
			for range 3 {
				r[0].g.Try()
			}
		})
	}},
	{"a poll", 1_000, func(l *exploredJob) {
		r := l.startConnected(3)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
		r[0].Go("0 poll", func() { r[0].g.Poll() })
	}},
	{"an answer", 0, func(l *exploredJob) { // both ranks sleep; rank 0 sends while it polls
		r := l.startConnected(2)
		r[1].startDoorbellLoop()
		r[1].checkAtEnd()
		r[0].each = func(_ int, n uint64) {
			if n == 1 {
				r[0].send(1, false)
			}
		}
		r[1].sender(0, 1)
	}},
	{"the first frame", 0, func(l *exploredJob) { // its sender is not connected yet
		r := l.start(3)
		r[0].startDoorbellLoop()
		r[0].checkAtEnd()
		r[1].sender(0, 1)
		r[0].enterAndLeave()
	}},
	{"the first frames of two", 1_000, func(l *exploredJob) {
		r := l.start(3)
		r[0].startDoorbellLoop()
		r[0].checkAtEnd()
		r[1].sender(0, 1)
		r[2].sender(0, 1)
		r[0].enterAndLeave()
	}},
}

// TestExploreDisarmed: to send to a rank where a goroutine polls takes no system call, whatever
// other senders do.
func TestExploreDisarmed(t *testing.T) { exploreAll(t, disarmedPrograms) }

var disarmedPrograms = []program{
	{"with two senders", 0, func(l *exploredJob) {
		r := l.startConnected(3)
		in, over := make(xatomic.Chan[struct{}], 1), make(xatomic.Chan[struct{}], 1)
		r[0].Go("0 poller", func() {
			for !r[0].g.Enter() {
				xatomic.Pause()
			}
			in.Send(struct{}{})
			over.Recv()
			l.Check(r[1].rings == 0, "%d system calls to wake a rank that polls", r[1].rings)
			r[0].g.Leave()
		})
		r[1].Go("1 sender", func() {
			in.Recv()
			r[1].send(0, false)
			r[1].send(0, false)
			over.Send(struct{}{})
		})
		r[2].sender(0, 1)
	}},
	{"one system call", 0, func(l *exploredJob) { // however many ranks send to a sleeping one
		r := l.startConnected(3)
		r[1].sender(0, 2)
		r[2].sender(0, 1)
		l.End(func() error {
			if n := r[0].e.doorbell.most; n > 1 {
				return fmt.Errorf("%d system calls to wake a sleeping rank", n)
			}
			return nil
		})
	}},
}
