// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// The state word of an access. Each bit is set at most once and never cleared,
// so that setting is adding: one XADD, whose result tells the setter which
// conditions its bits made true (README.md, "The state word").
const (
	// Tokens at the in-port.
	hasR uint32 = 1 << iota // read token: all earlier writers are done
	hasW                    // write token: everything earlier is done (implies hasR)
	hasG                    // the group of this access is open

	// The in-port is joined to the out-port: the task gave the object up and
	// no child's chain hangs between.
	through

	// Tokens that came up from the last child's access.
	outR
	outW // implies outR

	// Links. The pointers are written before the bits.
	hasNext   // succ is set
	nextUp    // succ is the parent's access: deliver to its out-port
	nextGroup // succ is of the same group
	hasChild  // child is set
	childGrp  // child continues the group of this access

	// Nothing will ever follow in this domain.
	closed

	// The task's memory is left to the garbage collector: somebody may
	// still hold a late, harmless message for the in-port.
	linger

	// Constants of the access, set before it is published.
	isReader
	isGroup
	isWeak

	// As linger, for the out-port. It has a bit of its own, since both ports can
	// have late messages and a bit that is added twice would carry.
	lingerUp

	// A constant as well: the task's only access, and nothing else holds the
	// task back.
	isSolo

	// A constant: the access is a bridge, which brings what comes to it to a gate (bridge.go).
	isBridge

	// Constants of a Reduce access, which has isWeak as well (reduce.go): the
	// mode, and whether the task itself takes part.
	isReduce
	isPart

	// Constants too. isCommut: with isGroup, a group of Commutative accesses; without, one that
	// acts as InOut, under a holder. isHeld: an ancestor holds the object (README.md, "Exclusion").
	isCommut
	isHeld

	// A constant, of no effect: the access was declared weak, beside a strong Commutative one.
	saidWeak

	lingers = linger | lingerUp
)

// toOut moves the token and linger bits of an in-port to the out-port.
const toOut = outR / hasR

// Fails to compile when the bits are not laid out for toOut.
const _ = -uint32(hasW*toOut ^ outW | linger*toOut ^ lingerUp)

// What a state makes true. Each becomes true once, for whoever set the bit
// that made it so; that goroutine carries it out.
const (
	sendR  uint32 = 1 << iota // read token to succ
	sendW                     // write token to succ
	sendG                     // succ's group is open
	childR                    // the same three to the first child
	childW
	childG
	ready  // the task may start, as far as this access is concerned
	rest   // nothing more to receive or to send
	unlock // the task's hold on the object ends
)

// bit positions used by effects.
const (
	posR, posW, posG, posThrough, posOutR, posOutW = 0, 1, 2, 3, 4, 5
	posNext, posNextGroup, posChild, posChildGrp   = 6, 8, 9, 10
	posClosed, posReader, posGroup, posWeak        = 11, 13, 14, 15
	posCommut                                      = 21
)

// Fails to compile when the positions are not those of the bits.
const _ = -uint32(isReader ^ 1<<posReader | isWeak ^ 1<<posWeak | isCommut ^ 1<<posCommut)

// effects returns the conditions that hold in state s. It is monotone: more
// bits in s never make an effect false.
//
//	open for reading      r  = hasR or hasW
//	group open            g  = hasG or hasW
//	out-port read         or = (outR or outW or through) and r
//	out-port write        ow = (outW or through) and hasW
//	sendR  = hasNext and (reader ? r : or)    readers pass the read token on at once
//	sendW  = hasNext and ow
//	sendG  = nextGroup and g
//	childX = hasChild and X at the in-port
//	ready  = reader ? r : group ? g : hasW
//	rest   = ow and (hasNext or closed)
//	unlock = a holder, and (outW or through)
//
// The tokens at the out-port count only together with those at the in-port. For most accesses the
// former imply the latter; the children's chain of a holder begins before the in-port has the write
// token.
func effects(s uint32) uint32 {
	w := s >> posW & 1
	r := s&1 | w
	g := s>>posG&1 | w
	thr := s >> posThrough & 1
	end := s>>posOutW&1 | thr // the use is over, if not all before it
	ow := end & w
	or := (s>>posOutR | end) & r
	rd := s >> posReader & r & 1 // reader with the read token
	next := s >> posNext & 1
	child := s >> posChild & 1

	e := next & (rd | or)
	e |= next & ow << 1
	e |= s >> posNextGroup & g & 1 << 2
	e |= child & r << 3
	e |= child & w << 4
	e |= s >> posChildGrp & g & 1 << 5
	e |= (rd | w | s>>posGroup&g&1) << 6
	e |= ow & (next | s>>posClosed&1) << 7
	e |= s >> posCommut & (s >> posGroup) &^ (s >> posWeak) & end << 8
	return e
}

