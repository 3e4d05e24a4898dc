// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"math/bits"
	"unsafe"

	"weft/internal/xatomic"
)

const (
	domainMin = 8    // entries of a new table (guess: a stencil task names five)
	domainMax = 1024 // largest table that a node keeps for its next task (guess)
	keepMost  = 8    // entries for each object in use, where objects come back (guess)
	sweepLook = 16   // chains that are looked at before a sweep (guess)

	sweepAhead = 8 // entries between a look at a chain and the prefetch of its end (guess)
)

// slot returns the entry of key, adding it if it is absent.
func (d *domain) slot(key uintptr, f *Flow) *entry {
	e := d.probe(key)
	if e.key == key {
		return e
	}
	return d.add(e, key, f)
}

// add makes e, an empty entry where key would be, that of key; or another one, if the table had to
// grow.
func (d *domain) add(e *entry, key uintptr, f *Flow) *entry {
	if d.n*4 >= len(d.tab)*3 {
		d.grow(f)
		e = d.probe(key)
	}
	e.key = key
	d.n++
	d.added++
	if d.dropped.has(key) {
		d.back++
	}
	return e
}

// probe returns the entry of key, or the empty one where it would be.
// Precondition: the table has an empty entry.
func (d *domain) probe(key uintptr) *entry {
	mask := uint(len(d.tab) - 1)
	i := home(key, d.mul, d.shift)
	for {
		e := &d.tab[i&mask]
		if e.key == key || e.key == 0 {
			return e
		}
		i++
	}
}

// up returns the parent's own access to the object of e, an entry of the table; nil if it has none.
func (d *domain) up(e *entry) *access {
	if d.ups == nil {
		return nil
	}
	return d.ups[d.index(e)].a
}

// setUp makes up the parent's access of e.
func (d *domain) setUp(e *entry, up upper) {
	if d.ups == nil {
		d.ups = make([]upper, len(d.tab))
	}
	d.ups[d.index(e)] = up
}

func (d *domain) index(e *entry) uintptr {
	return (uintptr(unsafe.Pointer(e)) - uintptr(unsafe.Pointer(unsafe.SliceData(d.tab)))) / unsafe.Sizeof(entry{})
}

// home returns where key is in a table with mul and shift, or would be if nothing else were there.
func home(key uintptr, mul uint64, shift uint8) uint { return uint(uint64(key) * mul >> (shift & 63)) }

// multiplier returns the mul for a table of keys that differ from each other in bits of diff, and
// not in those below. If they are an array of objects 2^g bytes apart, two neighbours have homes a
// golden ratio of the table apart, since 2^g times the result is golden but for the last bits. So
// hardly two have the same. (With golden itself it is 2^g golden ratios: of 4356 objects of 64
// bytes in a table of 8192, every second one was elsewhere than at home.) Objects that are a
// multiple of 2^g apart fare no worse than with another number. The result is odd, so that keys
// that come later and differ in other bits are told apart as well.
func multiplier(diff uintptr) uint64 {
	return bits.RotateLeft64(golden, -bits.TrailingZeros64(uint64(diff))) | 1
}

// grow makes room. Chains that are over are dropped first, so that a domain which names ever new
// objects stays as large as the number of objects in use. Only if these come back, the domain gets
// room for more of them.
func (d *domain) grow(f *Flow) { d.rebuild(f, d.worthSweep() && !d.comeBack()) }

// rebuild makes a new table for the keys that are in use; without sweep, for all.
func (d *domain) rebuild(f *Flow, sweep bool) {
	old, ups := d.tab, d.ups
	live := 0
	var first, diff uintptr
	for i := range old {
		// A sweep looks at the end of each chain, which is in no cache where there are many.
		if k := i + sweepAhead; sweep && k < len(old) && old[k].key != 0 {
			old[k].last.prefetch()
		}
		e := &old[i]
		if e.key == 0 {
			continue
		}
		if sweep && d.up(e) == nil && finished(e.last.state.Load()) {
			f.set(e.last, closed)
			d.dropped.put(e.key)
			e.key, e.last = 0, nil
			continue
		}
		if live++; live == 1 {
			first = e.key
		}
		diff |= e.key ^ first
	}
	d.alloc(sizeFor(live))
	d.mul = multiplier(diff)
	for i := range old {
		if old[i].key == 0 {
			continue
		}
		e := d.probe(old[i].key)
		*e = old[i]
		if ups != nil {
			d.setUp(e, ups[i])
		}
	}
	setAside(old)
	d.n = live
	d.added, d.back = 0, 0
}

// sizeFor returns how long a table for n keys is made.
func sizeFor(n int) int {
	size := n * 4 // small tables grow fast: each time, chains are looked at
	if n > domainMax {
		size = n * 3 / 2
	}
	return max(domainMin, 1<<bits.Len(uint(size)))
}

