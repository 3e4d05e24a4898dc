//go:build linux

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"weft/internal/fabric"
)

const (
	// lookFor is how long Look looks before it leaves it to the sleeper: longer than it takes to wake that, or two ranks that talk to each
	// other, once asleep, find each other asleep each time. sleepAfter is how long the sleeper does when it is up.
	lookFor    = 150 * time.Microsecond
	sleepAfter = 20 * time.Microsecond
	// midwayFor is how long it does for the next piece of a transfer where it has the only processor: a peer that sleeps is up by then (50 µs).
	midwayFor = 100 * time.Microsecond
	// One looks so many times until another process or goroutine gets its turn. As many ranks as processors need few turns: two processes that
	// yield to each other quickly stay on one processor, since Linux does not move what has run just now. With more ranks nothing goes on without.
	lookCrowded, lookAlone = 2, 2048
	// yields is how many turns other processes get until another goroutine of this one gets one.
	yields = 64
	// asideEvery is how many times one looks here until once somewhere else.
	asideEvery = 16
	// batch is how many frames of one peer are taken before those of the next.
	batch = 32
)

// single: the process has one processor, on which the goroutine that a frame has woken goes on when the sleeper sleeps.
var single = runtime.NumCPU() == 1

// Look delivers what comes until there is something in woken, or for a short time. It returns at once if another goroutine looks that waits
// too.
func (e *Endpoint) Look(woken <-chan struct{}, entered bool) {
	if !entered && !e.claim(woken) {
		return
	}
	e.look(woken, lookFor)
	e.work()
}

// claim makes the caller the one who looks, unless another goroutine does that waits too. Like Enter and Poll it leaves the
// look to Close where that has begun: callers that come again and again would keep Close from it for ever.
func (e *Endpoint) claim(woken <-chan struct{}) bool {
	if e.closed.Load() {
		return false
	}
	if e.enter() {
		return true
	}
	if !e.up.Load() {
		return false
	}
	// The sleeper makes way: a goroutine that it would have to wake would go on later.
	e.wanted.Store(true)
	for n := 1; !e.enter(); n++ {
		if woke(woken) || n > wantFor {
			return false
		}
		if n%100 == 0 {
			pause()
		}
	}
	return true
}

// Enter makes the caller the one who looks, if nobody does.
func (e *Endpoint) Enter() bool { return !e.closed.Load() && e.enter() }

// Leave ends that.
func (e *Endpoint) Leave() {
	e.leave()
	e.work()
}

// Poll delivers what is there and reports whether it was anything. Where somebody else looks, nothing is left to it; but the
// sleeper makes way for one that polls in a loop. A poll that finds nothing leaves the look word alone: a sender's processor has its line, and a loop of
// polls would take it away each time. A sender that sees the word at zero meanwhile waits a moment for the next poll to find the frame, and to raise it.
func (e *Endpoint) Poll(tries int) (did bool) {
	switch {
	case e.looking.Load() || e.closed.Load() || !e.looking.CompareAndSwap(false, true):
		if tries > 0 && e.up.Load() {
			e.wanted.Store(true)
		}
	case !e.stirs():
		e.looking.Store(false) //bug:found-nothing
		e.work()               //bug:found-nothing
	default:
		e.box.head.look.Add(2) // as enter does //bug:says-so
		did = e.poll()
		e.leave()
		e.work()
	}
	if !did && tries > 0 && tries%e.turn == 0 {
		rest(tries/e.turn%yields == 0)
	}
	return did
}

// look looks until there is something in woken, which may be nil, or nothing has come for a while. The caller has entered.
func (e *Endpoint) look(woken <-chan struct{}, long time.Duration) {
	var p patience
	left, rests := e.turn, 0
	for n := 1; !woke(woken); n++ {
		if e.stirs() && e.poll() || n%asideEvery == 0 && e.aside != nil && woken != nil && e.aside() {
			n, p = 0, patience{}
			if e.bulk.waits.Load() > 0 {
				e.leave()
				e.work()
				if !e.enter() {
					return
				}
			}
			continue
		}
		if woken == nil && e.wanted.Load() {
			break
		}
		if left--; left > 0 {
			continue
		}
		if p.over(long) {
			e.leave()
			return
		}
		left = e.turn
		rests++
		rest(rests%yields == 0)
	}
	e.leave()
}

