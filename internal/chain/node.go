// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
)

// Register appends n, a new child of p, to the chains of the objects in list and reports whether n
// may start at once. If not, n becomes ready in the Flow of the goroutine that grants its last
// token.
//
// Several accesses to one object become one: of the same mode if the modes are equal, else InOut;
// strong if one of them is strong. Register panics if p has given up the object by Release, since
// nothing protects it any more. It also panics if the list has an object both in Reduce and
// otherwise, or in two reductions. After a panic n must not be used again.
//
// Only the body of p may call Register; it may run concurrently with everything else in the domain.
func (p *Node) Register(n *Node, list []Access, f *Flow) bool {
	n.rested = 0
	if len(list) == 0 {
		n.count = 0
		return true
	}
	return p.register(n, list, f)
}

func (p *Node) register(n *Node, list []Access, f *Flow) bool {
	d := p.domain(f)
	if inRanges(d) != nil {
		return p.registerRanges(n, list, f)
	}
	strong := n.enter(p, d, list, f)
	if strong < 0 { // the list has the first range of the domain
		p.makeRanges(d, f)
		return p.registerRanges(n, list, f)
	}
	k := n.count
	n.refs.Init(k + 1)
	n.pending.Init(strong + 1)

	if k == 1 && strong == 1 && n.rested == 0 {
		return f.linkSolo(p, &n.accs[0])
	}

	granted := int32(0) // strong accesses that may start; not yet subtracted from pending
	for i := range n.count {
		a := n.at(i)
		prev := a.succ()
		a.setSucc(nil)
		weak := a.state.Load()&isWeak != 0
		open := true
		switch {
		case prev == nil:
			a.state.Init(a.state.Load() | hasW)
		case prev.owner() == p:
			open = f.linkChild(prev, a)
		default:
			open = f.linkNext(prev, a, prev.state.Load())
		}
		if open && !weak {
			granted++
		}
	}
	if n.rested != 0 && !n.some(isHolder) {
		n.rested = 0 // linking has found that a holder above has all its objects
	}
	if granted == strong {
		return true // no other goroutine has changed pending
	}
	return n.pending.Add(-granted-1) == 0
}

// enter fills n.accs from list, combines accesses to one object, and puts each access at the end of
// its chain in the table. It stores the access before it in succ for the moment. It returns the
// number of strong accesses. If the list has a range, it returns -1 and leaves the table as it was,
// except for keys without accesses.
func (n *Node) enter(p *Node, d *domain, list []Access, f *Flow) (strong int32) {
	n.reserve(len(list))
	n.count = int32(len(list))
	k := n.enterPlain(d, list, f)
	strong = k
	modes := uint32(0)
	for _, x := range list[k:] {
		key, size := x.ptr, x.sizeLo
		if x.sizeHi != 0 || !fits(size) {
			if x.isRange() {
				if x.size() == 0 {
					continue
				}
				n.leave(d, k)
				return -1
			}
			d.remember(x)
			size = bigSize
		}
		if x.ptr == nil {
			n.undo(d, k)
			panicZero()
		}
		if x.mode == ModeReduce {
			key = x.object()
			if f.Join != nil {
				if why := f.Join(p, n, x); why != "" {
					n.undo(d, k)
					panic("deps: " + why)
				}
			}
		}
		e := d.slot(addr(key), f)
		last := e.last
		if last != nil {
			if n.has(last) {
				if why := clash(last, x, list); why != "" {
					n.undo(d, k)
					panic(why)
				}
				last.state.Init(union(last.state.Load(), x)) // no other goroutine can reach it yet
				last.cover(x)
				continue
			}
			if d.ups != nil && last == d.up(e) && last.released {
				n.undo(d, k)
				panic(fmt.Sprintf("deps: a child accesses object %p, which its parent has given up by Release", key))
			}
		}
		a := n.at(k)
		s := x.bits()
		modes |= s
		if s&isWeak == 0 {
			strong++
		}
		a.state.Init(s)
		a.released = false
		a.put(k, size)
		a.setRef(key)
		if a.setSucc(last); last != nil {
			last.prefetch() // linking will write it
		}
		e.last = a
		k++
	}
	n.count = k
	if modes&isCommut != 0 {
		n.commute()
	}
	if modes&(isCommut|isWeak) != 0 { // accesses may have become strong, or been combined
		strong = 0
		for i := range n.count {
			if n.at(i).state.Load()&isWeak == 0 {
				strong++
			}
		}
	}
	return strong
}

