//go:build linux && explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"testing"

	"weft/internal/xatomic"
)

// TestExploreLook: who looks, who sleeps, and who wakes. In the end all that was sent has come, and
// the receiver can be woken.
func TestExploreLook(t *testing.T) { exploreAll(t, lookPrograms) }

// at makes a job whose rank 0 sleeps and is at rest in the end; it and the others know each other.
func (l *lab) at(n int) []*rank {
	ranks := l.job(n)
	for _, r := range ranks[1:] {
		acquainted(ranks[0], r)
	}
	ranks[0].sleeps()
	ranks[0].atRest()
	return ranks
}

// visits has a goroutine say that it will look, and then leave it.
func (r *rank) visits() {
	r.Go(fmt.Sprintf("%d visitor", r.e.cfg.Rank), func() {
		if r.g.Enter() {
			r.g.Leave()
		}
	})
}

var lookPrograms = []program{
	{"a sender", 0, func(l *lab) {
		r := l.at(2)
		r[1].sender(0, 3)
	}},
	{"two senders", 0, func(l *lab) {
		r := l.at(3)
		r[1].sender(0, 2)
		r[2].sender(0, 1)
	}},
	{"two senders of a process", 0, func(l *lab) {
		r := l.at(2)
		for k := range 2 {
			r[1].Go(fmt.Sprintf("1 sender %d", k), func() {
				// Which number it is to have is known under the lock only.
				p := r[1].e.peers.At(0)
				f := numbered(0)
				f.Origin = 1
				p.mu.Lock()
				r[1].sent[0]++
				f.Head[0] = r[1].sent[0]
				ok := p.out.put(kindFrame, &f)
				p.knock()
				p.mu.Unlock()
				l.Check(ok, "no room")
			})
		}
	}},
	{"a waiter", 0, func(l *lab) {
		r := l.at(2)
		r[0].waiter(1, 1)
		r[1].sender(0, 1)
	}},
	{"a waiter, and more", 1_000, func(l *lab) {
		r := l.at(2)
		r[0].waiter(1, 1)
		r[1].sender(0, 2)
	}},
	{"a waiter between two senders", 1_000, func(l *lab) {
		r := l.at(3)
		r[0].waiter(1, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"a seeker", 0, func(l *lab) {
		r := l.at(2)
		r[0].seeker(1, 1)
		r[1].sender(0, 1)
	}},
	{"a seeker, and more", 1_000, func(l *lab) {
		r := l.at(2)
		r[0].seeker(1, 1)
		r[1].sender(0, 2)
	}},
	{"a seeker of the second", 1_000, func(l *lab) {
		r := l.at(2)
		r[0].seeker(1, 2)
		r[1].sender(0, 2)
	}},
	{"a seeker and a waiter", 1_000, func(l *lab) {
		r := l.at(3)
		r[0].seeker(1, 1)
		r[0].waiter(2, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"two waiters", 1_000, func(l *lab) {
		r := l.at(2)
		r[0].waiter(1, 1)
		r[0].waiter(1, 2)
		r[1].sender(0, 2)
	}},
	{"two waiters, two senders", 1_000, func(l *lab) {
		r := l.at(3)
		r[0].waiter(1, 1)
		r[0].waiter(2, 1)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
	}},
	{"who says that it will look", 0, func(l *lab) {
		r := l.at(2)
		r[1].sender(0, 1)
		r[0].visits()
	}},
	{"who says so, and more", 1_000, func(l *lab) {
		r := l.at(2)
		r[1].sender(0, 2)
		r[0].visits()
	}},
	{"two who say so", 1_000, func(l *lab) {
		r := l.at(2)
		r[1].sender(0, 1)
		r[0].visits()
		r[0].visits()
	}},
	{"who polls in a loop", 1_000, func(l *lab) {
		r := l.at(2)
		r[1].sender(0, 2)
		r[0].Go("0 tester", func() {
			for range 3 {
				r[0].g.Try()
			}
		})
	}},
	{"who polls", 1_000, func(l *lab) {
		r := l.at(3)
		r[1].sender(0, 1)
		r[2].sender(0, 1)
		r[0].Go("0 poll", func() { r[0].g.Poll() })
	}},
	{"an answer", 0, func(l *lab) { // each has a sleeper, and sends while it looks
		r := l.at(2)
		r[1].sleeps()
		r[1].atRest()
		r[0].each = func(_ int, n uint64) {
			if n == 1 {
				r[0].send(1, false)
			}
		}
		r[1].sender(0, 1)
	}},
	{"the first frame", 0, func(l *lab) { // it comes from somebody who is not known
		r := l.job(3)
		r[0].sleeps()
		r[0].atRest()
		r[1].sender(0, 1)
		r[0].visits()
	}},
	{"the first frames of two", 1_000, func(l *lab) {
		r := l.job(3)
		r[0].sleeps()
		r[0].atRest()
		r[1].sender(0, 1)
		r[2].sender(0, 1)
		r[0].visits()
	}},
}

// TestExploreAwake: to send to a rank where somebody looks takes no system call, whoever else comes
// and goes.
func TestExploreAwake(t *testing.T) { exploreAll(t, awakePrograms) }

var awakePrograms = []program{
	{"with two senders", 0, func(l *lab) {
		r := l.at(3)
		in, over := make(xatomic.Chan[struct{}], 1), make(xatomic.Chan[struct{}], 1)
		r[0].Go("0 looker", func() {
			for !r[0].g.Enter() {
				xatomic.Pause()
			}
			in.Send(struct{}{})
			over.Recv()
			l.Check(r[1].pulls == 0, "%d system calls to wake one who is awake", r[1].pulls)
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
	{"one system call", 0, func(l *lab) { // however many send to one who sleeps
		r := l.at(3)
		r[1].sender(0, 2)
		r[2].sender(0, 1)
		l.End(func() error {
			if n := r[0].e.bell.most; n > 1 {
				return fmt.Errorf("%d system calls to wake one who sleeps", n)
			}
			return nil
		})
	}},
}
