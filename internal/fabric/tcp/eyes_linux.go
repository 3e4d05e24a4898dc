// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package tcp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"weft/internal/fabric"
)

const (
	// How long Look looks before it leaves it to the sleeper. To be woken takes some 30 µs, more on a busy machine, so that two ranks that take turns, and
	// both have been woken once, would be for ever if they waited for little more than that.
	lookForCrowded, lookForAlone = 50 * time.Microsecond, 200 * time.Microsecond
	// sleepAfter is how long the sleeper looks where there is more to come.
	sleepAfter = 20 * time.Microsecond
	// One looks so many times, of about 0.2 µs, until another process gets its turn. Where each rank has a processor of its own that is longer than an
	// answer takes: on a busy machine, who gives up its processor to somebody else's program gets it back too late. But it must come: Linux may have put both
	// ranks on one.
	turnCrowded, turnAlone = 1, 160
	// And so many times until other goroutines get theirs, and the time is looked at.
	turnHere, turnTime = 256, 32
	// rapid is how soon one who looks is expected to come again if he did so before, and guardAfter what happens otherwise: README.md.
	// It is long, since while ranks look rapidly the guard costs them a moment each time.
	rapid      = 50 * time.Microsecond
	guardAfter = time.Millisecond
	// disarmAfter is how many polls of a loop find nothing until it counts as one that looks for long: a few, since to arm and
	// to disarm are system calls.
	disarmAfter = 8
	// othersWait is for how long one that has given up looking, and so sleeps, is thought to do so.
	othersWait = time.Millisecond
)

// openEyes returns the eyes of an endpoint: nil where connections are read in the ordinary way.
func openEyes(e *Endpoint) (*eyes, error) {
	if e.cfg.TLS != nil {
		return nil, nil
	}
	y := &eyes{e: e, epoch: time.Now(), yield: func() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }}
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
	y.turn.Init(y)
	y.guard = time.AfterFunc(time.Hour, func() {
		if !y.ended.Load() && (y.held() || !y.turn.Watch()) {
			y.Guard()
		}
	})
	y.guard.Stop()
	y.bell = os.NewFile(uintptr(y.outer), "weft bell")
	if y.raw, err = y.bell.SyscallConn(); err != nil {
		return nil, errors.Join(err, unix.Close(y.inner), y.bell.Close())
	}
	return y, nil
}

// Crowd says how many ranks share how many processors of this node; without it, all do those of this process. If they are more than the processors,
// those that wait soon make room for others. A rank that is bound to processors has fewer than all ranks have together; 0 processors are those of this
// process. It is called before Bind.
func (e *Endpoint) Crowd(ranks, processors int) {
	if e.eyes == nil {
		return
	}
	processors = cmp.Or(processors, runtime.NumCPU())
	e.eyes.yieldAt, e.eyes.lookFor = turnAlone, lookForAlone
	if ranks > processors {
		e.eyes.yieldAt, e.eyes.lookFor = turnCrowded, lookForCrowded
	}
}

func (y *eyes) now() time.Duration { return time.Since(y.epoch) }

// The methods of turn.Kernel.

// Soon reports whether who leaves is likely to be back, or another one to come, before it is worth while to arm.
func (y *eyes) Soon(found bool) bool {
	now := y.now()
	soon := found && now-y.left < rapid && now-time.Duration(y.gaveUp.Load()) > othersWait && y.full.Load() == 0
	y.left = now
	if soon {
		if y.streak++; y.streak == apartAfter {
			y.setApart(true)
		}
	}
	return soon
}

// Arm has the sleeper woken by what comes, or has come, or not any more.
func (y *eyes) Arm(on bool) {
	if on {
		y.setApart(false) // before it: what comes must be heard
	}
	ev := unix.EpollEvent{Events: unix.EPOLLONESHOT}
	if on {
		ev.Events |= unix.EPOLLIN
	}
	_ = unix.EpollCtl(y.outer, unix.EPOLL_CTL_MOD, y.inner, &ev)
}

// Guard has the timer come.
func (y *eyes) Guard() { y.guard.Reset(guardAfter) }

// Poll delivers what is there.
func (y *eyes) Poll() bool { return y.poll() }

// Linger is the sleeper's look.
func (y *eyes) Linger() { y.look(nil, sleepAfter) }

// Serve lets go of memory that nobody wants any more.
func (y *eyes) Serve() {
	for _, p := range y.e.peers {
		if s := p.looked.Load(); s != nil {
			s.in.stirred()
		}
	}
}

// Look delivers what comes until there is something in woken, or for a short time. It returns at once if another goroutine looks that waits
// too.
func (e *Endpoint) Look(woken <-chan struct{}, entered bool) {
	y := e.eyes
	if y == nil {
		return
	}
	if !entered && !y.enter() && !y.insist(woken) {
		if len(woken) == 0 {
			y.gaveUp.Store(int64(y.now()))
		}
		return
	}
	if len(woken) == 0 {
		y.turn.Disarm()
	}
	y.look(woken, y.lookFor)
	found := len(woken) > 0
	if !found {
		y.gaveUp.Store(int64(y.now()))
	}
	y.turn.Leave(found)
}

