// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// The state word of an access. Each bit is set at most once and never cleared, so setting is
// adding: one XADD, whose result tells the setter which conditions its bits made true (README.md,
// "The state word").
const (
	// Tokens at the in-port.
	hasR    uint32 = 1 << iota // read token: all earlier writers are over
	hasW                       // write token: all earlier accesses are over (implies hasR)
	hasOpen                    // opening: the run of this access is open

	// The in-port is joined to the out-port: the task has given the object up, and there is no
	// chain of children's accesses between the ports.
	through

	// Tokens that came up from the last child's access.
	outR
	outW // implies outR

	// Links. The pointers are written before the bits.
	hasNext    // succ is set
	nextUp     // succ is the parent's access: deliver at its out-port
	nextInRun  // succ continues the run of this access
	hasChild   // child is set
	childInRun // child continues the run of this access

	// There will be no successor in this domain.
	closed

	// A late, harmless message for the in-port may be under way, so the task's memory is left to
	// the garbage collector.
	linger

	// Constants of the access, set before it is published.
	isReader
	inRun
	isWeak

	// As linger, for the out-port. It is a separate bit, since both ports can have late messages,
	// and a bit that is added twice would carry.
	lingerUp

	// A constant as well: this is the task's only access, and nothing else holds the task back.
	isSolo

	// A constant: the access is a bridge, which passes its messages to a gate (bridge.go).
	isBridge

	// Constants of a Reduce access, which has isWeak as well (reduce.go): the mode, and whether the
	// task itself takes part.
	isReduce
	isPart

	// Constants too. isCommut with inRun: a member of a Commutative run. isCommut without inRun: a
	// Commutative access below a holder, which acts as InOut. isHeld: an ancestor holds the object
	// (README.md, "Exclusion").
	isCommut
	isHeld

	// A constant, without effect: the access was declared weak in a task with a strong Commutative
	// access, which made it strong.
	declaredWeak

	lingers = linger | lingerUp
)

// toOut moves the token and linger bits of an in-port to the out-port.
const toOut = outR / hasR

// Fails to compile when the bits are not laid out for toOut.
const _ = -uint32(hasW*toOut ^ outW | linger*toOut ^ lingerUp)

// Effects: what a state makes true. Each becomes true once; the goroutine that set the bit that
// made it true carries it out.
const (
	sendR    uint32 = 1 << iota // read token to succ
	sendW                       // write token to succ
	sendOpen                    // opening to succ
	childR                      // the same three messages to the first child
	childW
	childOpen
	ready  // the task may start, as far as this access is concerned
	rest   // nothing more to receive or to send
	unlock // the task's hold on the object ends
)

// Bit positions used by effects.
const (
	posR, posW, posOpen, posThrough, posOutR, posOutW = 0, 1, 2, 3, 4, 5
	posNext, posNextInRun, posChild, posChildInRun    = 6, 8, 9, 10
	posClosed, posReader, posInRun, posWeak           = 11, 13, 14, 15
	posCommut                                         = 21
)

// Fails to compile when the positions are not those of the bits.
const _ = -uint32(isReader ^ 1<<posReader | isWeak ^ 1<<posWeak | isCommut ^ 1<<posCommut)

// effects returns the effects of state s. It is monotone: more bits in s never make an effect
// false.
//
//	open for reading      r  = hasR or hasW
//	run open              g  = hasOpen or hasW
//	out-port read         or = (outR or outW or through) and r
//	out-port write        ow = (outW or through) and hasW
//	sendR  = hasNext and (reader ? r : or)    readers pass the read token on at once
//	sendW  = hasNext and ow
//	sendOpen = nextInRun and g
//	childX = hasChild and X at the in-port
//	ready  = reader ? r : run member ? g : hasW
//	rest   = ow and (hasNext or closed)
//	unlock = a holder, and (outW or through)
//
// The tokens at the out-port count only together with those at the in-port. For most accesses the
// former imply the latter, but the children's chain of a holder begins before the in-port has the
// write token.
func effects(s uint32) uint32 {
	w := s >> posW & 1
	r := s&1 | w
	g := s>>posOpen&1 | w
	thr := s >> posThrough & 1
	end := s>>posOutW&1 | thr // the access itself is over; those before it may not be
	ow := end & w
	or := (s>>posOutR | end) & r
	rd := s >> posReader & r & 1 // reader with the read token
	next := s >> posNext & 1
	child := s >> posChild & 1

	e := next & (rd | or)
	e |= next & ow << 1
	e |= s >> posNextInRun & g & 1 << 2
	e |= child & r << 3
	e |= child & w << 4
	e |= s >> posChildInRun & g & 1 << 5
	e |= (rd | w | s>>posInRun&g&1) << 6
	e |= ow & (next | s>>posClosed&1) << 7
	e |= s >> posCommut & (s >> posInRun) &^ (s >> posWeak) & end << 8
	return e
}

