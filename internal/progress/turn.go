// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package progress

import (
	"math/bits"

	"weft/internal/fabric"
	"weft/internal/xatomic"
)

// The bits of word.
const (
	polling = 1 << iota // a goroutine has the turn
	called              // the turn's owner must serve before it gives up the turn
)

// policy makes the decisions of a turn that depend on time. Its methods are called by the goroutine
// that has the turn.
type policy interface {
	// morePollsSoon reports whether another poll is likely so soon that arming is not worthwhile.
	morePollsSoon() bool
	// startGuard has guardPoll called after a while, and again until it returns true.
	startGuard()
	// pollBriefly polls all sources for a short time, for a doorbell goroutine.
	pollBriefly()
}

// turn is the right to poll the sources of a rank: one goroutine has it at a time, as with a mutex.
// README.md has the states and the protocol, whose steps are named here (E, L1, S1 ...). Any
// goroutine may call enter, call, rung, guardPoll and request; only the goroutine that has the turn
// may call the other methods. No method blocks, except in methods of sources and of the policy.
//
//	word     free | polling, each with or without called
//	armed    sources that will ring at the next arrival, or have rung, as far as the owner knows
//	fired    sources that have rung: they are not armed any more
//	guarded  the guard will come
type turn struct {
	policy    policy // constant after init
	costlyArm uint32 // constant after init: sources whose arming may be deferred, as a set

	word       xatomic.Uint32
	fired      xatomic.Uint32 // sources, as a set
	background xatomic.Bool   // a doorbell goroutine, or the guard, has the turn
	requested  xatomic.Bool   // another goroutine has asked the background one for the turn

	// Owned by the goroutine that has the turn.
	sources []fabric.Source
	all     uint32 // sources that are polled, as a set
	armed   uint32
	guarded bool
}

// init makes a turn that is free. The sources are armed already; costlyArm is the set of those
// whose arming may be deferred.
func (t *turn) init(p policy, sources []fabric.Source, costlyArm uint32) {
	t.policy, t.sources, t.costlyArm = p, sources, costlyArm
	t.all = 1<<len(sources) - 1
	t.armed = t.all
}

// enter gives the caller the turn, unless another goroutine has it. (E)
func (t *turn) enter() bool {
	for {
		v := t.word.Load()
		if v&polling != 0 {
			return false
		}
		if t.word.CompareAndSwap(v, v|polling) {
			return true
		}
	}
}

// disarm disarms those of the sources that are armed. It is for a caller that polls for long:
// meanwhile arrivals need not wake any goroutine.
func (t *turn) disarm(sources uint32) { t.forceDisarm(sources & t.armed) }

// forceDisarm disarms all of the sources, armed or not.
func (t *turn) forceDisarm(sources uint32) {
	for ; sources != 0; sources &= sources - 1 {
		t.armed &^= sources & -sources                                            //bug:disarmed
		t.sources[bits.TrailingZeros32(sources)].Arm(false, fabric.LeavingInVain) //bug:disarmed
	}
}

// leave gives up the turn. found: the caller's polls have found something.
func (t *turn) leave(found bool) {
	if t.armed == 0 && t.all == 1 && t.costlyArm == 0 {
		t.armSource(0, whyOf(found), true) // the whole of L1 if memory is the only source
	}
	if t.armed == t.all && t.word.CompareAndSwap(polling, 0) {
		return // the usual case of a single poll
	}
	t.leaveBy(found, true)
}

func whyOf(found bool) fabric.Leaving {
	if found {
		return fabric.LeavingFound
	}
	return fabric.LeavingInVain
}

// leaveBy is leave. polls: the caller may poll.
func (t *turn) leaveBy(found, polls bool) {
	for n := 0; ; n++ {
		t.armAll(found, polls, n)              //bug:L1
		if t.word.CompareAndSwap(polling, 0) { //bug:L2
			return // L2
		}
		t.word.And(^uint32(called)) // L3
		t.serve()
		if polls { // sources that have rung have something
			t.poll(t.all &^ t.armed)
		}
	}
}

