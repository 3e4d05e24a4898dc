// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"weft/internal/xatomic"
)

// NextReady takes the next node that became ready, in the order in which they did; nil if there is
// none.
func (f *Flow) NextReady() *Node { return f.ready.pop() }

// MakeReady adds n, which is in no list, to the ready nodes. It is for nodes that the runtime
// orders itself, as by a Cycle.
func (f *Flow) MakeReady(n *Node) { f.ready.push(n) }

// NextFree takes the next node that nothing refers to any more; nil if there is none. Its memory
// may be used for another task.
func (f *Flow) NextFree() *Node { return f.free.pop() }

// Shrink frees memory that f has allocated for many nodes. f is not in use, and its lists are
// empty.
func (f *Flow) Shrink() {
	f.work, f.msgs, f.outs = shrunk(f.work), shrunk(f.msgs), shrunk(f.outs)
	f.ready.nodes, f.free.nodes = shrunk(f.ready.nodes), shrunk(f.free.nodes)
}

// shrunk returns list, or nil if it is empty and its memory is large.
func shrunk[E any](list []E) []E {
	const most = 1024 // elements (guess)
	if len(list) == 0 && cap(list) > most {
		return nil
	}
	return list
}

// Empty reports whether NextReady and NextFree would both return nil.
func (f *Flow) Empty() bool { return len(f.ready.nodes)+len(f.free.nodes) == 0 }

// set adds bits to a's state and carries out everything that follows from it.
func (f *Flow) set(a *access, bits uint32) {
	s := a.state.Add(bits)
	if e := effects(s) &^ effects(s-bits); e != 0 {
		f.carry(step{a, s, s - bits, e})
		f.drain()
	}
}

// push adds bits to a's state and leaves what follows on the work list.
func (f *Flow) push(a *access, bits uint32) {
	if bits == hasW {
		f.grant(a)
		return
	}
	s := a.state.Add(bits)
	if bits == hasR && s&(through|hasChild|isReader|outR|outW) == 0 { //bug:pass-read
		return // a writer keeps the read token until it is over
	}
	if e := effects(s) &^ effects(s-bits); e != 0 {
		f.work = append(f.work, step{a, s, s - bits, e})
	}
}

// granted counts one strong access of n, in state s, as open.
func (f *Flow) granted(n *Node, s uint32) {
	if s&isSolo != 0 || n.pending.Add(-1) == 0 {
		n.prefetchReady()
		f.ready.push(n)
	}
}

// drain carries out the work list. It is a loop, not a recursion: tokens run through chains of any
// length and nests of any depth on a constant stack.
func (f *Flow) drain() {
	for {
		for n := len(f.work); n > 0; n = len(f.work) {
			st := f.work[n-1]
			f.work[n-1] = step{} // keeps nothing alive
			f.work = f.work[:n-1]
			f.carry(st)
		}
		if len(f.msgs) == 0 {
			return
		}
		f.deliverNext()
	}
}

// carry carries out the effects of one step. The order matters: tokens are delivered to child and
// successor before the owner may start. A strong access is over only after its task's body has run,
// so it cannot be over, and its memory reused, while a delivery on its behalf is under way
// (README.md, "Late messages", rule 1).
func (f *Flow) carry(st step) {
	a, s, e := st.a, st.s, st.eff
	late := s&lingers != 0 //bug:rule1

	if e&unlock != 0 {
		f.locks.drop(a.ref(), a.owner()) // given back at the end of the call
	}

	if e&(childR|childW|childOpen) != 0 {
		var b uint32
		switch {
		case e&childW != 0:
			b = hasW
			if st.mayBeLate(childR, childOpen) {
				b |= linger
				if s&linger == 0 { //bug:rule2-sender
					a.state.Add(linger)
				}
				late = true
			}
		case e&childR != 0:
			b = hasR
		}
		if e&childOpen != 0 && b&hasW == 0 {
			b |= hasOpen
		}
		a.checkLive()
		if s&isBridge != 0 {
			f.cross(a, e)
		} else if c := a.childLate(); c != nil {
			f.push(c, b)
			if e&childW != 0 && late {
				a.cutChild()
			}
		}
	}

	if e&(sendR|sendW|sendOpen) != 0 {
		f.send(st, &late)
	}

	if e&ready != 0 && s&isWeak == 0 {
		a.checkLive()
		f.granted(a.owner(), s)
	}

	if e&rest != 0 {
		a.checkLive()
		f.over(a, late)
	}
}

// mayBeLate reports whether a read token or an opening that this access sent earlier may still be
// under way, now that the write token follows. It cannot be if the sender delivered it before it
// let the task start: a strong reader passes the read token on when it gets it, a strong run member
// the opening.
func (st step) mayBeLate(r, g uint32) bool {
	if st.old&(isReader|isWeak|hasChild|through|outR|outW) == 0 {
		return false // it has sent nothing yet that counts
	}
	was := effects(st.old)
	return was&r != 0 && st.s&(isReader|isWeak) != isReader || //bug:rule2-linger
		was&g != 0 && st.s&isWeak != 0
}