// enter makes the caller the one who looks, unless somebody is, or the endpoint ends: callers that come again and again would
// keep whoever closes it from its turn.
func (y *eyes) enter() bool { return !y.ended.Load() && y.turn.Enter() }

// insist has the sleeper make way: a goroutine that it would have to wake would go on later. It reports whether the caller looks now.
func (y *eyes) insist(woken <-chan struct{}) bool {
	if !y.turn.Insist() {
		return false
	}
	for n := 0; !y.enter(); n++ {
		if len(woken) > 0 || n > 1000 {
			return false
		}
		if n%100 == 99 {
			runtime.Gosched()
		}
	}
	return true
}

// Enter makes the caller the one who looks, if nobody does.
func (e *Endpoint) Enter() bool {
	y := e.eyes
	if y == nil || !y.enter() {
		return false
	}
	y.turn.Disarm()
	return true
}

// Leave ends that.
func (e *Endpoint) Leave() { e.eyes.turn.Leave(true) }

// Poll delivers what is there and reports whether it was anything. Where somebody else looks, nothing is left to it; but the
// sleeper makes way for one that polls in a loop. That one disarms, and leaves as if it had found something: it will be
// back before the guard comes.
func (e *Endpoint) Poll(tries int) (did bool) {
	y := e.eyes
	switch {
	case y == nil:
		letRead(tries)
		return false
	case y.enter():
		now := y.now()
		again := tries > disarmAfter && now-y.polled < rapid
		if y.polled = now; again {
			y.turn.Disarm()
		}
		did = y.poll()
		if again {
			y.left = now
		}
		y.turn.Leave(did || again)
	case tries > 0:
		y.turn.Insist()
	}
	if !did && tries > 0 && tries%y.yieldAt == 0 {
		y.yield()
	}
	return did
}

// look looks until there is something in woken, or nothing has come for a while. The caller has entered.
func (y *eyes) look(woken <-chan struct{}, patience time.Duration) {
	var until time.Duration
	for n := 1; len(woken) == 0; n++ {
		if y.poll() {
			n, until = 0, 0
			continue
		}
		if woken == nil && (y.turn.Wanted() || !y.busy()) {
			return
		}
		if n%turnHere == 0 {
			runtime.Gosched()
		}
		if n%y.yieldAt == 0 {
			y.yield()
		} else if n%turnTime != 0 {
			continue
		}
		switch now := y.now(); {
		case until == 0:
			until = now + patience
		case now > until:
			return
		}
	}
}

// held reports whether the sleeper and the guard are not to look yet.
func (y *eyes) held() bool {
	select {
	case <-y.e.cfg.Hold:
		return false
	default:
		return y.e.cfg.Hold != nil
	}
}

// busy reports whether more is to come soon: the rest of a piece, or room for one.
func (y *eyes) busy() bool {
	if y.full.Load() > 0 {
		return true
	}
	for _, p := range y.e.peers {
		if s := p.looked.Load(); s != nil && s.in.kind != 0 {
			return true
		}
	}
	return false
}

// sleeper looks when nobody else does. It ends when the endpoint is closed.
func (y *eyes) sleeper() {
	if y.e.cfg.Hold != nil {
		<-y.e.cfg.Hold
	}
	var one [1]unix.EpollEvent
	for {
		err := y.raw.Read(func(fd uintptr) bool {
			return epollNow(int(fd), one[:]) > 0
		})
		if err != nil {
			return // it is closed
		}
		y.turn.Spoken()
	}
}

// end ends the eyes, when the peers are closed: nobody looks behind this. Nobody begins to look any more once ended is set,
// but for those who are just doing so, once each, and each look ends by itself.
func (y *eyes) end(limit time.Duration) error {
	y.ended.Store(true)
	for until := time.Now().Add(limit); !y.turn.Enter(); {
		if time.Now().After(until) {
			// A handler that does not return, or has ended its goroutine. What it may use stays open.
			return errors.Join(errors.New("tcp: somebody still looks at what has come"), y.bell.Close())
		}
		time.Sleep(10 * time.Microsecond)
	}
	y.guard.Stop()
	for _, p := range y.e.peers {
		if s := p.looked.Load(); s != nil && !s.over {
			s.end(fabric.ErrClosed) // lost, and its end not read: what is half here ends
		}
		p.drop()
	}
	return errors.Join(y.bell.Close(), unix.Close(y.inner)) // the sleeper ends
}

// drop closes the socket of a peer that is closed or lost, at once or when nobody writes to it any more.
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
