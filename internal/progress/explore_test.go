//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"errors"
	"fmt"
	"testing"

	"weft/internal/explore"
	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// system is one source of a turn: a socket, the sets of epoll, the sleeper's place in Go's poller,
// and the timer. It keeps to what the kernel says of these: a set speaks when it becomes ready, or
// is armed while it is; who was woken finds out by asking, which takes the arming with it; a word
// to one who has not got up since the last is one with that. Or, quiet, it is memory that a sender
// shares: he writes there, and then looks whether he is to ring, which takes the arming with it;
// what is there when it is armed rings nobody.
type system struct {
	*explore.Run
	fabric.NoSource
	t     turn
	rapid bool // who has found something is likely to be back
	quiet bool

	mu    xatomic.Mutex
	sent  int  // guarded by mu: to the socket
	read  int  // guarded by mu
	armed bool // guarded by mu: outer speaks
	apart bool // guarded by mu: the socket is in no set
	rung  bool // guarded by mu: the sleeper has something in bell, which he has not taken note of
	wish  bool // guarded by mu: of a caller

	bell  xatomic.Chan[struct{}] // to the sleeper
	timer xatomic.Chan[struct{}] // to the guard
	due   bool                   // guarded by mu: there is something in timer

	// Of who has the turn.
	// how often others than the guard have left having found something, and as the guard has seen
	// it
	left, seen int
}

func newSystem(r *explore.Run, rapid, quiet bool) *system {
	s := &system{Run: r, rapid: rapid, quiet: quiet, armed: true, bell: make(xatomic.Chan[struct{}], 1), timer: make(xatomic.Chan[struct{}], 1)}
	s.t.init(s, []fabric.Source{s}, 1)
	r.Name("turn", &s.t)
	r.Daemon("sleeper", func() {
		for {
			s.bell.Recv()
			s.mu.Lock()
			s.rung = false
			spoken := s.quiet || s.armed && s.readyLocked()
			s.armed = s.armed && (s.quiet || !spoken)
			s.mu.Unlock()
			if spoken {
				s.t.rung(0)
			}
		}
	})
	r.Daemon("guard", func() {
		for {
			s.timer.Recv()
			s.mu.Lock()
			s.due = false
			s.mu.Unlock()
			for !s.t.watch() {
				xatomic.Pause()
			}
		}
	})
	r.End(func() error {
		switch {
		case s.read != s.sent:
			return fmt.Errorf("%d of %d frames are read", s.read, s.sent)
		case s.wish:
			return errors.New("a call is not served")
		case s.t.word.Load()&polling != 0:
			return errors.New("somebody looks for ever")
		case !s.armed || s.apart:
			return fmt.Errorf("armed: %v, apart: %v: what comes now is not heard", s.armed, s.apart)
		}
		return nil
	})
	return s
}

func (s *system) readyLocked() bool { return !s.apart && s.read < s.sent }

// change makes a step of the kernel, and has the sleeper up if outer speaks.
func (s *system) change(f func()) {
	s.mu.Lock()
	f()
	ring := !s.quiet && s.armed && s.readyLocked() && !s.rung
	s.rung = s.rung || ring
	s.mu.Unlock()
	if ring {
		s.bell.Send(struct{}{})
	}
}

// send is a sender's frame.
func (s *system) send() {
	s.change(func() { s.sent++ })
	if s.quiet {
		s.RingDoorbell()
	}
}

func (s *system) Arm(on bool, why fabric.Leaving) fabric.Armed {
	if on && why == fabric.LeavingForSoon {
		s.change(func() { s.apart = true })
		return fabric.ArmDeferred
	}
	if on {
		s.change(func() { s.apart = false })
	}
	s.change(func() { s.armed = on })
	if s.quiet && on { // what is here does not ring: shared memory
		s.mu.Lock()
		here := s.read < s.sent
		s.mu.Unlock()
		if here {
			return fabric.SomethingHere
		}
	}
	return fabric.ArmedFully
}

// soon is true for who has found something, and for the guard, if such a one has left since it was
// here last.
func (s *system) soon() bool {
	if !s.rapid {
		return false
	}
	if s.t.up.Load() {
		if s.seen == s.left {
			return false
		}
		s.seen = s.left
	} else {
		s.left++
	}
	return true
}