// poll polls each of these sources once.
func (t *turn) poll(sources uint32) {
	for ; sources != 0; sources &= sources - 1 {
		t.sources[bits.TrailingZeros32(sources)].Poll(false)
	}
}

// exhausted reports whether a caller that may not poll has armed often enough: this is its n-th
// time, from 0. If a doorbell goroutine has woken and called each time, a frame is there, and the
// caller would be called for ever. The guard will read the frame.
func exhausted(n int) bool {
	return n >= 2 //bug:exhausted
}

// armAll arms all sources, or starts the guard where arming is deferred, so that arrivals after the
// caller has left are noticed. It is the caller's n-th time, from 0. polls: the caller may poll.
// (L1)
func (t *turn) armAll(found, polls bool, n int) {
	missing := t.all &^ t.armed
	if missing == 0 {
		return
	}
	deferred := !polls && exhausted(n)
	if deferred {
		missing = 0
	}
	why := whyOf(found)
	if found && n == 0 && missing&t.costlyArm != 0 && t.policy.morePollsSoon() {
		// Only at n == 0: a goroutine that was called meanwhile must arm.
		why = fabric.LeavingForSoon
	}
	for ; missing != 0; missing &= missing - 1 {
		deferred = t.armSource(bits.TrailingZeros32(missing), why, polls) || deferred
	}
	if deferred && !t.guarded {
		t.guarded = true
		t.policy.startGuard() //bug:guard
	}
}

// armSource arms one source, or reports that the source has deferred it. The caller delivers frames
// that are there already, since to wake another goroutine costs more. If there are always more, or
// the caller may not poll, it rings the doorbell.
func (t *turn) armSource(source int, why fabric.Leaving, polls bool) (deferred bool) {
	bit := uint32(1) << source
	for n := 0; ; n++ {
		armed := t.armOnce(source, why)
		if armed == fabric.ArmDeferred {
			t.armed &^= bit //bug:deferred
			return true
		}
		if armed == fabric.ArmedFully {
			return false
		}
		if !polls || n == leaveAfter {
			t.sources[source].RingDoorbell() //bug:ring
			return false                     //bug:ring
		}
		t.armed &^= bit //bug:once-more
		t.poll(bit)     //bug:once-more
	}
}

// armOnce arms one source. The source counts as armed before the call: a doorbell may ring at once.
func (t *turn) armOnce(source int, why fabric.Leaving) fabric.Armed {
	t.armed |= 1 << source
	return t.sources[source].Arm(true, why) //bug:arm
}

// serve takes note of the sources that have rung, and serves callers.
func (t *turn) serve() {
	t.armed &^= t.fired.Swap(0) //bug:L3
	for _, s := range t.sources {
		s.Serve()
	}
}

// call has the turn's owner serve; if the turn is free, the caller does. (C1, C2)
func (t *turn) call() {
	if t.word.Or(called)&polling == 0 && t.enter() { //bug:C1
		t.leaveBy(false, false)
	}
}

// rung is called by the doorbell goroutine of a source, which has been woken. (S1, S2)
func (t *turn) rung(source int) {
	t.fired.Or(1 << source)                           //bug:S1
	if t.word.Or(called)&polling != 0 || !t.enter() { //bug:S1
		return // S2: the turn's owner serves before it leaves, and arms or starts the guard
	}
	t.requested.Store(false)
	t.background.Store(true)
	t.serve()
	t.forceDisarm(t.all &^ t.costlyArm) // a source that has rung may ring again by now
	t.policy.pollBriefly()
	t.leave(false)
	t.background.Store(false)
}

// guardPoll is the poll of the guard. It returns false if another goroutine has the turn: then it
// must be called again after a while.
func (t *turn) guardPoll() bool {
	if !t.enter() { //bug:G1
		return false
	}
	t.background.Store(true)
	t.guarded = false //bug:again
	t.poll(t.all)     // G2
	t.leave(true)     //bug:G3
	t.background.Store(false)
	return true
}

// request reports whether a doorbell goroutine or the guard has the turn, and if so, requests the
// turn from it.
func (t *turn) request() bool {
	if !t.background.Load() {
		return false
	}
	t.requested.Store(true)
	return true
}