// finished reports whether the access is over: its out-port holds the write
// token, so that nothing of its task or of its task's descendants uses the object any more.
func finished(s uint32) bool { return s&hasW != 0 && s&(through|outW) != 0 }

// The functions below are effects for one question each, where the answer must be
// quick; a test compares them with effects over all states.

// startable reports whether the task may start as far as an access in state s is concerned.
func startable(s uint32) bool { return s&(hasW|s>>posReader&1*hasR|s>>posGroup&1*hasG) != 0 }

// passes returns the tokens that an access in state s, whose successor is linked at
// this moment, has for it.
func passes(s uint32) uint32 {
	if finished(s) {
		return hasW
	}
	var t uint32
	if s&isReader != 0 && s&(hasR|hasW) != 0 || s&hasR != 0 && s&(through|outR|outW) != 0 || s&hasW != 0 && s&outR != 0 {
		t = hasR
	}
	if s&nextGroup != 0 && s&(hasG|hasW) != 0 {
		t |= hasG
	}
	return t
}

// onlyReady reports whether the write token, which made s what it is, can have no other
// effect than that the task may start: the access gives nothing on yet.
func onlyReady(s uint32) bool {
	return s&(through|hasChild|closed|outR|outW) == 0 &&
		(s&hasNext == 0 || s&(isReader|isGroup) == 0)
}

// lastWord reports whether who brings the next token is the only one who may still change s, the
// state of an access, as long as no message to its in-port is late: the task is one of those that
// cannot have started without the token, so that it neither gives the access up nor has children,
// and there is a successor, so that the creator is done with it (README.md, "The last to speak").
func lastWord(s uint32) bool {
	const others = hasW | through | outR | outW | hasChild | closed | lingers | isGroup | isWeak | isBridge | isReduce
	return s&(hasNext|others|s>>posReader&1*hasR) == hasNext //bug:last-word
}

// readerOver is what s is for a strong reader that is given up and has no children, without
// the bits that do not matter then.
func readerOver(s uint32) uint32 { return s &^ (isSolo | isHeld | hasR | isReader | through) }

// sameGroup reports whether neighbours in the states s and t are of one group.
func sameGroup(s, t uint32) bool { return s&t&isGroup&^((s^t)>>(posCommut-posGroup)) != 0 }

// isHolder reports whether s is of an access for which its task holds the object alone while it
// runs: a strong Commutative one, if no ancestor does.
func isHolder(s uint32) bool { return s&(isCommut|isGroup|isWeak) == isCommut|isGroup }

// holdsBelow reports whether s is of an access to an object that its task's descendants need not
// take: the task holds it, or one above it.
func holdsBelow(s uint32) bool { return s&isHeld != 0 || isHolder(s) }

// below returns as, the state of an access that comes first in the domain of an access in state ps,
// with what it inherits.
func below(ps, as uint32) uint32 {
	if holdsBelow(ps) {
		as = underHolder(as)
	}
	return as
}

// underHolder returns as for an access to an object that an ancestor holds.
func underHolder(as uint32) uint32 {
	if as&isCommut != 0 {
		as &^= isGroup
	}
	return as | isHeld
}

// What a task declares, as bits of the state word.

// union returns the state of an access that one task declares twice, as in state s and as x.
func union(s uint32, x Access) uint32 {
	if s&isReduce != 0 {
		return s | x.bits()
	}
	if combine(modeOf(s), x.Mode().order()) != modeOf(s) {
		s &^= isReader | isGroup | isCommut
	}
	if !x.weak {
		s &^= isWeak
	}
	return s
}

// bits returns the constant part of the state word of an access.
func (a Access) bits() uint32 {
	var s uint32
	switch a.Mode() {
	case ModeIn:
		s = isReader
	case ModeConcurrent:
		s = isGroup
	case ModeReduce:
		if a.weak {
			return isReduce | isWeak
		}
		return isReduce | isWeak | isPart
	case ModeCommutative:
		s = isGroup | isCommut
	}
	if a.weak {
		s |= isWeak
	}
	if a.mode&heldMode != 0 {
		s = underHolder(s)
	}
	return s
}

// modeOf returns the mode in a state word, with Out as InOut.
func modeOf(s uint32) Mode {
	switch {
	case s&isReader != 0:
		return ModeIn
	case s&isCommut != 0:
		return ModeCommutative
	case s&isGroup != 0:
		return ModeConcurrent
	case s&isReduce != 0:
		return ModeReduce
	}
	return ModeInOut
}

// isWeakly reports whether an access in state s was declared weak.
func isWeakly(s uint32) bool { return s&isWeak != 0 && s&isPart == 0 || s&saidWeak != 0 }