func (s *system) guard() {
	s.mu.Lock()
	set := !s.due
	s.due = true
	s.mu.Unlock()
	if set {
		s.timer.Send(struct{}{})
	}
}

func (s *system) Poll(bool) bool {
	s.mu.Lock()
	did := s.read < s.sent // of what is apart, too: that is read directly
	s.read = s.sent
	s.mu.Unlock()
	return did
}

// Knock rings the doorbell if it is armed, for what is here already.
func (s *system) RingDoorbell() {
	s.mu.Lock()
	ring := s.armed
	s.armed = false
	s.mu.Unlock()
	if ring {
		s.bell.Send(struct{}{})
	}
}

func (s *system) linger() { s.Poll(false) }

func (s *system) Serve() {
	s.mu.Lock()
	s.wish = false
	s.mu.Unlock()
}

// Who takes part.

func (s *system) sender(n int) {
	s.Go("sender", func() {
		for range n {
			s.send()
		}
	})
}

// waiter looks for long, and finds something or not.
func (s *system) waiter(name string, looks int) {
	s.Go(name, func() {
		for range looks {
			if s.t.enter() {
				s.t.disarm(1)
				s.t.leave(s.Poll(false))
			}
		}
	})
}

// passer looks once, and does not disarm.
func (s *system) passer() {
	s.Go("passer-by", func() {
		if s.t.enter() {
			s.t.leave(s.Poll(false))
		}
	})
}

// tester polls in a loop: it looks once each time, but is back soon, so it disarms, and leaves as
// if it had found something.
func (s *system) tester(looks int) {
	s.Go("tester", func() {
		for range looks {
			if s.t.enter() {
				s.t.disarm(1)
				s.Poll(false)
				s.t.leave(true)
			}
		}
	})
}

func (s *system) caller() {
	s.Go("caller", func() {
		s.change(func() { s.wish = true })
		s.t.call()
	})
}

// program is what is explored: all orders, or so many by chance.
type program struct {
	name  string
	some  int
	rapid bool
	setup func(*system)
}

func exploreAll(t *testing.T, quiet bool, programs []program) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(newSystem(r, p.rapid, quiet)) })
		})
	}
}

// In the end all that was sent is read, all calls are served, and what comes next will be heard.
func TestExploreTurn(t *testing.T) { exploreAll(t, false, turnPrograms) }

// The same where the sender rings, and what is here when a source is armed does not.
func TestExploreQuiet(t *testing.T) { exploreAll(t, true, turnPrograms) }

var turnPrograms = []program{
	{"a sender", 0, false, func(s *system) { s.sender(2) }},
	{"a waiter", 0, false, func(s *system) { s.sender(1); s.waiter("waiter", 1) }},
	{"a passer-by", 0, false, func(s *system) { s.sender(1); s.passer() }},
	{"a caller", 0, false, func(s *system) { s.sender(1); s.caller() }},
	{"a caller and a waiter", 20_000, false, func(s *system) { s.sender(1); s.caller(); s.waiter("waiter", 1) }},
	{"two callers", 20_000, false, func(s *system) { s.sender(1); s.caller(); s.caller() }},
	{"a waiter, and more", 20_000, false, func(s *system) { s.sender(2); s.waiter("waiter", 2) }},
	{"two waiters", 20_000, false, func(s *system) { s.sender(2); s.waiter("waiter", 1); s.waiter("another", 1) }},
}

// The same where those who find something leave without arming.
func TestExploreRapid(t *testing.T) {
	exploreAll(t, false, []program{
		{"a waiter", 0, true, func(s *system) { s.sender(1); s.waiter("waiter", 1) }},
		{"a waiter, and more", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 2) }},
		{"a waiter and a passer-by", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 1); s.passer() }},
		{"a tester", 0, true, func(s *system) { s.sender(1); s.tester(1) }},
		{"a tester, and more", 20_000, true, func(s *system) { s.sender(2); s.tester(2) }},
		{"a tester and a waiter", 20_000, true, func(s *system) { s.sender(2); s.tester(1); s.waiter("waiter", 1) }},
		{"a waiter and a caller", 20_000, true, func(s *system) { s.sender(1); s.waiter("waiter", 1); s.caller() }},
		{"two waiters", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 2); s.waiter("another", 1) }},
	})
}