// enterPlain is enter for the first accesses of list, as long as they are of the common kind:
// strong In, Out or InOut, to objects that the list has not named before. It returns how many
// accesses of n it has filled.
func (n *Node) enterPlain(d *domain, list []Access, f *Flow) (k int32) {
	tab, mul, shift := d.tab, d.mul, d.shift
	for k := range list {
		key := addr(list[k].ptr)
		if e := &tab[home(key, mul, shift)&uint(len(tab)-1)]; e.key == key && e.last != nil {
			e.last.prefetch2() // linking will write it, and succ
		}
	}
	for k = range int32(len(list)) {
		x := &list[k]
		key, size := addr(x.ptr), x.sizeLo
		if x.mode > ModeInOut || x.weak || x.sizeHi != 0 || !fits(size) || key == 0 {
			return k
		}
		i := home(key, mul, shift)
		e := &tab[i&uint(len(tab)-1)]
		for e.key != key { // slot inlined: it would be a call for every third key
			if e.key == 0 {
				e = d.add(e, key, f)
				tab, mul, shift = d.tab, d.mul, d.shift
				break
			}
			i++
			e = &tab[i&uint(len(tab)-1)]
		}
		last := e.last
		if last != nil && (n.has(last) || d.ups != nil && last == d.up(e) && last.released) {
			return k
		}
		a := n.at(k)
		s := uint32(0)
		if x.mode == ModeIn {
			s = isReader
		}
		a.state.Init(s)
		a.released = false
		a.put(k, size)
		a.setRef(x.ptr)
		a.setSucc(last)
		e.last = a
	}
	return int32(len(list))
}

// undo takes the first k accesses of n out of the table again.
func (n *Node) undo(d *domain, k int32) {
	for i := range k {
		a := n.at(i)
		if prev := a.succ(); prev != nil {
			d.probe(addr(a.ref())).last = prev
			continue
		}
		// A new chain: leave an access that is over, for grow to drop.
		a.state.Init(hasW | through | linger)
	}
}

// linkChild makes a the first access to prev's object in the domain of prev's task, and reports
// whether a may start.
func (f *Flow) linkChild(prev, a *access) bool {
	ps, as := prev.state.Load(), a.state.Load()
	if ps&(isHeld|isCommut) != 0 {
		as = below(ps, as)
	}
	if ps&hasW != 0 || isHolder(ps) {
		// Nothing more can arrive at prev's in-port that the child would wait for: no link is
		// needed.
		a.state.Init(as | hasW)
		return true
	}
	prev.setChild(a)
	a.inherit(prev)
	b := hasChild
	preset := ps & hasR
	if sameRun(ps, as) {
		b |= childInRun
		preset |= ps & hasOpen
	}
	a.state.Init(as | preset)
	open := startable(as | preset)
	s := prev.state.Add(b)
	t := s & (hasW | hasR)
	switch {
	case t&hasW != 0:
		t = hasW
	case s&childInRun != 0:
		t |= s & hasOpen
	}
	return a.deliver(t&^preset) || open
}

// linkSolo links the only access of a task, a strong one, and reports whether the task may start.
//
// After a writer no count is needed: the link is the last thing that the creator does with the
// task, and the goroutine that grants the write token starts it. After a reader that has no read
// token yet, and after a run member, the creator may have a token to deliver after the link. So it
// must hold the task back until then (README.md, "Late messages", rule 4).
func (f *Flow) linkSolo(p *Node, a *access) bool {
	prev := a.succ()
	a.setSucc(nil)
	if prev == nil {
		a.state.Init(a.state.Load() | hasW)
		return true
	}
	if prev.owner() != p {
		ps := prev.state.Load() //bug:rule4
		if ps&inRun == 0 && (ps&isReader == 0 || ps&(hasR|hasW) != 0) {
			a.state.Init(a.state.Load() | isSolo)
			return f.linkNext(prev, a, ps)
		}
		if f.linkNext(prev, a, ps) {
			return true
		}
	} else if f.linkChild(prev, a) {
		return true
	}
	return a.owner().pending.Add(-1) == 0
}

