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

// script is a kernel of one source that keeps a log.
type script struct {
	fabric.NoSource
	t      *testing.T
	u      *turn
	log    []string
	isSoon bool
	here   int    // how often something is here when it is armed
	serves func() // nil, or what happens in serve
	arms   func() // nil, or what happens when it is armed
	whys   []fabric.Leaving
}

func (s *script) say(what string) { s.log = append(s.log, what) }

func (s *script) Arm(on bool, why fabric.Leaving) fabric.Armed {
	require.Equal(s.t, on, s.u.armed == 1, "it is so before it is done: what comes at once finds it so")
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
		s.say("later")
		return fabric.ArmDeferred
	case s.here > 0:
		s.here--
		s.say("arm, here")
		return fabric.SomethingHere
	}
	s.say("arm")
	return fabric.ArmedFully
}

func (s *script) soon() bool { return s.isSoon }

func (s *script) guard() {
	s.say("guard")
	require.True(s.t, s.u.guarded)
}

func (s *script) Poll(bool) bool {
	s.say("poll")
	require.Zero(s.t, s.u.armed, "nobody is woken for what comes now")
	return true
}

func (s *script) RingDoorbell() { s.say("knock") }

func (s *script) linger() {
	s.say("linger")
	require.True(s.t, s.u.up.Load())
}

func (s *script) Serve() {
	s.say("serve")
	if s.serves != nil {
		s.serves()
	}
}

// Each way through the steps does what it says, and no more.
func TestSteps(t *testing.T) {
	for _, row := range []struct {
		name string
		soon bool
		run  func(*turn, *script)
		want []string
	}{
		{"a passer-by", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			require.False(t, u.enter(), "somebody looks")
			u.leave(false)
			require.True(t, u.enter())
		}, nil}, // it is armed all the while
		{"who looks for long", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.disarm(1)
			u.disarm(1)
			require.Zero(t, u.armed)
			u.leave(true)
		}, []string{"disarm", "arm"}},
		{"rapid looks", true, func(u *turn, s *script) {
			for range 3 {
				require.True(t, u.enter())
				u.disarm(1)
				u.leave(true)
			}
		}, []string{"disarm", "later", "guard", "later", "later"}},
		{"the guard, behind rapid looks", true, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.disarm(1)
			require.False(t, u.watch(), "somebody looks")
			u.leave(true)
			s.isSoon = false
			require.True(t, u.watch())
		}, []string{"disarm", "later", "guard", "poll", "arm"}},
		{"a call to who looks", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.call()
			require.True(t, u.word.Load() == polling|called)
			u.leave(false)
			require.False(t, u.word.Load() == polling|called)
		}, []string{"serve"}},
		{"a call where nobody looks", false, func(u *turn, s *script) { u.call() }, []string{"serve"}},
		{"the sleeper", false, func(u *turn, s *script) {
			u.rung(0)
			require.False(t, u.insist())
			// it has called itself, too, which costs nothing that matters
		}, []string{"serve", "linger", "arm", "serve"}},
		{"the sleeper, while somebody looks", false, func(u *turn, s *script) {
			require.True(t, u.enter())
			u.rung(0)
			u.leave(true)
			require.True(t, u.enter())
		}, []string{"serve", "poll", "arm"}},
		{"the sleeper makes way", false, func(u *turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.False(t, u.wanted.Load())
					require.True(t, u.insist())
					require.True(t, u.wanted.Load())
				}
			}
			u.rung(0)
		}, []string{"serve", "linger", "arm", "serve"}},
		{"the sleeper, after he made way", false, func(u *turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.True(t, u.insist())
				}
			}
			u.rung(0)
			require.True(t, u.wanted.Load())
			s.serves = func() { require.False(t, u.wanted.Load(), "nobody has insisted this time") }
			u.rung(0)
		}, []string{"serve", "linger", "arm", "serve", "serve", "linger", "arm", "serve"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := new(turn)
			s := &script{t: t, u: u, isSoon: row.soon}
			u.init(s, []fabric.Source{s}, 1)
			require.EqualValues(t, 1, u.armed)
			row.run(u, s)
			require.Equal(t, row.want, s.log)
			require.False(t, u.up.Load())
		})
	}
}