// send delivers tokens to the successor of st's access.
func (f *Flow) send(st step, late *bool) {
	s, e := st.s, st.eff
	var b uint32
	switch {
	case e&sendW != 0:
		b = hasW
	case e&sendR != 0:
		b = hasR
	}
	if e&sendW != 0 && st.mayBeLate(sendR, sendOpen) {
		b |= linger
		*late = true
	}
	if s&nextUp != 0 {
		b *= toOut // the same two tokens, at the out-port
	} else if e&sendOpen != 0 && b&hasW == 0 {
		b |= hasOpen
	}
	if b == 0 {
		return
	}
	st.a.checkLive()
	next := st.a.succLate() //bug:rule2-late
	if next == nil {        //bug:rule2-late
		return
	}
	f.push(next, b)
	if e&sendW != 0 && *late { //bug:rule2-first
		st.a.cutSucc()
	}
}

// atRest counts one access of n as at rest.
func (f *Flow) atRest(n *Node) {
	if n == f.cur {
		f.curRest++
		return
	}
	switch n.refs.Add(-1) {
	case 0:
		if n.rested == restsForGood {
			n.Drop()
			return
		}
		n.trim()
		f.free.push(n)
	case leftToGC:
		n.cut()
	}
}

// over counts a as at rest; with linger, as one that lingers.
func (f *Flow) over(a *access, linger bool) {
	if linger {
		f.leave(a.owner())
	} else {
		f.atRest(a.owner())
	}
}

// leave is atRest for an access that lingers.
func (f *Flow) leave(n *Node) {
	for r := n.refs.Load(); r&leftToGC == 0 && !n.refs.CompareAndSwap(r, r|leftToGC); {
		r = n.refs.Load()
	}
	if n.refs.Add(-1) == leftToGC { //bug:rule2-cut
		n.cut()
	}
}

// Fast paths for tokens between strong accesses without children. They do the same as push and
// carry, in the same order, but without a work list. Where they bring the last change of a state
// word, they need no atomic operation (README.md, "Plain stores").

// passW passes the write token of a, a strong access that is over, to the successor. Earlier
// messages of a have been delivered.
func (f *Flow) passW(a *access) {
	a.checkLive()
	next, owner := a.succ(), a.owner()
	f.grant(next)
	f.atRest(owner)
	if len(f.work) > 0 {
		f.drain()
	}
}

// grant is push(a, hasW) with fast paths for the common cases: a task that waits only for this
// token, and readers that are over already.
func (f *Flow) grant(a *access) {
	const over = isReader | through
	for {
		s := a.state.Peek()
		switch {
		case soleWriter(s):
			a.state.Settle(s, s|hasW)
			if s&(isReader|nextUp) == isReader {
				f.passR(a, s|hasW)
				return
			}
		case s&over == over && readerOver(s) == hasNext:
			a.state.Keep(s)
			a.checkLive() //bug:reader-over
			next := a.succ()
			f.atRest(a.owner())
			a = next
			continue //bug:reader-over
		default:
			s = a.state.Add(hasW) - hasW
		}
		s |= hasW
		switch {
		case onlyReady(s):
			if s&isWeak == 0 && !startable(s-hasW) {
				f.granted(a.owner(), s)
			}
			return
		case s&^(isSolo|isHeld) == isReader|hasR|hasW|hasNext:
			return // it runs, and has passed its read token on
		default:
			if e := effects(s) &^ effects(s-hasW); e != 0 {
				f.work = append(f.work, step{a, s, s - hasW, e})
			}
			return
		}
	}
}

// passR carries out what follows when a, a strong reader in state s whose successor is a sibling's
// access, has got its first token. The read token passes through all readers of this kind; each of
// them may start when the token has been delivered to the next (rule 1).
func (f *Flow) passR(a *access, s uint32) {
	const noMatter = isSolo | isHeld
	for {
		a.checkLive()
		next, owner := a.succ(), a.owner()
		n := next.state.Peek() //bug:rule1-reader
		if soleWriter(n) {
			next.state.Settle(n, n|hasR)
			n |= hasR
		} else {
			n = next.state.Add(hasR)
		}
		f.granted(owner, s)
		switch n &^ noMatter {
		case isReader | hasR | hasNext:
			a, s = next, n
			continue
		case isReader | hasR:
			f.granted(next.owner(), n)
			return
		case hasR, hasR | hasNext:
			return // a writer keeps the read token until it is over
		}
		if e := effects(n) &^ effects(n-hasR); e != 0 {
			f.work = append(f.work, step{next, n, n - hasR, e})
		}
		return
	}
}

// liveHook, if not nil, is called by checkLive.
var liveHook func(word any)

// checkLive marks a place where an access is used after an operation on its state that may have let
// its memory be reused. The explorer checks there that the memory is not free. In normal builds
// checkLive does nothing.
func (a *access) checkLive() {
	if xatomic.Explored && liveHook != nil {
		liveHook(&a.state)
	}
}