// roomFor gives d, whose table is empty, room for n's accesses.
func (d *domain) roomFor(n *Node) {
	if int(n.count)*4 <= len(d.tab)*3 {
		return
	}
	first := addr(n.at(0).ref())
	var diff uintptr
	for i := range n.count {
		diff |= addr(n.at(i).ref()) ^ first
	}
	d.alloc(sizeFor(int(n.count)))
	d.mul = multiplier(diff)
}

// worthSweep looks at a few chains and reports whether a good part of them is over. A sweep looks
// at the last access of each, which is likely to be in another processor's cache.
func (d *domain) worthSweep() bool {
	looked, over := 0, 0
	for i := 0; i < len(d.tab) && looked < sweepLook; i++ {
		if e := &d.tab[i]; e.key != 0 && d.up(e) == nil {
			looked++
			if finished(e.last.state.Load()) {
				over++
			}
		}
	}
	return over*4 > looked
}

// comeBack reports whether chains that are over had better stay in the table, since most objects
// that come have been dropped before: a program that goes over more objects than it has live tasks
// would have each dropped, and entered again, again and again. But new objects can look like old
// ones, where memory is used again that has become free because they were dropped. So the table
// keeps no more than so many times the objects in use.
func (d *domain) comeBack() bool {
	if d.back*2 <= d.added {
		return false
	}
	inUse := 0
	for i := range d.tab {
		if e := &d.tab[i]; e.key != 0 && (d.up(e) != nil || !finished(e.last.state.Load())) {
			inUse++
		}
	}
	return 2*len(d.tab) <= keepMost*inUse
}

// Sweep drops the chains that are over from the table of n's children, if that is large. The caller
// is n's body, which has waited for all of them: the tasks that came last are free by that. A small
// table is left alone, for a body that waits after each few children.
func (n *Node) Sweep(f *Flow) {
	switch d := n.dom; {
	case inRanges(d) != nil:
		inRanges(d).tidy()
	case len(d.tab) <= domainMax:
	case d.ups != nil:
		d.rebuild(f, true)
	default:
		d.sweep(f)
	}
}

// MaySweep reports whether Sweep may find something: there is a table.
func (n *Node) MaySweep() bool { return n.hasDom }

// sweep empties the table. It stays as large, for the next round of as many objects, unless few
// have used it.
func (d *domain) sweep(f *Flow) {
	for i := range d.tab {
		if k := i + sweepAhead; k < len(d.tab) && d.tab[k].key != 0 {
			d.tab[k].last.prefetch()
		}
		e := &d.tab[i]
		if e.key == 0 {
			continue
		}
		if s := e.last.state.Load(); finished(s) {
			f.over(e.last, s&lingers != 0) // as in linkNext
		} else {
			f.set(e.last, closed) // its last token is under way
		}
	}
	d.reset(d.n < len(d.tab)/8)
}

func (d *domain) alloc(size int) {
	if d.tab, d.ups = takeAside(size), nil; d.tab == nil {
		d.tab = make([]entry, size)
	}
	d.mul, d.shift = golden, uint8(64-bits.TrailingZeros(uint(size)))
}

// clear empties the table for the next task.
func (d *domain) clear() { d.reset(len(d.tab) > domainMax) }

// reset makes d forget, and with giveUp gives the table up.
func (d *domain) reset(giveUp bool) {
	if giveUp {
		setAside(d.tab)
		d.tab, d.ups, d.n = nil, nil, 0
	} else {
		d.empty()
	}
	d.big = nil
	d.dropped.clear()
	d.added, d.back = 0, 0
}

// empty takes everything out of the table.
func (d *domain) empty() {
	clear(d.tab)
	clear(d.ups)
	d.n = 0
}

// aside has large tables that are not in use, empty, one of each size. A program that makes one
// large domain after the other, such as a run for each solve, would leave a few hundred KiB to the
// garbage collector each time, and begin with memory that is in no cache.
//
// Who takes a table out has it alone: both ways are one atomic operation.
var aside [asideSizes]xatomic.Pointer[entry]

// asideSizes is how many sizes are set aside, from 2·domainMax on: up to 16,384 entries, 480 KiB
// together (guess).
const asideSizes = 4

// asideOf returns where tables of size entries are; nil if they are not set aside.
func asideOf(size int) *xatomic.Pointer[entry] {
	if i := bits.Len(uint(size/domainMax)) - 2; i >= 0 && i < asideSizes {
		return &aside[i]
	}
	return nil
}

// takeAside returns an empty table of size entries, a power of two; nil if there is none.
func takeAside(size int) []entry {
	if p := asideOf(size); p != nil && p.Load() != nil {
		if first := p.Swap(nil); first != nil {
			return unsafe.Slice(first, size)
		}
	}
	return nil
}

// setAside empties tab, which nobody uses any more, for the next domain that needs one of its size.
func setAside(tab []entry) {
	if p := asideOf(len(tab)); p != nil && p.Load() == nil {
		clear(tab)
		p.CompareAndSwap(nil, unsafe.SliceData(tab))
	}
}