// Something is here that who leaves may not read. The sleeper is up, and calls, whenever he is
// armed: who leaves does not arm for ever, but leaves it to the guard.
func TestLeavesInTheEnd(t *testing.T) {
	u := new(turn)
	s := &script{t: t, u: u}
	u.init(s, []fabric.Source{s}, 1)
	u.armed = 0
	s.arms = func() { u.rung(0) }
	u.call()
	require.Equal(t, []string{"arm", "serve", "arm", "serve", "guard"}, s.log)
	s.arms = nil
	require.True(t, u.watch())
	require.Equal(t, []string{"poll", "arm"}, s.log[5:])
}

// To arm is put off only when the caller first leaves: one who has been called meanwhile arms.
func TestPutsOffOnce(t *testing.T) {
	u := new(turn)
	s := &script{t: t, u: u, isSoon: true}
	u.init(s, []fabric.Source{s}, 1)
	require.True(t, u.enter())
	u.disarm(1)
	s.arms = func() {
		s.arms = nil
		u.rung(0)
	}
	u.leave(true)
	require.Equal(t, []string{"disarm", "later", "guard", "serve", "poll", "arm"}, s.log)
	require.Equal(t, []fabric.Leaving{fabric.LeavingForSoon, fabric.LeavingFound}, s.whys)
	require.True(t, u.enter())
	require.False(t, u.word.Load() == polling|called)
	u.call()
	require.True(t, u.word.Load() == polling|called)
	u.leave(true)
	require.False(t, u.word.Load() == polling|called)
}

// What is here when a source is armed is delivered by who leaves, a few times; then, or where it
// may not, somebody else is woken.
func TestSomethingIsHere(t *testing.T) {
	for _, row := range []struct {
		here int
		call bool
		want []string
	}{
		{1, false, []string{"arm, here", "poll", "arm"}},
		{leaveAfter, false, append(slices.Repeat([]string{"arm, here", "poll"}, leaveAfter), "arm")},
		{leaveAfter + 1, false, append(slices.Repeat([]string{"arm, here", "poll"}, leaveAfter), "arm, here", "knock")},
		{1, true, []string{"arm, here", "knock", "serve"}},
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

// Each of several sources is armed by itself: what is cheap to arm is disarmed while a
// doorbell's goroutine polls; only what is dear to arm is put off.
func TestSeveralSources(t *testing.T) {
	u, s := new(turn), &many{}
	u.init(s, []fabric.Source{one{s: s, i: 0}, one{s: s, i: 1}, one{s: s, i: 2}}, 0b010)
	require.True(t, u.enter())
	u.disarm(0b110)
	require.EqualValues(t, 0b001, u.armed)
	s.isSoon = true
	u.leave(true)
	require.Equal(t, []string{"disarm 1", "disarm 2", "later 1", "arm 2", "guard"}, s.take())
	require.EqualValues(t, 0b101, u.armed)
	s.isSoon = false
	u.rung(2)
	require.Equal(t, []string{"disarm 0", "disarm 2", "arm 0", "arm 1", "arm 2"}, s.take())
	require.True(t, u.watch())
	require.Equal(t, []string{"poll 0", "poll 1", "poll 2"}, s.take())
	require.True(t, u.enter())
	u.all &^= 0b010
	u.armed &^= 0b010
	u.leave(true)
	require.Empty(t, s.take(), "it is not polled any more")
}

type many struct {
	log    []string
	isSoon bool
}

func (s *many) take() []string {
	l := s.log
	s.log = nil
	return l
}

func (s *many) say(format string, args ...any) { s.log = append(s.log, fmt.Sprintf(format, args...)) }

func (s *many) soon() bool { return s.isSoon }
func (s *many) guard()     { s.say("guard") }
func (s *many) linger()    {}

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
		o.s.say("later %d", o.i)
		return fabric.ArmDeferred
	default:
		o.s.say("arm %d", o.i)
	}
	return fabric.ArmedFully
}

func (o one) Poll(bool) bool { o.s.say("poll %d", o.i); return true }