// linkNext makes a the successor of prev, the last access of a sibling. ps is a recent state of
// prev. It reports whether a may start.
func (f *Flow) linkNext(prev, a *access, ps uint32) bool {
	as := a.state.Load()
	if ps&isHeld != 0 {
		as = underHolder(as)
	}
	if finished(ps) {
		// No other goroutine accesses prev any more: it comes to rest here.
		if ps&lingers == 0 { //bug:rule2-rest
			f.atRest(prev.owner())
		} else {
			f.leave(prev.owner())
		}
		a.state.Init(as | hasW)
		return true
	}
	prev.setSucc(a)
	a.inherit(prev)
	b := hasNext
	if sameRun(ps, as) {
		b |= nextInRun
	}
	preset := atOnce(ps, as)
	a.state.Init(as | preset)
	open := startable(as | preset)
	s := prev.state.Add(b)
	if s == ps|b && ps&(inRun|through|outR|outW) == 0 {
		return open // prev has not changed: preset has all that it passes on
	}
	t := passes(s) //bug:link
	if t == hasW {
		// prev finished between the load and the link. An earlier read token was sent nowhere,
		// since there was no successor, so no message is under way.
		f.over(prev, s&lingers != 0)
	}
	return a.deliver(t&^preset) || open
}

// atOnce returns the tokens that an access in state ps passes at the moment of the link to a
// successor in state as. Storing them in the successor before the link costs nothing; delivering
// them afterwards costs an atomic operation.
func atOnce(ps, as uint32) uint32 {
	switch {
	case ps&isReader != 0:
		return (ps | ps>>posW) & hasR
	case ps&(hasOpen|hasW) != 0 && sameRun(ps, as):
		return hasOpen
	}
	return 0
}

// deliver adds tokens t to a, which is being linked and has no successor or child, and reports
// whether that lets the task start: nothing else can follow from it.
func (a *access) deliver(t uint32) bool {
	if t == 0 {
		return false
	}
	s := a.state.Add(t)
	return startable(s) && !startable(s-t)
}

// domain returns the table of p's children. The first call enters p's own accesses: the first child
// that names such an object continues p's access.
func (p *Node) domain(f *Flow) *domain {
	d := p.dom
	if d == nil {
		d = p.makeDomain()
	}
	if d.tab == nil {
		d.alloc(domainMin)
	}
	if d.n == 0 && inRanges(d) == nil {
		d.roomFor(p)
		for i := range p.count {
			a := p.at(i)
			e := d.slot(addr(a.ref()), f)
			e.last = a
			d.setUp(e, upper{a, a.ref()})
		}
	}
	return d
}

func (n *Node) makeDomain() *domain {
	n.dom, n.hasDom = new(domain), true
	return n.dom
}

// Finish gives up n's accesses: the body is over, and so is everything that was bound to it. From
// then on tokens flow through n's accesses, by way of the children's where there are any, to the
// accesses that follow. For a task with the wait attribute the runtime calls Finish when all
// descendants are over; nothing else changes.
//
// It is called once, by one goroutine, when no Register or Release for n's domain can follow or is
// running.
func (n *Node) Finish(f *Flow) {
	if n.count > 0 || n.hasDom {
		n.finish(f)
	}
}

func (n *Node) finish(f *Flow) {
	f.cur, f.curRest = n, 0
	d := n.dom
	if d != nil && d.own != nil {
		cacheTable(d.own.tab)
		d.own = nil
	}
	if d != nil && (d.n > 0 || inRanges(d) != nil) {
		n.closeDomain(d, f)
	} else {
		n.giveAll(f)
	}
	if f.curRest > maxRested {
		n.refs.Add(maxRested - f.curRest) // does not become zero: Retire subtracts one more
		f.curRest = maxRested
	}
	n.rested = int8(f.curRest)
	f.cur = nil
	f.giveBack()
}

