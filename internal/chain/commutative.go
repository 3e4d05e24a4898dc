// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
)

// Holds reports whether n's task, or one above it, holds the object of a for its Commutative accesses, so that n's
// descendants have it. It is for the time in which n's body runs, or its accesses are kept.
func (n *Node) Holds(a Access) bool {
	if n.dom != nil && inRanges(n.dom) != nil && inRanges(n.dom).own.owner == n {
		lo, hi := a.extent()
		return inRanges(n.dom).own.holds(lo, hi)
	}
	x := n.find(a.object())
	if x == nil {
		return false
	}
	s := x.state.Load()
	return s&isHeld != 0 || isHolder(s)
}

// HoldsAny reports whether Holds is true of any object.
func (n *Node) HoldsAny() bool {
	for i := range n.count {
		if s := n.at(i).state.Load(); s&isHeld != 0 || isHolder(s) {
			return true
		}
	}
	return n.dom != nil && inRanges(n.dom) != nil && inRanges(n.dom).own.owner == n && inRanges(n.dom).own.holds(0, ^uintptr(0))
}

// commute is called for a node with Commutative accesses before they are linked. If one is strong,
// all the node's accesses become strong: who holds an object waits for nothing outside (README.md,
// "Exclusion": no deadlock).
func (n *Node) commute() {
	holder := false
	for i := range n.count {
		holder = holder || isHolder(n.at(i).state.Load())
	}
	if !holder {
		return
	}
	n.rested = exclWants
	for i := range n.count {
		a := n.at(i)
		if s := a.state.Load(); s&(isWeak|isReduce) == isWeak {
			a.state.Init(s&^isWeak | saidWeak)
		}
	}
}

// exclusion returns what n needs: exclWants or zero.
func (n *Node) exclusion() int8 {
	for i := range n.count {
		if isHolder(n.at(i).state.Load()) {
			return exclWants
		}
	}
	return 0
}

// Exclusive reports whether n, which may start as far as the order of accesses goes, must have Acquire called first:
// it has Commutative accesses. Only who got n from Register or NextReady may ask.
func (n *Node) Exclusive() bool { return n.rested == exclWants }

// Commutes reports whether n has Commutative accesses for which it must have, or has, its objects: whether or not Acquire
// is still to be called. As Exclusive, it is for who has n in hand before it starts.
func (n *Node) Commutes() bool { return n.rested != 0 }

// Acquire takes the objects of all of n's strong Commutative accesses together and reports whether it could. If not, n
// waits, and comes out of the NextReady of whoever gives back the last of the objects; it has them then, and
// Exclusive is false. Until Acquire returns true, or n comes out again, n is not the caller's any more.
//
// It is called once, by who got n from Register or NextReady, when Exclusive is true, and then or later,
// but before the task starts. Objects are given back by Release and Finish, when the children that use them
// are over as well.
func (n *Node) Acquire(f *Flow) bool {
	if n.rested != exclWants {
		panic(fmt.Sprintf("deps: Acquire of a node that is not to acquire anything (state %d)", n.rested))
	}
	l := &f.locks
	for i := range n.count {
		if a := n.at(i); isHolder(a.state.Load()) {
			l.keys = append(l.keys, a.ref())
		}
	}
	var bytes []extent
	if n.dom != nil && inRanges(n.dom) != nil {
		own := &inRanges(n.dom).own
		for i := range own.keys {
			l.keys = append(l.keys, own.keys[i].key)
		}
		bytes = own.bytes
	}
	set := uint64(0)
	for _, key := range l.keys {
		set |= 1 << shardOf(key)
	}
	if len(bytes) > 0 {
		set |= 1 << byteShard
	}
	ok := exclusions.acquire(n, l.keys, bytes, set)
	clear(l.keys) // keeps nothing alive
	l.keys = l.keys[:0]
	return ok
}

// giveBack ends the holds that were dropped in this call, and lets those that can start do so.
func (f *Flow) giveBack() {
	if len(f.locks.dropped)+len(f.locks.bytes) > 0 {
		exclusions.giveBack(f)
	}
}
