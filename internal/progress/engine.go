// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package progress has the engine that polls the fabrics of a rank: which goroutine polls, for how
// long, and what wakes somebody when nobody does. README.md has the protocol.
//
//	e := progress.New(ep.Sources(), progress.Config{Ranks: 1})
//	ep.Bind(handler, e)
//	e.Look(woken, false) // a goroutine that waits for something in this channel
//	e.Try()              // a loop around Test
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

// Config says how an engine gives way to others.
type Config struct {
	Ranks   int  // that share this process
	Crowded bool // more ranks share the processors of this node than these are
	Full    bool // no rank has a second processor: its node has fewer than two for each
	// Hold, if not nil, keeps the goroutines of doorbells, and the guard, from polling until it is
	// closed. For tests.
	Hold <-chan struct{}
}

// Engine drives the sources of one rank. All methods may be called by any goroutine, but as they
// say.
type Engine struct {
	// Constant after construction.
	cfg        Config
	known      []fabric.Source
	aside      uint32 // sources that are dear to poll,
	dear       uint32 // and to arm
	readers    bool   // there are goroutines that read, which must get the processor
	yieldEvery uint32 // tries until other goroutines get it
	full       bool   // no processor is left for a goroutine that polls beside the rank
	timer      timer  // the guard's

	turn turn

	// Of who has the turn.
	last int           // the source that has found something last
	left time.Duration // when somebody has left, for soon

	polled atomic.Int64  // when a loop has polled, for dear sources
	gaveUp atomic.Int64  // when somebody stopped looking with nothing found, and so may be asleep
	ending xatomic.Int32 // calls of Retire under way: nobody else takes the turn

	_ [cacheLine]byte // loops of ranks that share a process count in lines of their own
	// tries in a row that have delivered nothing, of all goroutines of the rank
	tries atomic.Uint32
	_     [cacheLine]byte
}

