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
	polling = 1 << iota // somebody has the turn
	called              // and has something else to do, before giving it up
)

// kernel is what a turn needs besides its sources. Its methods are called by the goroutine that has
// the turn.
type kernel interface {
	// soon reports whether somebody is likely to poll again so soon that it is not worth while to
	// arm.
	soon() bool
	// guard has watch called in a while, and again until it returns true.
	guard()
	// linger delivers what comes of all sources for a short time, for the goroutine of a doorbell.
	linger()
}

// turn is whose turn it is to poll the sources of a rank; README.md has the protocol, whose steps
// are named here. Any goroutine may call enter, call, rung and watch, nobody but who has the turn
// the rest. Nothing here blocks, but for what sources and the kernel do.
//
//	word     free | polling, each with or without called
//	armed    the doorbell of a source will be rung by what comes, or was, as far as who has the turn knows
//	fired    it was: armed is not true any more
//	guarded  the guard will come
type turn struct {
	k    kernel // constant after init
	dear uint32 // constant: sources whose arming is worth to be put off, as a set

	word   xatomic.Uint32
	fired  xatomic.Uint32 // sources, as a set
	up     xatomic.Bool   // a doorbell's goroutine, or the guard, has the turn
	wanted xatomic.Bool   // and another goroutine would rather

	// Of who has the turn.
	sources []fabric.Source
	all     uint32 // sources that are polled
	armed   uint32
	guarded bool
}

// init makes a turn that nobody has. The sources have been armed already; dear are those that it is
// worth while to put off.
func (t *turn) init(k kernel, sources []fabric.Source, dear uint32) {
	t.k, t.sources, t.dear = k, sources, dear
	t.all = 1<<len(sources) - 1
	t.armed = t.all
}

// enter gives the caller the turn, unless somebody has it. (E)
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

// disarm is for who polls for long: nobody needs to be woken for what comes of these sources
// meanwhile.
func (t *turn) disarm(sources uint32) { t.say(sources & t.armed) }

// say is disarm of sources that may be so already.
func (t *turn) say(sources uint32) {
	for ; sources != 0; sources &= sources - 1 {
		t.armed &^= sources & -sources                                            //bug:disarmed
		t.sources[bits.TrailingZeros32(sources)].Arm(false, fabric.LeavingInVain) //bug:disarmed
	}
}

// leave gives the turn up. found: it was worth it.
func (t *turn) leave(found bool) {
	if t.armed == 0 && t.all == 1 && t.dear == 0 {
		t.settleOne(0, whyOf(found), true) // all of L1 where memory is the only source
	}
	if t.armed == t.all && t.word.CompareAndSwap(polling, 0) {
		return // the way of most who pass by
	}
	t.leaveBy(found, true)
}

func whyOf(found bool) fabric.Leaving {
	if found {
		return fabric.LeavingFound
	}
	return fabric.LeavingInVain
}

// leaveBy is leave; polls: the caller may poll.
func (t *turn) leaveBy(found, polls bool) {
	for n := 0; ; n++ {
		t.settle(found, polls, n)              //bug:L1
		if t.word.CompareAndSwap(polling, 0) { //bug:L2
			return // L2
		}
		t.word.And(^uint32(called)) // L3
		t.serve()
		if polls { // what has rung is here
			t.poll(t.all &^ t.armed)
		}
	}
}

// poll delivers what is there of these sources.
func (t *turn) poll(sources uint32) {
	for ; sources != 0; sources &= sources - 1 {
		t.sources[bits.TrailingZeros32(sources)].Poll(false)
	}
}

// tired reports whether one who may not poll has armed often enough. If a doorbell's goroutine has
// been up and called each time, something is here, and the caller would be called for ever. The
// guard will read it.
func tired(n int) bool {
	return n >= 2 //bug:tired
}

// settle sees to it that somebody is there for what comes when the caller has left, who tries that
// for the n-th time, from 0. (L1)
func (t *turn) settle(found, polls bool, n int) {
	missing := t.all &^ t.armed
	if missing == 0 {
		return
	}
	later := !polls && tired(n)
	if later {
		missing = 0
	}
	why := whyOf(found)
	if found && n == 0 && missing&t.dear != 0 && t.k.soon() {
		// who is called has to see to it that somebody is
		why = fabric.LeavingForSoon
	}
	for ; missing != 0; missing &= missing - 1 {
		later = t.settleOne(bits.TrailingZeros32(missing), why, polls) || later
	}
	if later && !t.guarded {
		t.guarded = true
		t.k.guard() //bug:guard
	}
}

// settleOne arms one source, or reports that this is put off. What is here already the caller
// delivers, since to wake somebody costs more; if it does not end, or the caller may not, the
// doorbell is rung.
func (t *turn) settleOne(source int, why fabric.Leaving, polls bool) (later bool) {
	bit := uint32(1) << source
	for n := 0; ; n++ {
		armed := t.armOne(source, why)
		if armed == fabric.ArmDeferred {
			t.armed &^= bit //bug:put-off
			return true
		}
		if armed == fabric.ArmedFully {
			return false
		}
		if !polls || n == leaveAfter {
			t.sources[source].RingDoorbell() //bug:knock
			return false                     //bug:knock
		}
		t.armed &^= bit //bug:once-more
		t.poll(bit)     //bug:once-more
	}
}

// armOne arms one source. It counts as armed before: what comes at once finds it so.
func (t *turn) armOne(source int, why fabric.Leaving) fabric.Armed {
	t.armed |= 1 << source
	return t.sources[source].Arm(true, why) //bug:arm
}

// serve does what who has the turn was called for.
func (t *turn) serve() {
	t.armed &^= t.fired.Swap(0) //bug:L3
	for _, s := range t.sources {
		s.Serve()
	}
}

// call has something done by who has the turn, or else by the caller. (C1, C2)
func (t *turn) call() {
	if t.word.Or(called)&polling == 0 && t.enter() { //bug:C1
		t.leaveBy(false, false)
	}
}

// rung is the goroutine of a doorbell, which has been woken.
func (t *turn) rung(source int) {
	t.fired.Or(1 << source)                           //bug:S1
	if t.word.Or(called)&polling != 0 || !t.enter() { //bug:S1
		return // S2: who has the turn serves before it leaves, and arms, or says who is there
	}
	t.wanted.Store(false)
	t.up.Store(true)
	t.serve()
	t.say(t.all &^ t.dear) // what was rung can be rung again by now
	t.k.linger()
	t.leave(false)
	t.up.Store(false)
}

// watch is the guard, which polls. It returns false if somebody else has the turn: then it is to be
// called again in a while.
func (t *turn) watch() bool {
	if !t.enter() { //bug:G1
		return false
	}
	t.up.Store(true)
	t.guarded = false //bug:again
	t.poll(t.all)     // G2
	t.leave(true)     //bug:G3
	t.up.Store(false)
	return true
}

// insist reports whether a doorbell's goroutine or the guard has the turn, and asks it to make way.
func (t *turn) insist() bool {
	if !t.up.Load() {
		return false
	}
	t.wanted.Store(true)
	return true
}
