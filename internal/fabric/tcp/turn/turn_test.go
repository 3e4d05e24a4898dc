// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package turn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// script is a Kernel that keeps a log.
type script struct {
	t      *testing.T
	u      *Turn
	log    []string
	soon   bool
	serves func() // nil, or what happens in Serve
	arms   func() // nil, or what happens when it is armed
	founds []bool // of Soon
}

func (s *script) say(what string) { s.log = append(s.log, what) }

func (s *script) Arm(on bool) {
	s.say(map[bool]string{true: "arm", false: "disarm"}[on])
	require.Equal(s.t, on, s.u.Armed(), "it is so before it is done: what comes at once finds it so")
	if on && s.arms != nil {
		s.arms()
	}
}

func (s *script) Soon(found bool) bool {
	s.founds = append(s.founds, found)
	return s.soon
}

func (s *script) Guard() {
	s.say("guard")
	require.True(s.t, s.u.guarded)
}

func (s *script) Poll() bool {
	s.say("poll")
	require.False(s.t, s.u.guarded, "it is here, and may be called again")
	require.True(s.t, s.u.up.Load())
	return true
}

func (s *script) Linger() {
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
		run  func(*Turn, *script)
		want []string
	}{
		{"a passer-by", false, func(u *Turn, s *script) {
			require.True(t, u.Enter())
			require.False(t, u.Enter(), "somebody looks")
			u.Leave(false)
			require.True(t, u.Enter())
		}, nil}, // it is armed all the while
		{"who looks for long", false, func(u *Turn, s *script) {
			require.True(t, u.Enter())
			u.Disarm()
			u.Disarm()
			require.False(t, u.Armed())
			u.Leave(true)
		}, []string{"disarm", "arm"}},
		{"rapid looks", true, func(u *Turn, s *script) {
			for range 3 {
				require.True(t, u.Enter())
				u.Disarm()
				u.Leave(true)
			}
		}, []string{"disarm", "guard"}},
		{"the guard, behind rapid looks", true, func(u *Turn, s *script) {
			require.True(t, u.Enter())
			u.Disarm()
			require.False(t, u.Watch(), "somebody looks")
			u.Leave(true)
			s.soon = false
			require.True(t, u.Watch())
		}, []string{"disarm", "guard", "poll", "arm"}},
		{"a call to who looks", false, func(u *Turn, s *script) {
			require.True(t, u.Enter())
			u.Call()
			require.True(t, u.Called())
			u.Leave(false)
			require.False(t, u.Called())
		}, []string{"serve"}},
		{"a call where nobody looks", false, func(u *Turn, s *script) { u.Call() }, []string{"serve"}},
		{"the sleeper", false, func(u *Turn, s *script) {
			u.Spoken()
			require.False(t, u.Insist())
		}, []string{"serve", "linger", "arm", "serve"}}, // it has called itself, too, which costs nothing that matters
		{"the sleeper, while somebody looks", false, func(u *Turn, s *script) {
			require.True(t, u.Enter())
			u.Spoken()
			u.Leave(true)
			require.True(t, u.Enter())
		}, []string{"serve", "arm"}},
		{"the sleeper makes way", false, func(u *Turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.False(t, u.Wanted())
					require.True(t, u.Insist())
					require.True(t, u.Wanted())
				}
			}
			u.Spoken()
		}, []string{"serve", "linger", "arm", "serve"}},
		{"the sleeper, after he made way", false, func(u *Turn, s *script) {
			s.serves = func() {
				if len(s.log) == 1 {
					require.True(t, u.Insist())
				}
			}
			u.Spoken()
			require.True(t, u.Wanted())
			s.serves = func() { require.False(t, u.Wanted(), "nobody has insisted this time") }
			u.Spoken()
		}, []string{"serve", "linger", "arm", "serve", "serve", "linger", "arm", "serve"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := new(Turn)
			s := &script{t: t, u: u, soon: row.soon}
			u.Init(s)
			require.True(t, u.Armed())
			row.run(u, s)
			require.Equal(t, row.want, s.log)
			require.False(t, u.up.Load())
		})
	}
}

// Something is here that who leaves may not read. The sleeper is up, and calls, whenever he is armed: who leaves does not arm for ever, but leaves it to the guard.
func TestLeavesInTheEnd(t *testing.T) {
	u := new(Turn)
	s := &script{t: t, u: u}
	u.Init(s)
	s.arms = u.Spoken
	require.True(t, u.Enter())
	u.Spoken()
	u.Leave(false)
	require.Equal(t, []string{"serve", "arm", "serve", "guard"}, s.log)
	require.Equal(t, []bool{false}, s.founds)
	s.arms = nil
	require.True(t, u.Watch())
	require.Equal(t, []string{"poll", "arm"}, s.log[4:])
}

// What was found counts for the first time that its finder is about to leave, and not when it has
// been called meanwhile.
func TestFoundCountsOnce(t *testing.T) {
	u := new(Turn)
	s := &script{t: t, u: u}
	u.Init(s)
	require.True(t, u.Enter())
	u.Disarm()
	s.arms = func() {
		s.arms = nil
		u.Spoken()
	}
	u.Leave(true)
	require.Equal(t, []string{"disarm", "arm", "serve", "arm"}, s.log)
	require.Equal(t, []bool{true, false}, s.founds)
	require.True(t, u.Enter())
	require.False(t, u.Called())
	u.Call()
	require.True(t, u.Called())
	u.Leave(true)
	require.False(t, u.Called())
}
