// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"math/bits"
	"unsafe"

	"weft/internal/xatomic"
)

const (
	domainMin   = 8    // entries of a new table (guess: a stencil task names five)
	domainMax   = 1024 // largest table that a node keeps for its next task (guess)
	keepMost    = 8    // entries for each object in use, where dropped objects come back (guess)
	sweepSample = 16   // chains that are checked before a sweep (guess)

	// entries by which the prefetch of a chain's end is ahead of its check (guess)
	sweepPrefetch = 8
)

// slot returns the entry of key, and adds it if it is absent.
func (d *domain) slot(key uintptr, f *Flow) *entry {
	e := d.probe(key)
	if e.key == key {
		return e
	}
	return d.add(e, key, f)
}

// add enters key in e, the empty entry where key belongs, or, if the table has to grow, in the new
// entry where key belongs. It returns the entry.
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

// probe returns the entry of key, or the empty entry where key belongs. Precondition: the table has
// an empty entry.
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

// up returns the parent's own access to the object of e, an entry of the table; nil if there is
// none.
func (d *domain) up(e *entry) *access {
	if d.ups == nil {
		return nil
	}
	return d.ups[d.index(e)].a
}

// setUp sets the parent's access of e.
func (d *domain) setUp(e *entry, up upper) {
	if d.ups == nil {
		d.ups = make([]upper, len(d.tab))
	}
	d.ups[d.index(e)] = up
}

func (d *domain) index(e *entry) uintptr {
	return (uintptr(unsafe.Pointer(e)) - uintptr(unsafe.Pointer(unsafe.SliceData(d.tab)))) / unsafe.Sizeof(entry{})
}

// home returns the index of key in a table with mul and shift that has no collisions.
func home(key uintptr, mul uint64, shift uint8) uint { return uint(uint64(key) * mul >> (shift & 63)) }

// multiplier returns the mul for a table of keys that differ from each other in bits of diff and
// agree in the bits below.
//
// If the keys are an array of objects 2^g bytes apart, the homes of two neighbours are a golden
// ratio of the table apart, because 2^g times the result is golden except for the last bits. So
// hardly two keys have the same home. (With golden itself the distance is 2^g golden ratios: of
// 4356 objects of 64 bytes in a table of 8192, every second one was away from its home.) Objects
// that are a multiple of 2^g apart fare no worse than with another number. The result is odd, so
// that keys that come later and differ in other bits have different products.
func multiplier(diff uintptr) uint64 {
	return bits.RotateLeft64(golden, -bits.TrailingZeros64(uint64(diff))) | 1
}

// grow makes room. It drops the chains that are over first, so that a domain which names ever new
// objects stays as large as the number of objects in use. If dropped objects come back, it drops
// none and makes a larger table.
func (d *domain) grow(f *Flow) { d.rebuild(f, d.worthSweep() && !d.comeBack()) }

// rebuild makes a new table: with sweep for the chains in use, else for all.
func (d *domain) rebuild(f *Flow, sweep bool) {
	old, ups := d.tab, d.ups
	live := 0
	var first, diff uintptr
	for i := range old {
		// A sweep loads the end of each chain, which is in no cache if there are many chains.
		if k := i + sweepPrefetch; sweep && k < len(old) && old[k].key != 0 {
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
	cacheTable(old)
	d.n = live
	d.added, d.back = 0, 0
}

// sizeFor returns the length of a new table for n keys.
func sizeFor(n int) int {
	size := n * 4 // small tables grow fast, since each growth checks chains
	if n > domainMax {
		size = n * 3 / 2
	}
	return max(domainMin, 1<<bits.Len(uint(size)))
}

// roomFor makes room for n's accesses in d, whose table is empty.
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

// worthSweep checks a few chains and reports whether at least a quarter of them is over. It takes a
// sample because a sweep loads the last access of each chain, which is likely to be in another
// processor's cache.
func (d *domain) worthSweep() bool {
	checked, over := 0, 0
	for i := 0; i < len(d.tab) && checked < sweepSample; i++ {
		if e := &d.tab[i]; e.key != 0 && d.up(e) == nil {
			checked++
			if finished(e.last.state.Load()) {
				over++
			}
		}
	}
	return over*4 > checked
}

// comeBack reports whether chains that are over should stay in the table, because most keys that
// come have been dropped before. Otherwise a program that cycles over more objects than it has live
// tasks would have each object dropped and entered again, again and again.
//
// New objects can look like dropped ones, if memory is reused that became free because they were
// dropped. So the table keeps at most keepMost times the objects in use.
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

// Sweep drops the chains that are over from the table of n's children, if the table is large. The
// caller is n's body, after it has waited for all children; the sweep frees the tasks at the ends
// of the chains. A small table is left alone, for bodies that wait after each few children.
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

// MaySweep reports whether n has a table, in which Sweep may find something.
func (n *Node) MaySweep() bool { return n.hasDom }

// sweep empties the table. It keeps the memory, for as many objects in the next round, unless less
// than an eighth was used.
func (d *domain) sweep(f *Flow) {
	for i := range d.tab {
		if k := i + sweepPrefetch; k < len(d.tab) && d.tab[k].key != 0 {
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
	if d.tab, d.ups = takeCached(size), nil; d.tab == nil {
		d.tab = make([]entry, size)
	}
	d.mul, d.shift = golden, uint8(64-bits.TrailingZeros(uint(size)))
}

// clear empties the table for the next task.
func (d *domain) clear() { d.reset(len(d.tab) > domainMax) }

// reset empties d, with its notes; with giveUp it also gives the table's memory up.
func (d *domain) reset(giveUp bool) {
	if giveUp {
		cacheTable(d.tab)
		d.tab, d.ups, d.n = nil, nil, 0
	} else {
		d.empty()
	}
	d.big = nil
	d.dropped.clear()
	d.added, d.back = 0, 0
}

// empty removes all entries from the table.
func (d *domain) empty() {
	clear(d.tab)
	clear(d.ups)
	d.n = 0
}

// tableCache has one unused, empty table of each large size. A program that makes one large domain
// after the other, such as a run for each solve, would otherwise leave a few hundred KiB to the
// garbage collector each time, and begin each run with memory that is in no cache.
//
// Each table is taken and stored by one atomic operation, so it has one owner at a time.
var tableCache [cachedSizes]xatomic.Pointer[entry]

// cachedSizes is the number of sizes in tableCache, from 2·domainMax on: up to 16,384 entries, 480
// KiB together (guess).
const cachedSizes = 4

// cacheSlotOf returns the slot of tableCache for tables of size entries; nil if there is none.
func cacheSlotOf(size int) *xatomic.Pointer[entry] {
	if i := bits.Len(uint(size/domainMax)) - 2; i >= 0 && i < cachedSizes {
		return &tableCache[i]
	}
	return nil
}

// takeCached returns an empty table of size entries, a power of two, from tableCache; nil if there
// is none.
func takeCached(size int) []entry {
	if p := cacheSlotOf(size); p != nil && p.Load() != nil {
		if first := p.Swap(nil); first != nil {
			return unsafe.Slice(first, size)
		}
	}
	return nil
}

// cacheTable empties tab, which is not used any more, and puts it into tableCache if its slot is
// free.
func cacheTable(tab []entry) {
	if p := cacheSlotOf(len(tab)); p != nil && p.Load() == nil {
		clear(tab)
		p.CompareAndSwap(nil, unsafe.SliceData(tab))
	}
}
