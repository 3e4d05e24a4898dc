// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"fmt"
	"slices"
	"testing"

	"weft/internal/fabric"

	"github.com/stretchr/testify/require"
)

// script is the policy of a turn and its one source, and keeps a log.
type script struct {
	fabric.NoSource
	t      *testing.T
	u      *turn
	log    []string
	soon   bool
	here   int    // how often Arm returns SomethingHere
	serves func() // if not nil, called in Serve
	arms   func() // if not nil, called when it is armed
	whys   []fabric.Leaving
}

func (s *script) say(what string) { s.log = append(s.log, what) }

func (s *script) Arm(on bool, why fabric.Leaving) fabric.Armed {
	require.Equal(s.t, on, s.u.armed == 1, "armed is set before Arm: the doorbell may ring at once")
	if !on {
		s.say("disarm")
		return fabric.ArmedFully
	}
	s.whys = append(s.whys, why)
	if s.arms != nil {
		defer s.arms()
	}
	switch {
	case why == fabric.LeavingForSoon:
		s.say("defer")
		return fabric.ArmDeferred
	case s.here > 0:
		s.here--
		s.say("arm, something")
		return fabric.SomethingHere
	}
	s.say("arm")
	return fabric.ArmedFully
}

func (s *script) morePollsSoon() bool { return s.soon }

func (s *script) startGuard() {
	s.say("guard")
	require.True(s.t, s.u.guarded)
}

func (s *script) Poll(bool) bool {
	s.say("poll")
	require.Zero(s.t, s.u.armed, "it is polled while disarmed")
	return true
}

func (s *script) RingDoorbell() { s.say("ring") }

func (s *script) pollBriefly() {
	s.say("poll briefly")
	require.True(s.t, s.u.background.Load())
}

func (s *script) Serve() {
	s.say("serve")
	if s.serves != nil {
		s.serves()
	}
}

// Each path through the steps makes exactly the expected calls.
func TestSteps(t *testing.T) {
	for _, row := range []struct {
		name string
		soon bool
		run  func(*turn, *script)
		want []string
	}{
		{"a single poll", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			require.False(t, u.enter(), "a goroutine has the turn")
			u.leave(false)
			require.True(t, u.enter())
		}, nil}, // the source stays armed
		{"polling for long", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.disarm(1)
			u.disarm(1)
			require.Zero(t, u.armed)
			u.leave(true)
		}, []string{"disarm", "arm"}},
		{"rapid polls", true, func(u *turn, s *script) {
			for range 3 {
				require.True(t, u.enter())
				u.disarm(1)
				u.leave(true)
			}
		}, []string{"disarm", "defer", "guard", "defer", "defer"}},
		{"the guard, after rapid polls", true, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.disarm(1)
			require.False(t, u.guardPoll(), "a goroutine has the turn")
			u.leave(true)
			s.soon = false
			require.True(t, u.guardPoll())
		}, []string{"disarm", "defer", "guard", "poll", "arm"}},
		{"a call while a goroutine polls", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.call()
			require.True(t, u.word.Load() == polling|called)
			u.leave(false)
			require.False(t, u.word.Load() == polling|called)
		}, []string{"serve"}},
		{"a call while no goroutine polls", false, func(u *turn, s *script) { u.call() }, []string{"serve"}},
		{"the doorbell goroutine", false, func(u *turn, s *script) {
			u.rung(0)
			require.False(t, u.request())
			// It also serves its own call, which costs little.
		}, []string{"serve", "poll briefly", "arm", "serve"}},
		{"the doorbell goroutine, while a goroutine polls", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.rung(0)
			u.leave(true)
			require.True(t, u.enter())
		}, []string{"serve", "poll", "arm"}},
		{"a request to the doorbell goroutine", false, func(u *turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.False(t, u.requested.Load())
					require.True(t, u.request())
					require.True(t, u.requested.Load())
				}
			}
			u.rung(0)
		}, []string{"serve", "poll briefly", "arm", "serve"}},
		{"the doorbell goroutine, after a request", false, func(u *turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.True(t, u.request())
				}
			}
			u.rung(0)
			require.True(t, u.requested.Load())
			s.serves = func() { require.False(t, u.requested.Load(), "the earlier request is over") }
			u.rung(0)
		}, []string{"serve", "poll briefly", "arm", "serve", "serve", "poll briefly", "arm", "serve"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := new(turn)
			s := &script{t: t, u: u, soon: row.soon}
			u.init(s, []fabric.Source{s}, 1)
			require.EqualValues(t, 1, u.armed)
			row.run(u, s)
			require.Equal(t, row.want, s.log)
			require.False(t, u.background.Load())
		})
	}
}

