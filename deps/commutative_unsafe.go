// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"fmt"
	"unsafe"
)

// Values of Node.rested before Finish. The creator sets it in Register, and then whoever has
// the node in hand: who took it from a Flow, or the one that grants it its objects.
const (
	exclWants = -1 // Acquire is to be called before the task may start
	exclHolds = -2 // the node has its objects
)

// locks is the part of a Flow that deals with exclusion.
type locks struct {
	keys    []unsafe.Pointer // scratch of Acquire
	freed   []*claim         // scratch of giveBack
	free    []drop           // the same
	dropped []drop           // holds that have ended in this call
}

// drop is a hold that has ended. It names no access, whose memory may serve another task before the
// hold is given back.
type drop struct {
	key   unsafe.Pointer // nil: bytes
	owner *Node          // only compared
	extent
}

// home is the set of the shard that d is in.
func (d drop) home() uint64 {
	if d.key == nil {
		return 1 << byteShard
	}
	return 1 << shardOf(d.key)
}

func (d drop) String() string {
	if d.key == nil {
		return fmt.Sprintf("memory from %#x to %#x", d.lo, d.hi)
	}
	return fmt.Sprintf("object %p", d.key)
}

// dropBytes is drop for the bytes of [lo, hi).
func (l *locks) dropBytes(lo, hi uintptr, owner *Node) {
	if k := len(l.dropped) - 1; k >= 0 && l.dropped[k].key == nil && l.dropped[k].owner == owner && l.dropped[k].hi == lo {
		l.dropped[k].hi = hi
		return
	}
	l.dropped = append(l.dropped, drop{owner: owner, extent: extent{lo, hi}})
}

func (l *locks) drop(key unsafe.Pointer, owner *Node) {
	l.dropped = append(l.dropped, drop{key: key, owner: owner})
}

// heldMode is the bit of Access.mode that Held sets.
const heldMode Mode = 1 << 7

// Held returns the access for a task under a holder of the object that the engine cannot see from the parent's accesses:
// Commutative is InOut then. It is for runtimes that order some tasks themselves, as by a Cycle.
func (a Access) Held() Access {
	a.mode |= heldMode
	return a
}

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
func (n *Node) exclusion() int32 {
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

// acquire is Acquire with the objects, the bytes, and their shards.
func (e *exclusion) acquire(n *Node, keys []unsafe.Pointer, bytes []extent, set uint64) bool {
	e.lock(set)
	defer e.unlock(set)
	var refused *claim
	for _, key := range keys {
		if c := e.find(key); c != nil && c.refuses() {
			refused = c
			break
		}
	}
	for _, x := range bytes {
		e.cutOut(x)
		if refused == nil {
			refused = e.refusing(x)
		}
	}
	if refused != nil {
		e.enqueue(n, keys, bytes, set, refused)
		return false // n is somebody else's as soon as the locks are free
	}
	for _, key := range keys {
		e.claim(key).take(n)
	}
	for _, x := range bytes {
		e.each(x, func(c *claim) { c.take(n) })
	}
	n.rested = exclHolds
	return true
}

// take makes n the holder.
func (c *claim) take(n *Node) {
	c.holder = n
	c.last.pass()
}

// refuses reports whether somebody else has the object, or it is kept for a waiter.
func (c *claim) refuses() bool { return c.holder != nil || c.keptBefore(nil) }

// giveBack ends the holds that were dropped in this call, and lets those that can start do so.
func (f *Flow) giveBack() {
	if len(f.locks.dropped) > 0 {
		exclusions.giveBack(f)
	}
}

func (e *exclusion) giveBack(f *Flow) {
	list := f.locks.dropped
	set := uint64(0)
	for _, d := range list {
		set |= d.home()
	}
	e.lock(set)
	free, freed := f.locks.free[:0], f.locks.freed
	for _, d := range list {
		if d.key != nil {
			c := e.find(d.key)
			e.end(c, d, set)
			if c.first != nil {
				free = append(free, d)
			} else {
				e.remove(c)
			}
			continue
		}
		freed = e.held(d.extent, freed[:0])
		for _, c := range freed {
			if e.end(c, d, set); c.first != nil {
				free = append(free, drop{extent: extent{lo: c.at}})
			}
		}
		e.forget(d.extent)
	}
	// All are free before the first is served, since who waits for one may wait for another too.
	for _, d := range free {
		set = e.serve(d, set, f)
	}
	e.unlock(set)
	clear(list)
	clear(free)
	clear(freed)
	f.locks.dropped, f.locks.free, f.locks.freed = list[:0], free[:0], freed[:0]
}

// end ends the hold of d's owner on c, with the locks of set.
func (e *exclusion) end(c *claim, d drop, set uint64) {
	if c == nil || c.holder != d.owner {
		e.unlock(set)
		panic(fmt.Sprintf("deps: %v is given back by a node that does not hold it: it was started without Acquire", d))
	}
	c.holder = nil
}
