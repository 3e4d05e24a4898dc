// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// A Flow carries tokens: it is the work list of one goroutine, reused from call to
// call. What a call made ready, and what it set free, is taken from the Flow
// afterwards. The zero value is ready for use.
//
// A Flow belongs to one goroutine at a time and is not reentrant.
type Flow struct {
	// Join, if not nil, is called for each Reduce access that Register meets, before anybody else can reach
	// the child. If it says why the child cannot take part, Register panics with that. Register may also panic afterwards.
	Join func(parent, child *Node, x Access) (why string)

	work  []step // deliveries whose effects are still to be carried out
	ready queue
	free  queue

	// The node that is being finished: its accesses that come to rest
	// meanwhile are counted here instead of in its shared counter.
	cur     *Node
	curRest int32

	// The same for domains of ranges: messages to records, and from sinks to accesses.
	msgs []message
	outs []out

	locks locks // what a call takes and gives back of the exclusion
}

// step is an access with effects that became true and are not carried out yet.
type step struct {
	a   *access
	s   uint32 // state that made them true
	old uint32 // state before
	eff uint32
}

// NextReady takes the next node that became ready, in the order in which
// they did; nil when there is none.
func (f *Flow) NextReady() *Node { return f.ready.pop() }

// MakeReady makes n, which is not in a list, come out of NextReady. It is for nodes that the runtime
// orders itself, as by a Cycle.
func (f *Flow) MakeReady(n *Node) { f.ready.push(n) }

// NextFree takes the next node that nothing refers to any more; nil when there is
// none. Its memory may be used for another task.
func (f *Flow) NextFree() *Node { return f.free.pop() }

// Shrink gives up memory that f has got for many nodes. f is not in use, and its lists are empty.
func (f *Flow) Shrink() {
	f.work, f.msgs, f.outs = shrunk(f.work), shrunk(f.msgs), shrunk(f.outs)
	f.ready.nodes, f.free.nodes = shrunk(f.ready.nodes), shrunk(f.free.nodes)
}

// shrunk returns list, which is empty, or nil if its memory is large.
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

// granted counts one access of n, in state s, as open.
func (f *Flow) granted(n *Node, s uint32) {
	if s&isSolo != 0 || n.pending.Add(-1) == 0 {
		n.comes()
		f.ready.push(n)
	}
}

// drain carries out the work list. It is a loop, not a recursion: tokens run
// through chains of any length and nests of any depth on a constant stack.
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

// carry carries out the effects of one step. The order matters: tokens are
// delivered to child and successor before the owner is told that it may start, so
// that an access which is waiting for its own task's body cannot be over, and its memory reused,
// while a delivery on its behalf is still under way (README.md, "Late messages").
func (f *Flow) carry(st step) {
	a, s, e := st.a, st.s, st.eff
	late := s&lingers != 0 //bug:rule1

	if e&unlock != 0 {
		f.locks.drop(a.ref(), a.owner()) // given back at the end of the call
	}

	if e&(childR|childW|childG) != 0 {
		var b uint32
		switch {
		case e&childW != 0:
			b = hasW
			if st.mayBeLate(childR, childG) {
				b |= linger
				if s&linger == 0 { //bug:rule2-sender
					a.state.Add(linger)
				}
				late = true
			}
		case e&childR != 0:
			b = hasR
		}
		if e&childG != 0 && b&hasW == 0 {
			b |= hasG
		}
		a.touch()
		if s&isBridge != 0 {
			f.cross(a, e)
		} else if c := a.childLate(); c != nil {
			f.push(c, b)
			if e&childW != 0 && late {
				a.cutChild()
			}
		}
	}

	if e&(sendR|sendW|sendG) != 0 {
		f.send(st, &late)
	}

	if e&ready != 0 && s&isWeak == 0 {
		a.touch()
		f.granted(a.owner(), s)
	}

	if e&rest != 0 {
		a.touch()
		if late {
			f.leave(a.owner())
		} else {
			f.atRest(a.owner())
		}
	}
}

// mayBeLate reports whether a read token or an opening that this access sent earlier may
// still be under way, now that the write token follows. It cannot be if the
// sender did so before it let the task start: a strong reader passes the read
// token on when it gets it, a strong member its opening.
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
	if e&sendW != 0 && st.mayBeLate(sendR, sendG) {
		b |= linger
		*late = true
	}
	if s&nextUp != 0 {
		b *= toOut // the same two tokens, at the out-port
	} else if e&sendG != 0 && b&hasW == 0 {
		b |= hasG
	}
	if b == 0 {
		return
	}
	st.a.touch()
	next := st.a.succLate() //bug:rule2-late
	if next == nil {        //bug:rule2-late
		return
	}
	f.push(next, b)
	if e&sendW != 0 && *late { //bug:rule2-first
		st.a.cutSucc()
	}
}

// atRest counts one access of n as over.
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
	case isLeft:
		n.cut()
	}
}

// leave is atRest for an access that lingers.
func (f *Flow) leave(n *Node) {
	for r := n.refs.Load(); r&isLeft == 0 && !n.refs.CompareAndSwap(r, r|isLeft); {
		r = n.refs.Load()
	}
	if n.refs.Add(-1) == isLeft { //bug:rule2-cut
		n.cut()
	}
}

// queue is a list of nodes, first in, first out. It is not linked through the nodes, most of whose lines are in another processor's cache.
type queue struct {
	nodes []*Node
	head  int // nodes that are taken out
}

func (q *queue) push(n *Node) {
	if len(q.nodes) == cap(q.nodes) && q.head > len(q.nodes)/2 { // one that is never empty does not grow for that
		q.nodes, q.head = removeAt(q.nodes, 0, q.head), 0
	}
	q.nodes = append(q.nodes, n)
}

func (q *queue) pop() *Node {
	if q.head == len(q.nodes) {
		return nil
	}
	n := q.nodes[q.head]
	q.nodes[q.head] = nil
	if q.head++; q.head == len(q.nodes) {
		q.nodes, q.head = q.nodes[:0], 0
	}
	return n
}
