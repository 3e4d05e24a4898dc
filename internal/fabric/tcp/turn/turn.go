// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package turn says whose turn it is to look at the sockets of an endpoint, and sees to it that somebody is there for what comes when nobody looks. It is the
// protocol of ../README.md, which has the states, the steps and the bad schedules; the letters below are its steps. What it needs of the system is a
// [Kernel], so that tests can run it with every order of its steps (go test -tags explore).
//
//	t.Init(k)              // nobody looks, and the sleeper is armed
//	if t.Enter() {         // E: the caller looks
//		t.Disarm()     // and for long
//		found := look()
//		t.Leave(found) // L1 to L3
//	}
//
// A Turn has these states, of which each step changes one or two:
//
//	word     nobody | looking, each with or without called
//	armed    the sleeper will be woken by what comes, or was; as far as who looks knows
//	fired    he was: armed is not true any more
//	guarded  the guard will come
//
// Any goroutine may call Enter, Call, Spoken and Watch, nobody but who looks the rest. Nothing here blocks, but for what the Kernel does.
package turn

import "weft/internal/xatomic"

// The bits of word.
const (
	looking = 1 << iota // somebody looks
	called              // and has something else to do, before ending that
)

// Kernel is what a Turn needs of the system. Its methods are called by who looks, but for Guard.
type Kernel interface {
	// Arm has Spoken called, once, by what comes, or has come; or takes that back.
	Arm(on bool)
	// Soon reports whether somebody is likely to look again so soon that it is not worth while to arm. found: who leaves has found what he looked for.
	Soon(found bool) bool
	// Guard has Watch called in a while, and again until it returns true.
	Guard()
	// Poll delivers what is there, and reports whether it was anything.
	Poll() bool
	// Linger delivers what comes for a short time; who calls it is the sleeper.
	Linger()
	// Serve does what who looks was called for.
	Serve()
}

// Turn is whose turn it is.
type Turn struct {
	k Kernel // constant after Init

	word   xatomic.Uint32
	fired  xatomic.Bool
	up     xatomic.Bool // it is the sleeper, or the guard, who looks
	wanted xatomic.Bool // and another goroutine would rather

	// Of who looks.
	armed   bool
	guarded bool
}

// Init makes a Turn, at which nobody looks; the Kernel has armed already.
func (t *Turn) Init(k Kernel) { t.k, t.armed = k, true }

// Enter makes the caller the one who looks, unless somebody is. (E)
func (t *Turn) Enter() bool {
	for {
		v := t.word.Load()
		if v&looking != 0 {
			return false
		}
		if t.word.CompareAndSwap(v, v|looking) {
			return true
		}
	}
}

// Disarm is for who looks for long: nobody needs to be woken meanwhile.
func (t *Turn) Disarm() {
	if t.armed {
		t.armed = false //bug:disarmed
		t.k.Arm(false)  //bug:disarmed
	}
}

// Leave ends the looking. found: it was worth it.
func (t *Turn) Leave(found bool) {
	for n := 0; ; n++ {
		t.settle(found && n == 0, n)           //bug:L1
		if t.word.CompareAndSwap(looking, 0) { //bug:L2
			return // L2
		}
		t.word.And(^uint32(called)) // L3
		t.serve()
	}
}

// patience is how often who leaves arms. If the sleeper has been up and called each time, something is here that the caller has not read, and may not: he
// would be called for ever.
const patience = 2

// settle sees to it that somebody is there for what comes when the caller has left, who tries that for the n-th time, from 0. (L1)
func (t *Turn) settle(found bool, n int) {
	switch { //bug:arm
	case t.armed:
	case n < patience && !t.k.Soon(found):
		t.armed = true
		t.k.Arm(true)
	case !t.guarded:
		t.guarded = true
		t.k.Guard()
	}
}

// serve does what who looks was called for.
func (t *Turn) serve() {
	if t.fired.Swap(false) { //bug:L3
		t.armed = false
	}
	t.k.Serve()
}

// Call has something done by who looks, or else by the caller. (C1, C2)
func (t *Turn) Call() {
	if t.word.Or(called)&looking == 0 && t.Enter() { //bug:C1
		t.Leave(false)
	}
}

// Spoken is the sleeper, who has been woken.
func (t *Turn) Spoken() {
	t.fired.Store(true)                               //bug:S1
	if t.word.Or(called)&looking != 0 || !t.Enter() { //bug:S1
		return // S2: who looks serves before he leaves, and arms, or says who is there
	}
	t.wanted.Store(false)
	t.up.Store(true)
	t.serve()
	t.k.Linger()
	t.Leave(false)
	t.up.Store(false)
}

// Watch is the guard, who looks. It returns false if somebody else looks: then it is to be called again in a while.
func (t *Turn) Watch() bool {
	if !t.Enter() { //bug:G1
		return false
	}
	t.up.Store(true)
	t.guarded = false //bug:again
	t.k.Poll()        // G2
	t.Leave(true)     //bug:G3
	t.up.Store(false)
	return true
}

// Insist reports whether it is the sleeper or the guard who looks, and asks him to make way.
func (t *Turn) Insist() bool {
	if !t.up.Load() {
		return false
	}
	t.wanted.Store(true)
	return true
}

// Wanted reports whether somebody would rather look than leave it to the sleeper.
func (t *Turn) Wanted() bool { return t.wanted.Load() }

// Armed reports whether the sleeper is armed, as far as who looks knows: the caller.
func (t *Turn) Armed() bool { return t.armed }

// Called reports whether who looks was called.
func (t *Turn) Called() bool { return t.word.Load() == looking|called }