// A frame is there that the leaving goroutine may not read, and the doorbell goroutine calls each
// time the source is armed. The leaving goroutine does not arm for ever, but starts the guard.
func TestLeavesInTheEnd(t *testing.T) {
	u := new(turn)
	s := &script{t: t, u: u}
	u.init(s, []fabric.Source{s}, 1)
	u.armed = 0
	s.arms = func() { u.rung(0) }
	u.call()
	require.Equal(t, []string{"arm", "serve", "arm", "serve", "guard"}, s.log)
	s.arms = nil
	require.True(t, u.guardPoll())
	require.Equal(t, []string{"poll", "arm"}, s.log[5:])
}

// Arming is deferred only at the caller's first try to leave: if it was called meanwhile, it arms.
func TestDefersOnce(t *testing.T) {
	u := new(turn)
	s := &script{t: t, u: u, soon: true}
	u.init(s, []fabric.Source{s}, 1)
	require.True(t, u.enter())
	u.disarm(1)
	s.arms = func() {
		s.arms = nil
		u.rung(0)
	}
	u.leave(true)
	require.Equal(t, []string{"disarm", "defer", "guard", "serve", "poll", "arm"}, s.log)
	require.Equal(t, []fabric.Leaving{fabric.LeavingForSoon, fabric.LeavingFound}, s.whys)
	require.True(t, u.enter())
	require.False(t, u.word.Load() == polling|called)
	u.call()
	require.True(t, u.word.Load() == polling|called)
	u.leave(true)
	require.False(t, u.word.Load() == polling|called)
}

// A goroutine that leaves delivers frames that are there when it arms, a few times. Then, or if it
// may not poll, it rings the doorbell.
func TestSomethingIsHere(t *testing.T) {
	for _, row := range []struct {
		here int
		call bool
		want []string
	}{
		{1, false, []string{"arm, something", "poll", "arm"}},
		{leaveAfter, false, append(slices.Repeat([]string{"arm, something", "poll"}, leaveAfter), "arm")},
		{leaveAfter + 1, false, append(slices.Repeat([]string{"arm, something", "poll"}, leaveAfter), "arm, something", "ring")},
		{1, true, []string{"arm, something", "ring", "serve"}},
	} {
		u := new(turn)
		s := &script{t: t, u: u, here: row.here}
		u.init(s, []fabric.Source{s}, 0)
		u.armed = 0
		if row.call {
			u.call()
		} else {
			require.True(t, u.enter())
			u.leave(true)
		}
		require.Equal(t, row.want, s.log)
		require.EqualValues(t, 1, u.armed)
		require.True(t, u.enter(), "the turn is free")
	}
}

// Each of several sources is armed by itself. A source that is cheap to arm is disarmed while a
// doorbell goroutine polls; only arming of a costly source is deferred.
func TestSeveralSources(t *testing.T) {
	u, s := new(turn), &many{}
	u.init(s, []fabric.Source{one{s: s, i: 0}, one{s: s, i: 1}, one{s: s, i: 2}}, 0b010)
	require.True(t, u.enter())
	u.disarm(0b110)
	require.EqualValues(t, 0b001, u.armed)
	s.soon = true
	u.leave(true)
	require.Equal(t, []string{"disarm 1", "disarm 2", "defer 1", "arm 2", "guard"}, s.takeLog())
	require.EqualValues(t, 0b101, u.armed)
	s.soon = false
	u.rung(2)
	require.Equal(t, []string{"disarm 0", "disarm 2", "arm 0", "arm 1", "arm 2"}, s.takeLog())
	require.True(t, u.guardPoll())
	require.Equal(t, []string{"poll 0", "poll 1", "poll 2"}, s.takeLog())
	require.True(t, u.enter())
	u.all &^= 0b010
	u.armed &^= 0b010
	u.leave(true)
	require.Empty(t, s.takeLog(), "it is not polled any more")
}

type many struct {
	log  []string
	soon bool
}

func (s *many) takeLog() []string {
	l := s.log
	s.log = nil
	return l
}

func (s *many) say(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

func (s *many) morePollsSoon() bool { return s.soon }
func (s *many) startGuard()         { s.say("guard") }
func (s *many) pollBriefly()        {}

// one is one of the sources of many.
type one struct {
	fabric.NoSource
	s *many
	i int
}

func (o one) Arm(on bool, why fabric.Leaving) fabric.Armed {
	switch {
	case !on:
		o.s.say("disarm %d", o.i)
	case why == fabric.LeavingForSoon && o.i == 1:
		o.s.say("defer %d", o.i)
		return fabric.ArmDeferred
	default:
		o.s.say("arm %d", o.i)
	}
	return fabric.ArmedFully
}

func (o one) Poll(bool) bool { o.s.say("poll %d", o.i); return true }
