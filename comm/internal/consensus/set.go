// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package consensus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Group is a communicator at a rank of it.
type Group interface {
	// Member returns which of the communicator's ranks rank r of the run is, -1 if it is none.
	Member(r int) int
	// Send sends a message of an agreement. A rank that does not get one is lost, which will be
	// heard of.
	Send(seq uint32, m *Message)
}

// Set are the agreements of a rank. Those of a communicator, which its context names, are numbered.
// Messages are sent, and completions called, without the lock.
type Set struct {
	mu      sync.Mutex
	circles map[uint64]*circle // guarded by mu: by context
	dead    error              // guarded by mu: why there are no more
}

// circle are the agreements of one communicator.
type circle struct {
	open map[uint32]*Agreement
	// done is the last agreement that was decided here. What came before it is of no interest to
	// anybody: a rank that takes part in an agreement has the result of the one before, or does not
	// want it any more.
	done uint32
}

// Agreement is one of them, at this rank.
type Agreement struct {
	Group    Group  // nil: this rank has not come yet
	Number   uint64 // among the communicator's collectives; 0: it is not one of them
	Ballot   *Instance
	complete func(error)
	early    []Letter // for a rank that has not come yet
	told     bool     // complete was called, or will be
}

// Letter is a message from a rank of the run.
type Letter struct {
	Src  int
	Read func(members int) (Message, error)
}

// ErrPassed is the error of an agreement that the others have given up waiting for.
var ErrPassed = errors.New("a later agreement was decided before this one")

// ErrStranger is the error of a message whose sender is no member.
var ErrNoMember = errors.New("it sends to an agreement of others")

// Waits reports whether the rank waits for the agreement.
func (a *Agreement) Waits() bool { return a.Group != nil && !a.told }

// at returns an agreement, and makes it if it is not of the past; nil if it is.
// +checklocks:s.mu
func (s *Set) at(ctx uint64, seq uint32) *Agreement {
	k := s.circles[ctx]
	if k == nil {
		if s.circles == nil {
			s.circles = make(map[uint64]*circle)
		}
		k = &circle{open: make(map[uint32]*Agreement)}
		s.circles[ctx] = k
	}
	a := k.open[seq]
	if a == nil && seq > k.done {
		a = &Agreement{}
		k.open[seq] = a
	}
	return a
}

// settle forgets what an agreement that is now decided makes useless, and returns what sends its
// messages and ends the waits. +checklocks:s.mu
func (s *Set) settle(ctx uint64, seq uint32, a *Agreement, out []Message) (then func()) {
	var over []*Agreement
	var passed int
	if k := s.circles[ctx]; a.Ballot.Out != nil && !a.told {
		k.done = seq // what was before is not open any more
		for old, o := range k.open {
			if old < seq {
				delete(k.open, old)
				if o.Waits() {
					o.told = true
					over = append(over, o)
				}
			}
		}
		passed = len(over)
		a.told = true
		over = append(over, a)
	}
	return func() {
		for i := range out {
			a.Group.Send(seq, &out[i])
		}
		for i, o := range over {
			var err error
			if i < passed {
				err = ErrPassed
			}
			o.complete(err)
		}
	}
}

// Begin takes part in an agreement, as rank me of n. vote is called with the agreement open, and
// returns those that are known to be lost, and what the rank brings; of a rank that is lost later
// the set hears when the lock is free. The result is there when complete has been called with nil.
// missed: the program of this rank does not wait. Begin returns nil, and has called complete, if
// the rank cannot take part any more. Behind it are those that have sent what is no message of this
// agreement.
func (s *Set) Begin(ctx uint64, seq uint32, mine Agreement, n, me int, vote func() (gone Members, v *Value), missed bool, complete func(error)) (*Agreement, []Letter) {
	s.mu.Lock()
	err := s.dead
	var a *Agreement
	if err == nil {
		if a = s.at(ctx, seq); a == nil { // another goroutine has come to the next one in its place
			err = ErrPassed
		}
	}
	if err != nil {
		s.mu.Unlock()
		complete(err)
		return nil, nil
	}
	early := a.early
	*a = mine
	a.complete, a.told = complete, missed
	gone, v := vote()
	b, out := New(n, me, gone, v)
	a.Ballot = b
	var bad []Letter
	for _, l := range early {
		from := a.Group.Member(l.Src)
		m, err := l.Read(n)
		switch {
		case err != nil || from < 0:
			bad = append(bad, l)
		case !gone.Has(from):
			out = append(out, b.Receive(from, &m)...)
		}
	}
	then := s.settle(ctx, seq, a, out)
	s.mu.Unlock()
	then()
	return a, bad
}

// Arrive takes a message. So many of one agreement, and no more, wait for a rank that has not come
// yet.
func (s *Set) Arrive(ctx uint64, seq uint32, most int, l Letter) error {
	s.mu.Lock()
	then, err := s.arrive(ctx, seq, most, l)
	s.mu.Unlock()
	if then != nil {
		then()
	}
	return err
}

// +checklocks:s.mu
func (s *Set) arrive(ctx uint64, seq uint32, most int, l Letter) (then func(), err error) {
	if s.dead != nil {
		return nil, nil
	}
	a := s.at(ctx, seq)
	switch {
	case a == nil:
		return nil, nil
	case a.Group == nil && len(a.early) >= most:
		return nil, fmt.Errorf("it sends %d messages to an agreement that this rank has not come to", len(a.early))
	case a.Group == nil:
		a.early = append(a.early, l)
		return nil, nil
	}
	from := a.Group.Member(l.Src)
	m, err := l.Read(a.Ballot.n)
	switch {
	case err != nil:
		return nil, err
	case from < 0:
		return nil, ErrNoMember
	}
	var out []Message
	if !a.Ballot.Gone.Has(from) {
		out = a.Ballot.Receive(from, &m)
	}
	return s.settle(ctx, seq, a, out), nil
}

// Lose tells all agreements that rank r of the run is lost.
func (s *Set) Lose(r int) {
	var steps []func()
	s.Each(func(ctx uint64, seq uint32, a *Agreement) {
		if a.Group == nil {
			return
		}
		if m := a.Group.Member(r); m >= 0 {
			steps = append(steps, s.settle(ctx, seq, a, a.Ballot.Lose(m)))
		}
	})
	for _, then := range steps {
		then()
	}
}

// Each calls f for each agreement that is open, with the lock.
func (s *Set) Each(f func(ctx uint64, seq uint32, a *Agreement)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx, k := range s.circles {
		for seq, a := range k.open {
			f(ctx, seq, a)
		}
	}
}

// End ends the waiting for the agreements of a context, from a number on. Their votes stay, as
// where a context.Context has ended the waiting.
func (s *Set) End(ctx, from uint64, err error) {
	var all []func(error)
	s.mu.Lock()
	if k := s.circles[ctx]; k != nil {
		for _, a := range k.open {
			if a.Waits() && a.Number >= from {
				a.told = true
				all = append(all, a.complete)
			}
		}
	}
	s.mu.Unlock()
	for _, complete := range all {
		complete(err)
	}
}

// Kill ends all agreements.
func (s *Set) Kill(err error) {
	s.mu.Lock()
	s.dead = err
	contexts := slices.Collect(maps.Keys(s.circles))
	s.mu.Unlock()
	for _, ctx := range contexts {
		s.End(ctx, 0, err)
	}
}
