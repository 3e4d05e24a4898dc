// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

// openEyes returns the eyes of an endpoint: nil where connections are read in the ordinary way.
func openEyes(e *Endpoint) (*eyes, error) {
	if e.cfg.TLS != nil {
		return nil, nil
	}
	y := &eyes{e: e}
	var err error
	if y.inner, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if y.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll_create: %w", err), unix.Close(y.inner))
	}
	err = unix.EpollCtl(y.outer, unix.EPOLL_CTL_ADD, y.inner, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
	if err == nil {
		err = unix.SetNonblock(y.outer, true) // so that Go's poller takes it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), unix.Close(y.inner), unix.Close(y.outer))
	}
	y.bell = os.NewFile(uintptr(y.outer), "weft bell")
	if y.raw, err = y.bell.SyscallConn(); err != nil {
		return nil, errors.Join(err, unix.Close(y.inner), y.bell.Close())
	}
	return y, nil
}

// The eyes are a source of the rank's engine.

// Costs: all are calls of the system.
func (y *eyes) Costs() fabric.Costs { return fabric.Costs{Poll: true, Arm: true} }

// Arm has the sleeper woken by what comes, or has come, or not any more. Where somebody is likely
// to poll soon, it does not, and has the kernel tell the set as little as can be. There is no such
// exception while a socket is full.
func (y *eyes) Arm(on bool, why fabric.Leaving) fabric.Armed {
	if on && why == fabric.LeavingForSoon && y.full.Load() == 0 {
		if y.streak++; y.streak == apartAfter {
			y.setApart(true)
		}
		return fabric.ArmDeferred
	}
	ev := unix.EpollEvent{Events: unix.EPOLLONESHOT}
	if on {
		y.setApart(false) // before it: what comes must be heard
		ev.Events |= unix.EPOLLIN
	}
	_ = unix.EpollCtl(y.outer, unix.EPOLL_CTL_MOD, y.inner, &ev)
	return fabric.ArmedFully
}

// Serve lets go of memory that nobody wants any more.
func (y *eyes) Serve() {
	for _, p := range y.e.peers.All() {
		if s := p.looked.Load(); s != nil {
			s.in.stirred()
		}
	}
}

// Midway reports whether more is to come soon: the rest of a piece, or room for one.
func (y *eyes) Midway() bool {
	if y.full.Load() > 0 {
		return true
	}
	for _, p := range y.e.peers.All() {
		if s := p.looked.Load(); s != nil && s.in.kind != 0 {
			return true
		}
	}
	return false
}

// sleeper has what has come delivered when nobody polls. It ends when the endpoint is closed.
func (y *eyes) sleeper() {
	var one [1]unix.EpollEvent
	for y.raw.Read(func(fd uintptr) bool { return epollNow(int(fd), one[:]) > 0 }) == nil {
		y.e.progress.Ring(y)
	}
}

// end ends the eyes, when the peers are closed.
func (y *eyes) end(limit time.Duration) error {
	if p := y.e.progress; p != nil && !p.Retire(y, limit) {
		// A handler that does not return, or has ended its goroutine. What it may use stays open.
		return errors.Join(errors.New("tcp: somebody still looks at what has come"), y.bell.Close())
	}
	for _, p := range y.e.peers.All() {
		if s := p.looked.Load(); s != nil && !s.over {
			s.end(fabric.ErrClosed) // lost, and its end not read: what is half here ends
		}
		p.drop()
	}
	return errors.Join(y.bell.Close(), unix.Close(y.inner)) // the sleeper ends
}

// drop closes the socket of a peer that is closed or lost, at once or when nobody writes to it any
// more.
func (p *peer) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sock; s != nil {
		s.dead = true
		if !p.writing {
			s.close()
		}
	}
}

const (
	// askAnyway is after how many looks the set is asked though all sockets are read directly, or
	// though what is read directly always has something.
	askAnyway = 16
	// apartAfter is after how many rapid looks in a row what is read directly is taken out of the
	// set.
	apartAfter = 8
)

// Poll delivers what is there and reports whether it was anything.
func (y *eyes) Poll(bool) (did bool) {
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
		p := y.e.peers.At(int(ev.Fd))
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

// setApart takes what is read directly out of the set, so that the kernel need not tell the set of
// all that comes, or has it back there.
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
