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

// newPoller returns the poller of an endpoint, or nil if each connection has a reader and a writer.
func newPoller(e *Endpoint) (*poller, error) {
	if e.cfg.TLS != nil {
		return nil, nil
	}
	pl := &poller{e: e}
	var err error
	if pl.inner, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if pl.outer, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, errors.Join(fmt.Errorf("epoll_create: %w", err), unix.Close(pl.inner))
	}
	err = unix.EpollCtl(pl.outer, unix.EPOLL_CTL_ADD, pl.inner, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT})
	if err == nil {
		err = unix.SetNonblock(pl.outer, true) // Go's poller takes only such descriptors
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("epoll: %w", err), unix.Close(pl.inner), unix.Close(pl.outer))
	}
	pl.doorbell = os.NewFile(uintptr(pl.outer), "weft doorbell")
	if pl.raw, err = pl.doorbell.SyscallConn(); err != nil {
		return nil, errors.Join(err, unix.Close(pl.inner), pl.doorbell.Close())
	}
	return pl, nil
}

// The poller is a source of the rank's engine.

// Costs returns costs for both: to poll and to arm are system calls.
func (pl *poller) Costs() fabric.Costs { return fabric.Costs{Poll: true, Arm: true} }

// Arm arms or disarms outer: armed, it wakes the doorbell goroutine for what arrives, and for what
// is there already. If a goroutine probably polls soon, Arm defers arming, unless a socket is full.
// After detachAfter deferrals in a row, Arm detaches the direct sockets, so that the kernel need
// not update inner for them.
func (pl *poller) Arm(on bool, why fabric.Leaving) fabric.Armed {
	if on && why == fabric.LeavingForSoon && pl.full.Load() == 0 {
		if pl.deferrals++; pl.deferrals == detachAfter {
			pl.setDetached(true)
		}
		return fabric.ArmDeferred
	}
	ev := unix.EpollEvent{Events: unix.EPOLLONESHOT}
	if on {
		pl.setDetached(false) // A1, before outer is armed: README.md
		ev.Events |= unix.EPOLLIN
	}
	_ = unix.EpollCtl(pl.outer, unix.EPOLL_CTL_MOD, pl.inner, &ev)
	return fabric.ArmedFully
}

// Serve releases the memory of transfers that were forgotten while a piece was being read.
func (pl *poller) Serve() {
	for _, p := range pl.e.peers.All() {
		if s := p.polled.Load(); s != nil {
			s.in.handleInterrupt()
		}
	}
}

// Midway reports whether something will arrive soon: the rest of a piece, or room in a socket.
func (pl *poller) Midway() bool {
	if pl.full.Load() > 0 {
		return true
	}
	for _, p := range pl.e.peers.All() {
		if s := p.polled.Load(); s != nil && s.in.kind != 0 {
			return true
		}
	}
	return false
}

// doorbellLoop is the doorbell goroutine: it has frames delivered when no goroutine polls. It ends
// when the endpoint is closed.
func (pl *poller) doorbellLoop() {
	var one [1]unix.EpollEvent
	for pl.raw.Read(func(fd uintptr) bool { return epollNow(int(fd), one[:]) > 0 }) == nil {
		pl.e.progress.Ring(pl)
	}
}

// end closes the poller, after the peers are closed. It waits up to limit for a goroutine that
// polls.
func (pl *poller) end(limit time.Duration) error {
	if p := pl.e.progress; p != nil && !p.Retire(pl, limit) {
		// A handler does not return, or has ended its goroutine. The sockets that it may use stay
		// open.
		return errors.Join(errors.New("tcp: a goroutine still polls, or handles a frame; its sockets stay open"), pl.doorbell.Close())
	}
	for _, p := range pl.e.peers.All() {
		if s := p.polled.Load(); s != nil && !s.over {
			// the peer is lost: a transfer of which a piece is half read ends
			s.end(fabric.ErrClosed)
		}
		p.drop()
	}
	return errors.Join(pl.doorbell.Close(), unix.Close(pl.inner)) // the doorbell goroutine ends
}

// drop closes the socket of a peer that is closed or lost. If a goroutine writes to the socket,
// that goroutine closes it.
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
	// innerEvery: inner is polled at least at each sixteenth poll, even if all sockets are direct,
	// or the direct sockets always have something.
	innerEvery = 16
	// detachAfter is the number of deferrals in a row after which the direct sockets are detached.
	detachAfter = 8
)

// Poll delivers the frames that are there, and reports whether there were any.
func (pl *poller) Poll(bool) (did bool) {
	direct := int32(0)
	for _, s := range pl.direct {
		if s != nil {
			direct++
			did = s.take() || did
		}
	}
	if pl.sinceInner++; direct > 0 && pl.sinceInner < innerEvery && (did || direct == pl.open.Load() && pl.full.Load() == 0) {
		return did
	}
	pl.sinceInner = 0
	return pl.pollInner() || did
}

// pollInner writes and reads the sockets that inner names, and reports whether that did anything.
func (pl *poller) pollInner() (did bool) {
	for i := range epollNow(pl.inner, pl.arrivals[:]) {
		ev := &pl.arrivals[i]
		p := pl.e.peers.At(int(ev.Fd))
		if ev.Events&unix.EPOLLOUT != 0 {
			did = p.flush() || did
		}
		if s := p.polled.Load(); s.take() { // s is not nil: startPolling has stored it before
			did = true
			pl.makeDirect(s)
		}
	}
	return did
}

// makeDirect makes s the direct socket that is read first. If there are no more than two sockets,
// both stay direct; otherwise only s is.
func (pl *poller) makeDirect(s *socket) {
	switch {
	case s.over || s == pl.direct[0]:
	case s == pl.direct[1] || pl.direct[1] == nil && pl.open.Load() <= int32(len(pl.direct)):
		pl.direct[0], pl.direct[1] = s, pl.direct[0]
	default:
		pl.setDetached(false) // a socket that is not direct any more must be in inner
		pl.direct = [2]*socket{s}
	}
}

// setDetached takes the direct sockets out of inner, so that the kernel need not update inner for
// each arrival, or puts them back.
func (pl *poller) setDetached(on bool) {
	if !on {
		pl.deferrals = 0
	}
	for _, s := range pl.direct {
		if s != nil {
			s.setDetached(on)
		}
	}
}