// New returns the engine of these sources, all armed: none, if nothing comes in a way that can be
// polled.
func New(sources []fabric.Source, cfg Config) *Engine {
	e := &Engine{cfg: cfg, full: cfg.Full || runtime.NumCPU() == 1}
	for _, s := range sources {
		c := s.Costs()
		if c.Readers {
			e.readers = true
			continue
		}
		bit := uint32(1) << len(e.known)
		e.known = append(e.known, s)
		if c.Poll {
			e.aside |= bit
		}
		if c.Arm {
			e.dear |= bit
		}
	}
	e.turn.init(e, slices.Clone(e.known), e.dear)
	e.timer = newTimer(func() {
		if e.held() || !e.turn.watch() {
			e.guard()
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

// Polls reports whether anything comes in a way that can be polled.
func (e *Engine) Polls() bool { return len(e.known) > 0 }

// Try delivers what has come. If nothing has, it now and then gives the processor to others: a loop
// around Test must not starve the goroutine, or the process, that it waits for. It never waits:
// where another goroutine has the turn, what comes is left to that one, so it may be called
// anywhere, also in a callback. It reports whether this call has delivered anything.
func (e *Engine) Try() (delivered bool) {
	n := e.tries.Add(1)
	if e.Polls() && e.poll1(int(n&math.MaxInt32)) {
		e.tries.Store(0)
		return true
	}
	if n%e.yieldEvery == 0 {
		runtime.Gosched()
	}
	if e.readers && n%readEvery == 0 {
		// when no goroutine can run, Go's poller looks, and wakes readers
		time.Sleep(time.Microsecond)
	}
	return false
}

// Poll is Try for who has other work if there is nothing, and sees to others' processors itself.
func (e *Engine) Poll() bool { return e.Polls() && e.poll1(0) }

// poll1 polls once. tries is how many in a row have found nothing if this one does; 0: the caller
// does not say. Where somebody else has the turn, nothing is left to it; but a doorbell's goroutine
// makes way for one that polls in a loop.
//
// A poll that finds nothing arms and disarms nothing: another processor may have that word's line,
// and a loop of polls would take it away each time. One that finds something disarms what is cheap
// to arm (see fabric.Source.Poll), so that nobody wakes a sleeper for what comes meanwhile. A loop
// that has found nothing for long disarms what is dear as well, and leaves as if it had found
// something: it will be back before the guard comes.
func (e *Engine) poll1(tries int) (did bool) {
	switch {
	case e.Take():
		again := false
		if dear := e.dear; dear != 0 && tries > testsAfter {
			now := clock()
			again = now-time.Duration(e.polled.Swap(int64(now))) < rapid
			if again {
				e.turn.disarm(dear)
				e.left = now
			}
		}
		did = e.poll(tries, false)
		e.leave(did || again)
	case tries > 0:
		e.turn.insist()
	}
	every := triesAlone
	if e.cfg.Crowded {
		every = triesCrowded
	}
	if !did && tries > 0 && tries%every == 0 {
		rest(tries/every%triesHere == 0)
	}
	return did
}

// Take gives the caller the turn, unless somebody has it, or is about to end a source: callers that
// come again and again would keep that one from it for ever. The caller calls Seek, Look or Leave
// then.
func (e *Engine) Take() bool { return e.Polls() && e.ending.Load() == 0 && e.turn.enter() }

// Enter is Take by a caller that is about to poll: nobody needs to be woken for what comes
// meanwhile.
func (e *Engine) Enter() bool {
	if !e.Take() {
		return false
	}
	e.disarm()
	return true
}

// Leave gives the turn up.
func (e *Engine) Leave() { e.leave(true) }

// disarm is for who polls for long: what is dear to arm is disarmed only if something has come from
// there last. The caller has the turn.
func (e *Engine) disarm() { e.turn.disarm(e.turn.all&^e.dear | 1<<e.last) }

func (e *Engine) leave(found bool) {
	e.turn.leave(found)
	e.work()
}

// work does what is to be done without the turn.
func (e *Engine) work() {
	for _, s := range e.known {
		s.Work()
	}
}

// claim gives the caller the turn, unless another goroutine has it that waits too: a doorbell's
// makes way, since a goroutine that it would have to wake would go on later.
func (e *Engine) claim(w *waiter) bool {
	if e.Take() {
		return true
	}
	if !e.Polls() || !e.turn.insist() {
		return false
	}
	for n := 1; !e.Take(); n++ {
		if w.met() || n > wantFor {
			return false
		}
		if n%100 == 0 {
			pause()
		}
	}
	return true
}

// waiter is what a goroutine polls for: something in a channel, or what a function says.
type waiter struct {
	ch    <-chan struct{}
	ready func() bool
}

func (w *waiter) met() bool {
	if w.ready != nil {
		return w.ready()
	}
	return woke(w.ch)
}

// Look polls until there is something in ch, or for a short time only. entered: the caller has the
// turn; it has it no more. It returns at once if another goroutine has it that waits too.
func (e *Engine) PollChannel(ch <-chan struct{}, entered bool) {
	w := waiter{ch: ch}
	if entered || e.claim(&w) {
		e.look(&w, lookFor)
	} else if e.dear != 0 && !w.met() {
		e.gaveUp.Store(int64(clock()))
	}
}

// Watch polls until ready says so, which is asked often, or for a short time only. Where another
// goroutine has the turn, it only waits.
func (e *Engine) Watch(ready func() bool) {
	n := glances
	if e.cfg.Crowded {
		n = glancesCrowded
	}
	for range n {
		if ready() {
			return
		}
	}
	w := waiter{ready: ready}
	if e.claim(&w) {
		e.look(&w, watchFor)
		return
	}
	for b := newBudget(e.cfg.Crowded); !b.over(watchFor) && !ready(); {
	}
}

// look polls until w is met, or nothing has come for a while, and gives the turn up, which the
// caller has. It disarms before the first poll: a peer that sends meanwhile would wait for the
// second one, to see whether it has to wake anybody.
func (e *Engine) look(w *waiter, long time.Duration) {
	for {
		met, idle := e.lookOn(w, long, true)
		if idle {
			e.gaveUp.Store(int64(clock()))
		}
		if e.leave(!idle); met || idle || !e.Take() {
			return // who has the turn delivers
		}
	}
}

// Seek polls until ready says so, which is asked often, and reports whether it has: the caller has
// the turn, and has it still. false: something is to be done without the turn, or, tired, the time
// is over.
func (e *Engine) PollUntil(ready func() bool) (met, tired bool) {
	return e.lookOn(&waiter{ready: ready}, lookFor, false)
}

// lookOn is look without a break, of who has the turn, and keeps it. Neither met nor idle: there is
// something to be done without it. first: it disarms before the first poll, and not behind it,
// where what is here already costs less.
func (e *Engine) lookOn(w *waiter, long time.Duration, first bool) (met, idle bool) {
	b := newBudget(e.cfg.Crowded)
	for n := 1; !w.met(); n++ {
		if first {
			e.disarm()
			first = false
		}
		if e.poll(n, !e.cfg.Crowded) {
			if w.met() {
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
			if e.dear != 0 && b.vain() > disarmAfter {
				e.turn.disarm(e.turn.all)
			}
		} else if e.cfg.Crowded || b.vain() > midwayFor || !e.midway() {
			return false, true
		}
	}
	return true, false
}

// poll polls the sources, for the n-th time: those that are cheap to poll, and the one that has
// found something last; the others now and then. It reports whether there was anything. patient:
// the caller comes again at once if there is not. The caller has the turn.
func (e *Engine) poll(n int, patient bool) (did bool) {
	if len(e.turn.sources) == 1 {
		if did = e.turn.sources[0].Poll(patient); did {
			e.turn.armed &= e.dear
		}
		return did
	}
	for i, s := range e.turn.sources {
		if (e.aside>>i&1 == 0 || i == e.last || n%asideEvery == 0) && s.Poll(false) {
			e.turn.armed &^= 1 << i &^ e.dear
			e.last = i
			did = true
		}
	}
	return did
}

// waits reports whether something is to be done without the turn. The caller has it, as for the
// next.
func (e *Engine) waits() bool { return slices.ContainsFunc(e.turn.sources, fabric.Source.Waits) }

// midway reports whether pieces of a transfer are to come, or to go.
func (e *Engine) midway() bool { return slices.ContainsFunc(e.turn.sources, fabric.Source.Midway) }

// What fabrics call.

// Ring is the doorbell of a source, which was armed: something has come. A goroutine of the
// fabric's own calls it, which may be the one to deliver that.
func (e *Engine) Ring(s fabric.Source) {
	if e.cfg.Hold != nil {
		<-e.cfg.Hold
	}
	e.turn.rung(slices.Index(e.known, s))
	e.work()
}

// Call has Serve called, by who has the turn or else by the caller.
func (e *Engine) Call() { e.turn.call() }

// Retire ends the polling of a source: when it has returned true, nobody calls its methods any
// more, nor will. false: somebody does still, after limit.
func (e *Engine) Retire(s fabric.Source, limit time.Duration) bool {
	e.ending.Add(1)
	defer e.ending.Add(-1)
	for d := newDeadline(limit); !e.turn.enter(); {
		if !d.pause() {
			return false
		}
	}
	i := slices.Index(e.known, s)
	e.turn.sources[i] = fabric.NoSource{}
	e.turn.all &^= 1 << i
	e.turn.armed &^= 1 << i
	if e.turn.all == 0 {
		e.timer.stop()
	}
	e.leave(true)
	return true
}

// The methods of kernel.

// soon reports whether who leaves is likely to be back, or another one to come, before it is worth
// while to arm.
func (e *Engine) soon() bool {
	now := clock()
	before := e.left
	e.left = now
	return now-before < rapid && now-time.Duration(e.gaveUp.Load()) > othersWait
}

func (e *Engine) guard() { e.timer.start(guardAfter) }

// linger is the look of a doorbell's goroutine. Where the node has no processor for that goroutine,
// it delivers what is here and no more: the kernel mostly wakes it on its rank's own processor, and
// the next message comes only after the rank has sent one.
func (e *Engine) linger() {
	long := time.Duration(0) // dear polls are for what is here
	if e.aside != e.turn.all {
		long = sleeperFor
	}
	for b := newBudget(e.cfg.Crowded); ; {
		switch {
		case e.poll(0, false):
			if e.waits() {
				return
			}
			b = newBudget(e.cfg.Crowded)
		case e.turn.wanted.Load():
			return
		case e.midway() && (e.full || long == 0):
			if rest(false); b.over(sleeperMidway) {
				return
			}
		case e.full || b.over(long):
			return
		}
	}
}

// held reports whether doorbells and the guard are not to poll yet.
func (e *Engine) held() bool {
	select {
	case <-e.cfg.Hold:
		return false
	default:
		return e.cfg.Hold != nil
	}
}
