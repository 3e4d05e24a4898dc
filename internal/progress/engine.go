// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package progress has the engine that polls the fabrics of a rank. The engine decides which
// goroutine polls, for how long, and what wakes a goroutine when none polls. README.md has the
// states and the protocol.
//
//	e := progress.New(ep.Sources(), progress.Config{Ranks: 1})
//	ep.Bind(handler, e)
//	e.PollChannel(woken, false) // in a goroutine that waits for a value in this channel
//	e.Try()                     // in a loop around Test
package progress

import (
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"weft/internal/fabric"
	"weft/internal/processors"
	"weft/internal/xatomic"
)

const cacheLine = 64

// Config says how many ranks share the process and the processors, and so how an engine yields.
type Config struct {
	Ranks   int  // number of ranks in this process
	Crowded bool // this node has more ranks than processors
	Full    bool // this node has fewer than two processors for each rank
	// Hold, if not nil, keeps doorbell goroutines and the guard from polling until it is closed.
	// For tests.
	Hold <-chan struct{}
}

// Engine polls the sources of one rank. One goroutine at a time has the turn, which is the right to
// poll. All methods may be called by any goroutine, except where they require the turn.
type Engine struct {
	// Constant after construction.
	cfg        Config
	sources    []fabric.Source
	costlyPoll uint32 // sources that are costly to poll, as a set
	costlyArm  uint32 // sources that are costly to arm, as a set
	readers    bool   // there are reader goroutines, which must get the processor
	yieldEvery uint32 // number of tries for each yield to other goroutines
	full       bool   // there is no spare processor for a doorbell goroutine that polls
	timer      timer  // of the guard

	turn turn

	// Owned by the goroutine that has the turn.
	last int           // the last source that had something
	left time.Duration // when a goroutine last left with costly sources unarmed, for morePollsSoon

	polled atomic.Int64 // when a loop last polled; kept only if a source is costly to arm
	// when a waiter last stopped polling with nothing found; it may be asleep
	gaveUp   atomic.Int64
	retiring xatomic.Int32 // calls of Retire in progress: no other goroutine takes the turn

	_ [cacheLine]byte // ranks that share a process count tries in different cache lines
	// tries in a row that have delivered nothing, by all goroutines of the rank
	tries atomic.Uint32
	_     [cacheLine]byte
}

// New returns the engine of these sources, all of which are armed. There may be none.
func New(sources []fabric.Source, cfg Config) *Engine {
	e := &Engine{cfg: cfg, full: cfg.Full || runtime.NumCPU() == 1}
	for _, s := range sources {
		c := s.Costs()
		if c.Readers {
			e.readers = true
			continue
		}
		bit := uint32(1) << len(e.sources)
		e.sources = append(e.sources, s)
		if c.Poll {
			e.costlyPoll |= bit
		}
		if c.Arm {
			e.costlyArm |= bit
		}
	}
	e.turn.init(e, slices.Clone(e.sources), e.costlyArm)
	e.timer = newTimer(func() {
		if e.onHold() || !e.turn.guardPoll() {
			e.startGuard()
		}
		e.work()
	})
	switch n := processors.Count(); {
	case n < cfg.Ranks:
		e.yieldEvery = yieldCrowded
	case cfg.Ranks > 1:
		e.yieldEvery = uint32(n)
	case n == 1:
		e.yieldEvery = yieldSingle
	default:
		e.yieldEvery = yieldAlone
	}
	return e
}

// Polls reports whether there is a source that can be polled.
func (e *Engine) Polls() bool { return len(e.sources) > 0 }

// Try polls once, and reports whether this call has delivered anything. If not, it now and then
// yields the processor: a loop around Test must not starve the goroutine, or the process, that it
// waits for. Try never waits: if another goroutine has the turn, Try leaves the poll to that
// goroutine. So it may be called anywhere, also in a callback.
func (e *Engine) Try() (delivered bool) {
	n := e.tries.Add(1)
	if e.Polls() && e.pollOnce(int(n&math.MaxInt32)) {
		e.tries.Store(0)
		return true
	}
	if n%e.yieldEvery == 0 {
		runtime.Gosched()
	}
	if e.readers && n%readEvery == 0 {
		// When no goroutine can run, Go's scheduler polls the network, and wakes readers.
		time.Sleep(time.Microsecond)
	}
	return false
}

// Poll is Try for a caller that has other work if there is nothing, and that yields the processor
// itself.
func (e *Engine) Poll() bool { return e.Polls() && e.pollOnce(0) }

