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

// system is one source of a turn, and the kernel under it: a socket, its epoll sets, the doorbell
// goroutine in Go's poller, and the timer. It follows the kernel's rules. A set fires when it
// becomes ready, or when it is armed while ready. The goroutine that was woken reads the event,
// which disarms the set. Two wake-ups before the goroutine is up are one.
//
// With memory set, the source is memory that senders share. A sender writes its frame, and then
// checks whether it must ring, which disarms the source. Arming it while a frame is there rings
// nothing.
type system struct {
	*explore.Run
	fabric.NoSource
	t      turn
	rapid  bool // a goroutine that has found something is likely to be back
	memory bool // shared memory, not a socket

	mu    xatomic.Mutex
	sent  int  // guarded by mu: frames
	read  int  // guarded by mu: frames
	armed bool // guarded by mu: the set fires
	apart bool // guarded by mu: the socket is in no set
	rung  bool // guarded by mu: a wake-up is in doorbell, or about to be
	wish  bool // guarded by mu: a caller wants Serve

	doorbell xatomic.Chan[struct{}] // to the doorbell goroutine
	timer    xatomic.Chan[struct{}] // to the guard
	due      bool                   // guarded by mu: timer is not empty

	// Owned by the goroutine that has the turn.
	// left is how often goroutines other than the guard have left having found something; seen is
	// its value at the guard's last visit.
	left, seen int
}

func newSystem(r *explore.Run, rapid, memory bool) *system {
	s := &system{Run: r, rapid: rapid, memory: memory, armed: true, doorbell: make(xatomic.Chan[struct{}], 1), timer: make(xatomic.Chan[struct{}], 1)}
	s.t.init(s, []fabric.Source{s}, 1)
	r.Name("turn", &s.t)
	r.Daemon("doorbell goroutine", func() {
		for {
			s.doorbell.Recv()
			s.mu.Lock()
			s.rung = false
			fired := s.memory || s.armed && s.readyLocked()
			s.armed = s.armed && (s.memory || !fired)
			s.mu.Unlock()
			if fired {
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
			for !s.t.guardPoll() {
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
			return errors.New("a goroutine polls for ever")
		case !s.armed || s.apart:
			return fmt.Errorf("armed: %v, apart: %v: the next frame will not ring", s.armed, s.apart)
		}
		return nil
	})
	return s
}

func (s *system) readyLocked() bool { return !s.apart && s.read < s.sent }

// change makes a step of the kernel, and wakes the doorbell goroutine if the set fires.
func (s *system) change(f func()) {
	s.mu.Lock()
	f()
	ring := !s.memory && s.armed && s.readyLocked() && !s.rung
	s.rung = s.rung || ring
	s.mu.Unlock()
	if ring {
		s.doorbell.Send(struct{}{})
	}
}

// send is a sender's frame.
func (s *system) send() {
	s.change(func() { s.sent++ })
	if s.memory {
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
	if s.memory && on {
		s.mu.Lock()
		here := s.read < s.sent
		s.mu.Unlock()
		if here {
			return fabric.SomethingHere
		}
	}
	return fabric.ArmedFully
}

// morePollsSoon is true for a goroutine that has found something. For the guard it is true if such
// a goroutine has left since the guard's last visit.
func (s *system) morePollsSoon() bool {
	if !s.rapid {
		return false
	}
	if s.t.background.Load() {
		if s.seen == s.left {
			return false
		}
		s.seen = s.left
	} else {
		s.left++
	}
	return true
}

func (s *system) startGuard() {
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
	did := s.read < s.sent // also if apart: the socket is read directly
	s.read = s.sent
	s.mu.Unlock()
	return did
}

// RingDoorbell rings if the source is armed.
func (s *system) RingDoorbell() {
	s.mu.Lock()
	ring := s.armed
	s.armed = false
	s.mu.Unlock()
	if ring {
		s.doorbell.Send(struct{}{})
	}
}

func (s *system) pollBriefly() { s.Poll(false) }

func (s *system) Serve() {
	s.mu.Lock()
	s.wish = false
	s.mu.Unlock()
}

// The participants.

func (s *system) sender(n int) {
	s.Go("sender", func() {
		for range n {
			s.send()
		}
	})
}

// waiter polls as a goroutine that polls for long: it disarms first.
func (s *system) waiter(name string, polls int) {
	s.Go(name, func() {
		for range polls {
			if s.t.enter() {
				s.t.disarm(1)
				s.t.leave(s.Poll(false))
			}
		}
	})
}

// poller polls once, and does not disarm.
func (s *system) poller() {
	s.Go("poller", func() {
		if s.t.enter() {
			s.t.leave(s.Poll(false))
		}
	})
}

// tester polls in a loop: it polls once each time, but is back soon. So it disarms, and leaves as
// if it had found something.
func (s *system) tester(polls int) {
	s.Go("tester", func() {
		for range polls {
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

// program is a program to explore.
type program struct {
	name  string
	some  int // 0: all orders; otherwise so many random orders
	rapid bool
	setup func(*system)
}

func exploreAll(t *testing.T, memory bool, programs []program) {
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			explore.TestSome(t, p.some, func(r *explore.Run) { p.setup(newSystem(r, p.rapid, memory)) })
		})
	}
}

// In the end all frames are read, all calls are served, and the next frame will ring.
func TestExploreTurn(t *testing.T) { exploreAll(t, false, turnPrograms) }

// The same with shared memory: the sender rings, and a frame that is there when the source is armed
// does not.
func TestExploreMemory(t *testing.T) { exploreAll(t, true, turnPrograms) }

var turnPrograms = []program{
	{"a sender", 0, false, func(s *system) { s.sender(2) }},
	{"a waiter", 0, false, func(s *system) { s.sender(1); s.waiter("waiter", 1) }},
	{"a poller", 0, false, func(s *system) { s.sender(1); s.poller() }},
	{"a caller", 0, false, func(s *system) { s.sender(1); s.caller() }},
	{"a caller and a waiter", 20_000, false, func(s *system) { s.sender(1); s.caller(); s.waiter("waiter", 1) }},
	{"two callers", 20_000, false, func(s *system) { s.sender(1); s.caller(); s.caller() }},
	{"a waiter, and more", 20_000, false, func(s *system) { s.sender(2); s.waiter("waiter", 2) }},
	{"two waiters", 20_000, false, func(s *system) { s.sender(2); s.waiter("waiter", 1); s.waiter("another", 1) }},
}

// The same where goroutines that find something leave without arming.
func TestExploreRapid(t *testing.T) {
	exploreAll(t, false, []program{
		{"a waiter", 0, true, func(s *system) { s.sender(1); s.waiter("waiter", 1) }},
		{"a waiter, and more", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 2) }},
		{"a waiter and a poller", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 1); s.poller() }},
		{"a tester", 0, true, func(s *system) { s.sender(1); s.tester(1) }},
		{"a tester, and more", 20_000, true, func(s *system) { s.sender(2); s.tester(2) }},
		{"a tester and a waiter", 20_000, true, func(s *system) { s.sender(2); s.tester(1); s.waiter("waiter", 1) }},
		{"a waiter and a caller", 20_000, true, func(s *system) { s.sender(1); s.waiter("waiter", 1); s.caller() }},
		{"two waiters", 20_000, true, func(s *system) { s.sender(2); s.waiter("waiter", 2); s.waiter("another", 1) }},
	})
}
