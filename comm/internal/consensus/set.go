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

// Group is a communicator at one of its ranks.
type Group interface {
	// Member returns the rank in the communicator of rank r of the run; -1 if r is no member.
	Member(r int) int
	// Send sends a message of an agreement. If a message cannot be delivered, its receiver is lost,
	// and Set.Lose will be called.
	Send(seq uint32, m *Message)
}

// Set has the agreements of a rank. A communicator is identified by its context, and its agreements
// are numbered. Messages are sent, and completions called, without the lock.
type Set struct {
	mu        sync.Mutex
	sequences map[uint64]*sequence // guarded by mu: by context
	dead      error                // guarded by mu: why no agreement can begin any more
}

// sequence is the agreements of one communicator.
type sequence struct {
	open map[uint32]*Agreement
	// The last agreement that was decided here. Earlier ones are forgotten: a rank that takes part
	// in an agreement has the result of the previous one, or has given up waiting for it.
	decided uint32
}

// Agreement is one agreement at this rank.
type Agreement struct {
	Group     Group  // nil: this rank has not begun the agreement yet
	Number    uint64 // among the communicator's collectives; 0: the agreement is not one of them
	Instance  *Instance
	complete  func(error)
	early     []RawMessage // messages that arrived before this rank began the agreement
	completed bool         // complete was called, or will be
}

// RawMessage is a message from rank Src of the run. Read decodes it, given the number of members.
type RawMessage struct {
	Src  int
	Read func(members int) (Message, error)
}

// ErrPassed is the error of an agreement for which the other ranks do not wait any more.
var ErrPassed = errors.New("a later agreement was decided before this one")

// ErrNoMember is the error of a message whose sender is no member of the communicator.
var ErrNoMember = errors.New("it sends to an agreement of others")

// Waits reports whether the rank waits for the agreement.
func (a *Agreement) Waits() bool { return a.Group != nil && !a.completed }

// get returns an agreement, and makes it if it does not exist; nil if a later one was decided.
// +checklocks:s.mu
func (s *Set) get(ctx uint64, seq uint32) *Agreement {
	k := s.sequences[ctx]
	if k == nil {
		if s.sequences == nil {
			s.sequences = make(map[uint64]*sequence)
		}
		k = &sequence{open: make(map[uint32]*Agreement)}
		s.sequences[ctx] = k
	}
	a := k.open[seq]
	if a == nil && seq > k.decided {
		a = &Agreement{}
		k.open[seq] = a
	}
	return a
}

// settle forgets the agreements before a, if a is decided now. It returns a function that sends a's
// messages and completes the agreements that are over; the function is called without the lock.
// +checklocks:s.mu
func (s *Set) settle(ctx uint64, seq uint32, a *Agreement, out []Message) (then func()) {
	var over []*Agreement
	var passed int
	if k := s.sequences[ctx]; a.Instance.Out != nil && !a.completed {
		k.decided = seq // earlier agreements are not open any more
		for old, o := range k.open {
			if old < seq {
				delete(k.open, old)
				if o.Waits() {
					o.completed = true
					over = append(over, o)
				}
			}
		}
		passed = len(over)
		a.completed = true
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

// Begin takes part in an agreement, as rank me of n. It calls propose with the agreement open and
// the lock held. propose returns the ranks that are known to be lost, and the value of this rank.
// For a rank that is lost later, the caller calls Lose, which waits for the lock. The decision is
// in the Instance when complete has been called with nil. missed says that the program of this rank
// does not wait: complete is not called then.
//
// If the rank cannot take part any more, Begin calls complete with an error and returns nil. The
// second result is the early messages that are no messages of this agreement; their senders are at
// fault.
func (s *Set) Begin(ctx uint64, seq uint32, mine Agreement, n, me int, propose func() (gone Members, v *Value), missed bool, complete func(error)) (*Agreement, []RawMessage) {
	s.mu.Lock()
	err := s.dead
	var a *Agreement
	if err == nil {
		if a = s.get(ctx, seq); a == nil { // another goroutine of this rank has begun a later one
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
	a.complete, a.completed = complete, missed
	gone, v := propose()
	b, out := New(n, me, gone, v)
	a.Instance = b
	var bad []RawMessage
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

// Arrive handles a message of an agreement. If this rank has not begun the agreement, the message
// is kept, up to most messages of one agreement.
func (s *Set) Arrive(ctx uint64, seq uint32, most int, l RawMessage) error {
	s.mu.Lock()
	then, err := s.arrive(ctx, seq, most, l)
	s.mu.Unlock()
	if then != nil {
		then()
	}
	return err
}

// arrive is Arrive with the lock held. The caller calls then without the lock, if it is not nil.
// +checklocks:s.mu
func (s *Set) arrive(ctx uint64, seq uint32, most int, l RawMessage) (then func(), err error) {
	if s.dead != nil {
		return nil, nil
	}
	a := s.get(ctx, seq)
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
	m, err := l.Read(a.Instance.n)
	switch {
	case err != nil:
		return nil, err
	case from < 0:
		return nil, ErrNoMember
	}
	var out []Message
	if !a.Instance.Gone.Has(from) {
		out = a.Instance.Receive(from, &m)
	}
	return s.settle(ctx, seq, a, out), nil
}

// Lose notes in all agreements that rank r of the run is lost.
func (s *Set) Lose(r int) {
	var steps []func()
	s.Each(func(ctx uint64, seq uint32, a *Agreement) {
		if a.Group == nil {
			return
		}
		if m := a.Group.Member(r); m >= 0 {
			steps = append(steps, s.settle(ctx, seq, a, a.Instance.Lose(m)))
		}
	})
	for _, then := range steps {
		then()
	}
}

// Each calls f for each open agreement, with the lock held.
func (s *Set) Each(f func(ctx uint64, seq uint32, a *Agreement)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx, k := range s.sequences {
		for seq, a := range k.open {
			f(ctx, seq, a)
		}
	}
}

// End ends the waiting for the agreements of a context whose Number is at least from. The rank
// still takes part in them with its value, as it does after a context.Context has ended the
// waiting.
func (s *Set) End(ctx, from uint64, err error) {
	var all []func(error)
	s.mu.Lock()
	if k := s.sequences[ctx]; k != nil {
		for _, a := range k.open {
			if a.Waits() && a.Number >= from {
				a.completed = true
				all = append(all, a.complete)
			}
		}
	}
	s.mu.Unlock()
	for _, complete := range all {
		complete(err)
	}
}

// Kill ends the waiting for all agreements, and lets none begin any more.
func (s *Set) Kill(err error) {
	s.mu.Lock()
	s.dead = err
	contexts := slices.Collect(maps.Keys(s.sequences))
	s.mu.Unlock()
	for _, ctx := range contexts {
		s.End(ctx, 0, err)
	}
}