// pollOnce polls once. tries is the number of polls in a row, this one included, that have found
// nothing if this one finds nothing; 0: not in a loop. If another goroutine has the turn, pollOnce
// does not poll; but if that is a doorbell goroutine and the caller is a loop, it requests the
// turn.
//
// A poll that finds nothing arms and disarms nothing: another processor may have the cache line of
// the source's word, and a loop of polls would take the line away each time. A poll that finds
// something disarms the source if it is cheap to arm (see fabric.Source.Poll), so that no peer
// rings for frames that arrive meanwhile. A loop that has found nothing for long also disarms the
// sources that are costly to arm, and leaves as if it had found something: it will be back before
// the guard comes.
func (e *Engine) pollOnce(tries int) (did bool) {
	switch {
	case e.Take():
		again := false
		if e.costlyArm != 0 && tries > loopAfter {
			now := clock()
			again = now-time.Duration(e.polled.Swap(int64(now))) < rapidWithin
			if again {
				e.turn.disarm(e.costlyArm)
				e.left = now
			}
		}
		did = e.poll(tries, false)
		e.leave(did || again)
	case tries > 0:
		e.turn.request()
	}
	every := triesAlone
	if e.cfg.Crowded {
		every = triesCrowded
	}
	if !did && tries > 0 && tries%every == 0 {
		yieldProcessor(tries/every%triesHere == 0)
	}
	return did
}

// Take gives the caller the turn, unless another goroutine has it or Retire is in progress: callers
// that come again and again would keep Retire from the turn for ever. A caller that got the turn
// must call PollUntil, PollChannel or Leave.
func (e *Engine) Take() bool { return e.Polls() && e.retiring.Load() == 0 && e.turn.enter() }

// Enter is Take by a caller that is about to poll for long. It disarms: meanwhile arrivals need not
// wake any goroutine.
func (e *Engine) Enter() bool {
	if !e.Take() {
		return false
	}
	e.disarm()
	return true
}

// Leave gives up the turn.
func (e *Engine) Leave() { e.leave(true) }

// disarm is for a caller that polls for long. It disarms the sources that are cheap to arm, and the
// last one that had something. The caller has the turn.
func (e *Engine) disarm() { e.turn.disarm(e.turn.all&^e.costlyArm | 1<<e.last) }

func (e *Engine) leave(found bool) {
	e.turn.leave(found)
	e.work()
}

// work does the sources' work that needs no turn.
func (e *Engine) work() {
	for _, s := range e.sources {
		s.Work()
	}
}

// takeAsWaiter gives the caller the turn, unless another waiter has it. It requests the turn from a
// doorbell goroutine or the guard: if the waiter slept until one of these had delivered, the waiter
// would continue later.
func (e *Engine) takeAsWaiter(w *waiter) bool {
	if e.Take() {
		return true
	}
	if !e.Polls() || !e.turn.request() {
		return false
	}
	for n := 1; !e.Take(); n++ {
		if w.isMet() || n > requestTries {
			return false
		}
		if n%100 == 0 {
			pause()
		}
	}
	return true
}

// waiter is the condition that a goroutine waits for: a value in a channel, or a function that
// returns true.
type waiter struct {
	ch    <-chan struct{}
	ready func() bool
}

func (w *waiter) isMet() bool {
	if w.ready != nil {
		return w.ready()
	}
	return woke(w.ch)
}

// PollChannel polls until there is a value in ch, at most until the budget is exhausted. It does
// not receive the value. entered: the caller has the turn. On return the caller does not have it.
// If another waiter has the turn, PollChannel returns at once.
func (e *Engine) PollChannel(ch <-chan struct{}, entered bool) {
	w := waiter{ch: ch}
	if entered || e.takeAsWaiter(&w) {
		e.pollUntilMet(&w, pollFor)
	} else if e.costlyArm != 0 && !w.isMet() {
		e.gaveUp.Store(int64(clock()))
	}
}

// Watch polls until ready returns true, at most until the budget is exhausted. It calls ready
// often. If another goroutine has the turn, Watch only calls ready.
func (e *Engine) Watch(ready func() bool) {
	n := watchChecks
	if e.cfg.Crowded {
		n = watchChecksCrowded
	}
	for range n {
		if ready() {
			return
		}
	}
	w := waiter{ready: ready}
	if e.takeAsWaiter(&w) {
		e.pollUntilMet(&w, watchFor)
		return
	}
	for b := newBudget(e.cfg.Crowded); !b.over(watchFor) && !ready(); {
	}
}

// pollUntilMet polls until w is met, or nothing has arrived for the time long. The caller has the
// turn, and pollUntilMet gives it up. It disarms before the first poll: otherwise a peer that sends
// meanwhile would have to wait for the second poll to see that it need not ring.
func (e *Engine) pollUntilMet(w *waiter, long time.Duration) {
	for {
		met, idle := e.pollKeepingTurn(w, long, true)
		if idle {
			e.gaveUp.Store(int64(clock()))
		}
		if e.leave(!idle); met || idle || !e.Take() {
			return // if Take fails, the goroutine that has the turn delivers
		}
	}
}

// PollUntil polls until ready returns true (met), or the budget is exhausted, or there is work to
// do without the turn (neither). It calls ready often. The caller has the turn, and keeps it.
func (e *Engine) PollUntil(ready func() bool) (met, exhausted bool) {
	return e.pollKeepingTurn(&waiter{ready: ready}, pollFor, false)
}

