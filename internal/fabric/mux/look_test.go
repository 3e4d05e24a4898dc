// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package mux

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/fabric"
)

// side is an endpoint that can be looked at, and keeps a log of it.
type side struct {
	fabric.Endpoint
	name string
	size int
	log  *[]string
}

func (s *side) Rank() int { return 0 }
func (s *side) Size() int { return s.size }

func (s *side) say(what string) { *s.log = append(*s.log, s.name+" "+what) }

func (s *side) Enter() bool { s.say("enter"); return true }
func (s *side) Leave()      { s.say("leave") }
func (s *side) Poll(tries int) bool {
	s.say(fmt.Sprintf("polls, %d", tries))
	return s.name == "tcp"
}

func (s *side) Look(woken <-chan struct{}, entered bool) {
	s.say(map[bool]string{true: "looks, entered", false: "looks"}[entered])
}

func (s *side) Drop(peer int, err error) {
	s.say("drops " + string(rune('0'+peer)) + " " + err.Error())
}

// first is one that looks for others as well.
type first struct {
	side
	aside func() bool
}

func (f *first) Beside(poll func() bool) { f.aside = poll }

// Who waits looks first where others can be looked for too, whatever rank that is of; and at the others when there is nothing.
func TestLooksAtAll(t *testing.T) {
	var log []string
	take := func() []string { l := log; log = nil; return l }
	mpi := &side{name: "mpi", size: 4, log: &log}
	tcp := &side{name: "tcp", size: 4, log: &log}
	shm := &first{side: side{name: "shm", size: 4, log: &log}}
	e := New(0, []fabric.Endpoint{mpi, tcp, shm, mpi})
	l := e.(fabric.Looker)

	woken := make(chan struct{}, 1)
	require.True(t, l.Enter())
	l.Look(woken, true)
	require.Equal(t, []string{"shm enter", "shm looks, entered", "mpi looks", "tcp looks"}, take())
	woken <- struct{}{}
	l.Look(woken, false)
	require.Equal(t, []string{"shm looks"}, take(), "there is something")
	require.True(t, shm.aside())
	require.Equal(t, []string{"mpi polls, 0", "tcp polls, 0"}, take())
	require.True(t, l.Poll(0))
	require.Equal(t, []string{"shm polls, 0", "mpi polls, 0", "tcp polls, 0"}, take())
	require.False(t, l.Poll(15), "the first of several")
	require.Equal(t, []string{"shm polls, 15"}, take())
	require.True(t, l.Poll(32))
	require.Equal(t, []string{"shm polls, 32", "mpi polls, 2", "tcp polls, 2"}, take())
	l.Leave()
	require.Equal(t, []string{"shm leave"}, take())

	d := e.(fabric.Dropper)
	d.Drop(1, errors.New("x"))
	d.Drop(7, errors.New("x"))
	require.Equal(t, []string{"tcp drops 1 x"}, take())

	// Without one that looks for others, each has its turn.
	l = New(0, []fabric.Endpoint{mpi, tcp, mpi, mpi}).(fabric.Looker)
	l.Look(make(chan struct{}), false)
	require.Equal(t, []string{"mpi looks", "tcp looks"}, take())
	require.Nil(t, New(0, []fabric.Endpoint{mute{mpi}, mute{tcp}, mute{mpi}, mute{mpi}}).(*endpoint).eyes)
}

// mute cannot be looked at.
type mute struct{ fabric.Endpoint }
