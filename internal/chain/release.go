// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
)

// Release gives up n's access x before the body ends. The access must be declared in just this mode
// (Out equals InOut) and strength, and must not be given up yet; else the error says what was
// declared. Later accesses wait for the accesses of n's children to the object so far; children
// made later may not name it.
//
// Only the body of n may call it.
func (n *Node) Release(x Access, f *Flow) error {
	err := n.release(x, f)
	f.giveBack()
	return err
}

func (n *Node) release(x Access, f *Flow) error {
	r := rangesOf(n)
	if r != nil && r.own.owner != nil {
		return r.release(x, f)
	}
	a := n.near(x.object(), f)
	if x.isRange() {
		if x.size() == 0 {
			return nil
		}
		return fmt.Errorf("deps: Release of %v: the task has declared no range, and neither has a sibling before it; give up the object that it has declared", x)
	}
	if a == nil {
		return fmt.Errorf("deps: Release of %v: the task has not declared an access to this object", x)
	}
	s := a.state.Load()
	if got := modeOf(s); got != x.mode.order() || isWeakly(s) != x.weak {
		return fmt.Errorf("deps: Release of %v: the task has declared %s", x, written(got, x.object(), isWeakly(s)))
	}
	if a.released {
		return fmt.Errorf("deps: Release of %v: the task has given it up before", x)
	}
	if r != nil {
		r.releaseObject(x.object(), f)
		return nil
	}
	if n.dom != nil && n.dom.n > 0 {
		e := n.dom.probe(addr(x.object()))
		last := e.last
		a.released, e.last = true, a
		if last != a {
			f.linkUp(last, a)
			return nil
		}
	}
	a.released = true
	f.set(a, through)
	return nil
}

// scanMax is the largest number of accesses that Release searches one by one (guess: as long as two
// cold table entries for each lookup).
const scanMax = 64

// near is find for Release, in constant time. It checks the neighbours of the access that the last
// call found, and both ends, since programs mostly release in the order of the list. If that fails,
// it makes an index.
func (n *Node) near(key object, f *Flow) *access {
	if n.count <= scanMax || n.dom != nil && (n.dom.n > 0 || inRanges(n.dom) != nil) {
		return n.find(key)
	}
	if n.dom == nil {
		n.makeDomain()
	}
	end := n.count - 1
	last := min(n.dom.releaseHint, end) // releaseHint may be an earlier task's
	for _, i := range [...]int32{min(last+1, end), max(last-1, 0), last, 0, end} {
		if a := n.at(i); a.ref() == key {
			n.dom.releaseHint = i
			return a
		}
	}
	if n.dom.own == nil {
		n.makeIndex(f)
	}
	return n.dom.own.probe(addr(key)).last
}

// makeIndex makes a table of n's accesses for Release. The table of the children's domain, which is
// empty, would do as well. But then a release would touch one more line, and the end of the task
// would walk the table.
func (n *Node) makeIndex(f *Flow) {
	x := new(domain)
	x.roomFor(n)
	for i := range n.count {
		a := n.at(i)
		x.slot(addr(a.ref()), f).last = a
	}
	n.dom.own = x
}

// find returns n's access to the object at key; nil if it has none.
func (n *Node) find(key object) *access {
	if n.dom != nil && n.dom.n > 0 {
		e := n.dom.probe(addr(key))
		if n.has(e.last) {
			return e.last
		}
		return n.dom.up(e)
	}
	if r := rangesOf(n); r != nil {
		if t := r.top(key); t != nil {
			return t.a
		}
		return nil
	}
	for i := range n.count {
		if n.at(i).ref() == key {
			return n.at(i)
		}
	}
	return nil
}
