//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"fmt"

	"weft/internal/chain"
)

// The code below is for explorations, of this package and of package task.

// Lab names the words of q for the explorer, and gives each slot a small ring.
func (q *Scheduler) Lab(name func(string, any)) {
	name("idle", &q.idle)
	name("inject", &q.inject)
	name("high", &q.high)
	name("low", &q.low)
	for i, s := range q.slots {
		s.deque.init(4)
		name(fmt.Sprintf("deque%d", i), &s.deque)
		name(fmt.Sprintf("sema%d", i), &s.sema)
	}
}

// Inject queues n before anything runs.
func (q *Scheduler) Inject(n *chain.Node) { q.inject.push(n) }

// Park puts s on the list of parked slots before anything runs, and Sleep then sleeps, as Hunt
// does.
func (s *Slot) Park() {
	i := &s.q.idle
	i.list = append(i.list, s)
	i.parked.Add(1)
}

func (s *Slot) Sleep() { s.sema.sleep() }

// AtRest returns what keeps q from being at rest when no goroutine can continue.
func (q *Scheduler) AtRest() error {
	if what := q.NotAtRest(); what != "" {
		return fmt.Errorf("at rest: %s; %d of %d slots are on the list, parked is %d and hunting %d",
			what, len(q.idle.list), len(q.slots), q.idle.parked.Load(), q.idle.hunting.Load())
	}
	for _, s := range q.slots {
		if len(s.sema.ch) != 0 {
			return fmt.Errorf("slot %d sleeps, but is woken", s.ID)
		}
	}
	return nil
}