// giveAll gives up n's accesses. A star writes its first object and reads the rest, as a task of a
// stencil does. It gives up the first access last: giving up the readers is quick, and meanwhile
// the prefetched lines for the first arrive.
func (n *Node) giveAll(f *Flow) {
	if n.count > 1 && n.prefetchSuccs() {
		for i := n.count - 1; i > 0; i-- {
			if a := n.at(i); !a.released {
				f.giveUp(a)
			}
		}
		if a := n.at(0); !a.released {
			a.prefetchSecondReader()
			f.giveUp(a)
		}
		return
	}
	for i := range n.count {
		if a := n.at(i); !a.released {
			f.giveUp(a)
		}
	}
}

// giveUp joins a's in-port to its out-port. It is set(a, through) with fast paths for the common
// cases: a strong access that holds the write token, and a strong reader that does not.
func (f *Flow) giveUp(a *access) {
	const noMatter = isReader | inRun | isSolo | isHeld | hasR | hasOpen | nextInRun
	s := a.state.Peek()
	if s&^noMatter == hasW|hasNext {
		a.state.Keep(s)
		f.passW(a) // no other goroutine changes or reads the word any more: no need for the bit
		return
	}
	s = a.state.Add(through) //bug:give-up
	switch s &^ noMatter {
	case through | hasW:
		// There is no successor yet; the goroutine that links one sees that a is over.
		return
	case through | hasW | hasNext:
		f.passW(a)
		return
	case through, through | hasNext:
		if s&isReader != 0 {
			return // it has passed the read token on already
		}
	}
	if e := effects(s) &^ effects(s-through); e != 0 {
		f.carry(step{a, s, s - through, e})
		f.drain()
	}
}

// closeDomain is Finish for a task whose children named objects.
func (n *Node) closeDomain(d *domain, f *Flow) {
	if inRanges(d) != nil {
		n.closeRanges(d, f)
		return
	}
	for i := range d.tab {
		e := &d.tab[i]
		up := d.up(e)
		switch {
		case e.key == 0:
		case up == nil:
			f.set(e.last, closed)
		case up.released:
		case e.last == up:
			f.giveUp(up)
		default:
			f.linkUp(e.last, up)
		}
	}
	d.clear()
}

// linkUp makes up, an access of the parent, the successor of last, the last access of its children.
// After the link last must not be used, unless the link brought it to rest: its task may be over
// and its memory reused at once.
func (f *Flow) linkUp(last, up *access) {
	last.setSucc(up)
	s := last.state.Add(hasNext | nextUp) //bug:rule3
	switch e := effects(s); {
	case e&sendW != 0:
		f.push(up, outW)
		f.over(last, s&lingers != 0)
	case e&sendR != 0:
		f.push(up, outR)
	}
	f.drain()
}

// Retire is called when n's task and all its descendants are over. It reports whether nothing
// refers to n any more, so that its memory may serve another task. If not, NextFree returns the
// node some time later.
func (n *Node) Retire() bool {
	if n.count == 0 {
		return true
	}
	return n.retire()
}

func (n *Node) retire() bool {
	if !n.simple() {
		return n.retireSlowly()
	}
	n.objs = [blockLen]object{}
	d := int32(n.rested) + 1
	return d == n.count+1 || n.isFree(n.refs.Add(-d)) // a simple node has nothing to trim
}

func (n *Node) retireSlowly() bool {
	n.forget()
	d := int32(n.rested) + 1
	if d == n.count+1 || n.isFree(n.refs.Add(-d)) {
		n.trim()
		return true
	}
	return false
}

// isFree reports whether nothing refers to n; r is the value of refs after Retire's subtraction.
func (n *Node) isFree(r int32) bool {
	if r == leftToGC {
		n.cut()
	}
	return r == 0
}

// RetireForGood is Retire for a node that is not used again: NextFree never returns it. When
// nothing refers to it any more, its links are cut.
func (n *Node) RetireForGood() {
	if n.count == 0 {
		n.Drop()
		return
	}
	n.forget()
	d := int32(n.rested) + 1
	n.rested = restsForGood
	if n.isFree(n.refs.Add(-d)) {
		n.Drop()
	}
}

// maxRested is the largest Node.rested; Finish subtracts what exceeds it from refs itself.
const maxRested = 100

func panicZero() {
	panic("deps: the zero Access names no object; use In, Out, InOut, Concurrent or Commutative")
}