// finished reports whether the access is over: its out-port holds the write token, so that its task
// and its task's descendants no longer use the object, nor does anything before them.
func finished(s uint32) bool { return s&hasW != 0 && s&(through|outW) != 0 }

// Each function below computes one aspect of effects, where the answer must be quick. A test
// compares them with effects over all states.

// startable reports whether an access in state s lets its task start.
func startable(s uint32) bool { return s&(hasW|s>>posReader&1*hasR|s>>posInRun&1*hasOpen) != 0 }

// passes returns the tokens that an access in state s has for a successor that is linked at this
// moment.
func passes(s uint32) uint32 {
	if finished(s) {
		return hasW
	}
	var t uint32
	if s&isReader != 0 && s&(hasR|hasW) != 0 || s&hasR != 0 && s&(through|outR|outW) != 0 || s&hasW != 0 && s&outR != 0 {
		t = hasR
	}
	if s&nextInRun != 0 && s&(hasOpen|hasW) != 0 {
		t |= hasOpen
	}
	return t
}

// onlyReady reports whether the write token, which made the state s, can have no other effect than
// that the task may start: the access passes nothing on yet.
func onlyReady(s uint32) bool {
	return s&(through|hasChild|closed|outR|outW) == 0 &&
		(s&hasNext == 0 || s&(isReader|inRun) == 0)
}

// soleWriter reports whether the goroutine that brings the next token is the only one that may
// still change s, the state of an access, provided that no message to its in-port is late. This is
// so if the task cannot have started without the token, so that it neither gives the access up nor
// has children, and if there is a successor, so that the creator is done with the word (README.md,
// "Plain stores").
func soleWriter(s uint32) bool {
	const others = hasW | through | outR | outW | hasChild | closed | lingers | inRun | isWeak | isBridge | isReduce
	return s&(hasNext|others|s>>posReader&1*hasR) == hasNext //bug:last-word
}

// readerOver returns s, the state of a strong reader that is given up and has no children, without
// the bits that do not matter then.
func readerOver(s uint32) uint32 { return s &^ (isSolo | isHeld | hasR | isReader | through) }

// sameRun reports whether neighbours in the states s and t are members of one run.
func sameRun(s, t uint32) bool { return s&t&inRun&^((s^t)>>(posCommut-posInRun)) != 0 }

// isHolder reports whether s is the state of an access for which its task holds the object alone
// while it runs: a strong Commutative one whose object no ancestor holds.
func isHolder(s uint32) bool { return s&(isCommut|inRun|isWeak) == isCommut|inRun }

// holdsBelow reports whether s is the state of an access to an object that its task's descendants
// need not take, since the task or one above it holds the object.
func holdsBelow(s uint32) bool { return s&isHeld != 0 || isHolder(s) }

// below returns as, the state of an access that is first in the domain of an access in state ps,
// with what it inherits from ps.
func below(ps, as uint32) uint32 {
	if holdsBelow(ps) {
		as = underHolder(as)
	}
	return as
}

// underHolder returns as for an access to an object that an ancestor holds.
func underHolder(as uint32) uint32 {
	if as&isCommut != 0 {
		as &^= inRun
	}
	return as | isHeld
}

// isWeakly reports whether an access in state s was declared weak.
func isWeakly(s uint32) bool { return s&isWeak != 0 && s&isPart == 0 || s&declaredWeak != 0 }