// enter makes the caller the one who looks.
func (e *Endpoint) enter() bool {
	if e.looking.Load() || !e.looking.CompareAndSwap(false, true) {
		return false
	}
	e.box.head.look.Add(2)
	return true
}

// leave ends that. What has come meanwhile is delivered, since to wake the sleeper costs more; if it does not end, it is left to the sleeper, or to
// whoever has begun to look between.
func (e *Endpoint) leave() {
	look := &e.box.head.look
	for n := 0; look.Add(^uint32(1)) == 0 && e.ready(); n++ { //bug:R2
		if n == leaveAfter {
			e.wake()
			break
		}
		look.Add(2)
		e.poll()
	}
	e.looking.Store(false) //bug:R2
}

// wake has the sleeper look, if nobody does.
func (e *Endpoint) wake() {
	if look := &e.box.head.look; look.Load() == 0 && look.CompareAndSwap(0, 1) {
		e.bell.ring()
	}
}

// sleeper looks when nobody else does. It ends when the endpoint is closed.
func (e *Endpoint) sleeper() {
sleep:
	for {
		if e.bell.wait() != nil || e.closed.Load() {
			return
		}
		look := &e.box.head.look
		look.And(^uint32(1)) //bug:S1
		for !e.enter() {     //bug:S1
			if look.Load() >= 2 {
				continue sleep // who looks now will see, when leaving, that the word is even
			}
			// Who looked has taken its 2 back while the word was odd, so has left to this goroutine what came meanwhile, and is about to make way.
			pause()
		}
		e.wanted.Store(false) // before up, for another goroutine wants only what it sees to be up
		e.up.Store(true)
		if single {
			e.lookShortly()
		} else {
			e.look(nil, sleepAfter)
		}
		e.work()
		e.up.Store(false)
	}
}

// lookShortly is look for a sleeper that has the process's only processor: it delivers what is there. It looks longer only if a transfer is under way, since
// the next piece is soon here, and whoever computes meanwhile would not make way again for ten milliseconds. The caller has entered.
func (e *Endpoint) lookShortly() {
	var p patience
	for {
		switch {
		case e.poll():
			p = patience{}
		case e.bulk.waits.Load() > 0 || !e.midway() || p.over(midwayFor):
			e.leave()
			return
		default:
			rest(false)
		}
	}
}

// midway reports whether pieces of a transfer are to come, or to go.
func (e *Endpoint) midway() bool { return e.pending.Load() > 0 || e.expected.Waiting() }

// ready reports whether there is something to do. The caller looks.
func (e *Endpoint) ready() bool {
	if e.pending.Load() > 0 {
		e.flush()
	}
	if e.box.head.joins.Load() != e.joins || e.deaths.Load() > 0 {
		return true
	}
	for _, p := range e.active {
		if p.in.ready() {
			return true
		}
	}
	return false
}

// poll delivers what is there and reports whether it was anything. The caller looks.
func (e *Endpoint) poll() bool {
	did, _ := e.pollFor(nil)
	return did
}

// pollFor is poll, which ends when pick has picked a frame; nil: nobody does. The caller looks.
func (e *Endpoint) pollFor(pick fabric.Picker) (did, picked bool) {
	if n := e.box.head.joins.Load(); n != e.joins {
		e.join(n)
		did = true
	}
	f := &e.frame
	gone := false
	for _, p := range e.active {
		for range batch {
			if p.gone.Load() {
				break
			}
			kind, n, err := p.in.get(f)
			if kind == 0 && err == nil {
				break
			}
			did = true
			if err == nil {
				if pick != nil && kind == kindFrame && pick.Pick(p.rank, f) {
					picked = true
				} else {
					err = p.take(kind, f)
				}
			}
			if err != nil {
				p.lose(err)
			}
			if p.in.done(n) { //bug:C4
				p.rouse()
			}
			if picked { //bug:C4
				return true, true
			}
		}
		gone = gone || p.gone.Load()
	}
	if e.deaths.Load() > 0 {
		e.bury()
		did = true
	}
	if gone {
		e.active = slices.DeleteFunc(e.active, func(p *peer) bool { return p.gone.Load() })
	}
	if e.pending.Load() > 0 {
		did = e.flush() || did
	}
	return did, false
}

// join finds the producers that have come. The caller looks.
func (e *Endpoint) join(n uint32) {
	e.joins = n
	for _, p := range e.peers {
		if !p.joined && e.box.control(p.rank).joined.Load() != 0 {
			p.joined = true
			p.in = e.box.incoming(p.rank)
			p.in.prepare(e.cfg.Size)
			e.active = append(e.active, p)
			p.meet()
		}
	}
}