// pollKeepingTurn polls until w is met, or nothing has arrived for the time long (idle), or there
// is work to do without the turn (neither). The caller has the turn, and keeps it. first: disarm
// before the first poll. Otherwise it disarms after the first poll, if that has found nothing: a
// frame that has arrived already then costs less.
func (e *Engine) pollKeepingTurn(w *waiter, long time.Duration, first bool) (met, idle bool) {
	b := newBudget(e.cfg.Crowded)
	for n := 1; !w.isMet(); n++ {
		if first {
			e.disarm()
			first = false
		}
		if e.poll(n, !e.cfg.Crowded) {
			if w.isMet() {
				break
			}
			if e.waits() {
				return false, false
			}
			b = newBudget(e.cfg.Crowded)
			continue
		}
		if b.first() {
			e.disarm()
		}
		if !b.over(long) {
			if e.costlyArm != 0 && b.idleFor() > disarmAfter {
				e.turn.disarm(e.turn.all)
			}
		} else if e.cfg.Crowded || b.idleFor() > midwayFor || !e.midway() {
			return false, true
		}
	}
	return true, false
}

// poll polls the sources that are cheap to poll and the last one that had something; every
// costlyPollEvery-th time, counted by n, it polls all. It reports whether it delivered anything.
// patient: the caller polls again at once if not. The caller has the turn.
func (e *Engine) poll(n int, patient bool) (did bool) {
	if len(e.turn.sources) == 1 {
		if did = e.turn.sources[0].Poll(patient); did {
			e.turn.armed &= e.costlyArm
		}
		return did
	}
	for i, s := range e.turn.sources {
		if (e.costlyPoll>>i&1 == 0 || i == e.last || n%costlyPollEvery == 0) && s.Poll(false) {
			e.turn.armed &^= 1 << i &^ e.costlyArm
			e.last = i
			did = true
		}
	}
	return did
}

// waits reports whether there is work to do without the turn. The caller has the turn.
func (e *Engine) waits() bool { return slices.ContainsFunc(e.turn.sources, fabric.Source.Waits) }

// midway reports whether a source is in the middle of a transfer. The caller has the turn.
func (e *Engine) midway() bool { return slices.ContainsFunc(e.turn.sources, fabric.Source.Midway) }

// The methods of fabric.Progress.

// Ring is called by the doorbell goroutine of a source that was armed and has rung. It polls,
// unless another goroutine has the turn.
func (e *Engine) Ring(s fabric.Source) {
	if e.cfg.Hold != nil {
		<-e.cfg.Hold
	}
	e.turn.rung(slices.Index(e.sources, s))
	e.work()
}

// Call has Serve called: by the goroutine that has the turn, or, if the turn is free, by the
// caller.
func (e *Engine) Call() { e.turn.call() }

// Retire ends the polling of a source. If it returns true, no goroutine is in a method of the
// source or will call one. It returns false if another goroutine still has the turn after limit.
func (e *Engine) Retire(s fabric.Source, limit time.Duration) bool {
	e.retiring.Add(1)
	defer e.retiring.Add(-1)
	for d := newDeadline(limit); !e.turn.enter(); {
		if !d.pause() {
			return false
		}
	}
	i := slices.Index(e.sources, s)
	e.turn.sources[i] = fabric.NoSource{}
	e.turn.all &^= 1 << i
	e.turn.armed &^= 1 << i
	if e.turn.all == 0 {
		e.timer.stop()
	}
	e.leave(true)
	return true
}

// The methods of policy.

// morePollsSoon reports whether another poll is likely so soon that arming is not worthwhile.
func (e *Engine) morePollsSoon() bool {
	now := clock()
	before := e.left
	e.left = now
	return now-before < rapidWithin && now-time.Duration(e.gaveUp.Load()) > gaveUpFor
}

func (e *Engine) startGuard() { e.timer.start(guardAfter) }

// pollBriefly polls for a doorbell goroutine. If the node has no spare processor, it delivers the
// frames that are there and no more: the kernel mostly wakes the doorbell goroutine on its rank's
// own processor, and the next message arrives only after the rank has sent one.
func (e *Engine) pollBriefly() {
	long := time.Duration(0) // if all sources are costly to poll: only frames that are there
	if e.costlyPoll != e.turn.all {
		long = doorbellFor
	}
	for b := newBudget(e.cfg.Crowded); ; {
		switch {
		case e.poll(0, false):
			if e.waits() {
				return
			}
			b = newBudget(e.cfg.Crowded)
		case e.turn.requested.Load():
			return
		case e.midway() && (e.full || long == 0):
			if yieldProcessor(false); b.over(doorbellMidwayFor) {
				return
			}
		case e.full || b.over(long):
			return
		}
	}
}

// onHold reports whether doorbell goroutines and the guard must not poll yet.
func (e *Engine) onHold() bool {
	select {
	case <-e.cfg.Hold:
		return false
	default:
		return e.cfg.Hold != nil
	}
}
