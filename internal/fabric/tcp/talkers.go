//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import "golang.org/x/sys/unix"

const (
	// askAnyway is after how many looks the set is asked though all sockets are read directly, or though what is read directly always has something.
	askAnyway = 16
	// apartAfter is after how many rapid looks in a row what is read directly is taken out of the set.
	apartAfter = 8
)

// poll delivers what is there and reports whether it was anything. The caller looks.
func (y *eyes) poll() (did bool) {
	direct := int32(0)
	for _, s := range y.talkers {
		if s != nil {
			direct++
			did = s.take() || did
		}
	}
	if y.unasked++; direct > 0 && y.unasked < askAnyway && (did || direct == y.open.Load() && y.full.Load() == 0) {
		return did
	}
	y.unasked = 0
	return y.ask() || did
}

// ask delivers what the set says that there is.
func (y *eyes) ask() (did bool) {
	for i := range epollNow(y.inner, y.arrivals[:]) {
		ev := &y.arrivals[i]
		p := y.e.peers[ev.Fd]
		if ev.Events&unix.EPOLLOUT != 0 {
			did = p.flush() || did
		}
		if s := p.looked.Load(); s.take() { // there is one: watch has stored it before
			did = true
			y.listen(s)
		}
	}
	return did
}

// listen makes s the socket that is read first. Where there are no more than two, both are.
func (y *eyes) listen(s *socket) {
	switch {
	case s.over || s == y.talkers[0]:
	case s == y.talkers[1] || y.talkers[1] == nil && y.open.Load() <= int32(len(y.talkers)):
		y.talkers[0], y.talkers[1] = s, y.talkers[0]
	default:
		y.setApart(false) // who is not read directly any more must be in the set
		y.talkers = [2]*socket{s}
	}
}

// deaf ends that: s has ended.
func (y *eyes) deaf(s *socket) {
	for i := range y.talkers {
		if y.talkers[i] == s {
			y.talkers[i] = nil
		}
	}
}

// setApart takes what is read directly out of the set, so that the kernel need not tell the set of all that comes, or has it back there.
func (y *eyes) setApart(on bool) {
	if !on {
		y.streak = 0
	}
	for _, s := range y.talkers {
		if s != nil {
			s.setApart(on)
		}
	}
}