// bury ends the peers whose processes have ended. What they have sent before is delivered. The caller looks.
func (e *Endpoint) bury() {
	for _, p := range e.peers {
		if p.dead.Load() && !p.buried {
			if !p.joined { //bug:death-of-stranger
				e.join(e.box.head.joins.Load()) // it may have come, and sent, since poll has looked
			}
			if p.joined && !p.gone.Load() && p.in.ready() { //bug:death
				continue // poll comes again
			}
			p.buried = true
			e.deaths.Add(-1)
			p.lose(fmt.Errorf("its process %d has ended", p.pid))
		}
	}
}

// flush moves frames that have waited for room, and reports whether there were any. The caller looks.
func (e *Endpoint) flush() (did bool) {
	for _, p := range e.peers {
		if p.queued.Load() {
			did = p.flush() || did
		}
	}
	return did
}

// Drop ends everything with a peer, which the layer above knows to be lost. Its memory stays mapped until the endpoint is closed: somebody may be
// looking at it.
func (e *Endpoint) Drop(peer int, err error) {
	if uint(peer) < uint(len(e.peers)) && peer != e.cfg.Rank && e.bound.Load() && !e.closed.Load() {
		e.peers[peer].lose(err)
		e.bell.ring() // whatever the look word says: package comment, "Loss"
	}
}

// Beside has somebody else's messages looked for, now and then, by who looks here.
func (e *Endpoint) Beside(poll func() bool) { e.aside = poll }

// Seek delivers what comes until p has picked a frame. The caller looks, and goes on to.
func (e *Endpoint) Seek(p fabric.Picker) (picked, tired bool) {
	var long patience
	left, rests := e.turn, 0
	for n := 1; ; n++ {
		if e.stirs() {
			did, picked := e.pollFor(p)
			if picked {
				return true, false
			}
			if did {
				n, long = 0, patience{}
				if e.bulk.waits.Load() > 0 {
					return false, false // copies are made outside of looking
				}
			}
		}
		if p.Enough() {
			return false, false
		}
		if e.aside != nil && n%asideEvery == 0 && e.aside() {
			n, long = 0, patience{}
		}
		if left--; left > 0 {
			continue
		}
		if long.over(lookFor) {
			return false, true
		}
		left = e.turn
		rests++
		rest(rests%yields == 0)
	}
}

// stirs reports whether a poll may find something. It is what poll looks at, in as few loads as that can be. The caller looks.
func (e *Endpoint) stirs() bool {
	for _, p := range e.active {
		if p.in.ready() {
			return true
		}
	}
	return e.box.head.joins.Load() != e.joins || e.deaths.Load() > 0 || e.pending.Load() > 0
}

const (
	// watchFor is how long Watch waits without anything coming. To sleep and be woken costs two processes fifty microseconds, and what keeps a rank that is waited
	// for from running, such as another program, mostly lasts longer than that; so a rank waits twenty times as long before it sleeps. That bounds
	// what it uses for nothing to a millisecond of the processor, each time.
	watchFor = time.Millisecond
	// goroutinesEvery is how long other goroutines of this process wait for their turn, if Go has no processor for them.
	goroutinesEvery = 50 * time.Microsecond
	// glances are the looks before one says that one looks, which costs as much as some of them.
	glancesCrowded, glancesAlone = 8, 100
)

// Watch delivers what comes until ready returns true, or for a short time only. Where another goroutine looks, it only waits. Where there are
// more ranks than processors, every second look is behind the others' turns.
func (e *Endpoint) Watch(ready func() bool) {
	glances := glancesAlone
	if e.turn == lookCrowded {
		glances = glancesCrowded
	}
	for range glances {
		if ready() {
			return
		}
	}
	entered := e.claim(nil)
	var all, here patience
	for n := 1; !ready(); n++ {
		if entered && (e.poll() || n%asideEvery == 0 && e.aside != nil && e.aside()) {
			n, all = 0, patience{}
			if e.bulk.waits.Load() > 0 {
				e.leave()
				e.work()
				entered = e.enter()
			}
			continue
		}
		if n%e.turn != 0 {
			continue
		}
		if all.over(watchFor) {
			break
		}
		turn := here.over(goroutinesEvery)
		if turn {
			here = patience{}
		}
		rest(turn)
	}
	if entered {
		e.leave()
		e.work()
	}
}
