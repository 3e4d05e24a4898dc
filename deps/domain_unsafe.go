// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import (
	"math/bits"
	"unsafe"
)

// A domain is the table of the objects that the children of one task have
// named so far: for each the last access of its chain. It is owned by the body of
// the parent and needs no lock: only that body adds children, and the end of the
// body closes it.
//
// An access that is in a table never comes to rest, because rest needs a
// successor or the closed bit, and both are the owner's to give.
type domain struct {
	tab   []entry // open addressing, linear probing, a power of two long
	shift uint8   // 64 - log2(len(tab))
	n     int     // keys in use

	ranges rangesRef           // none until a range is named; then the table is empty
	big    map[uintptr]uintptr // sizes of large objects (extent_unsafe.go); nil if there are none
}

type entry struct {
	key  unsafe.Pointer
	last *access // end of the chain: a child's access, or up itself
	up   *access // the parent's own access to the object, if it has one
}

const (
	domainMin = 8    // entries of a new table (guess: a stencil task names five)
	domainMax = 1024 // largest table that is kept for the next task (guess)
	sweepLook = 16   // chains that are looked at before a sweep (guess)
)

// slot returns the entry of key, adding it if it is absent.
func (d *domain) slot(key unsafe.Pointer, f *Flow) *entry {
	e := d.probe(key)
	if e.key == key {
		return e
	}
	return d.add(e, key, f)
}

// add makes e, an empty entry where key would be, that of key; or another one, if the table had to grow.
func (d *domain) add(e *entry, key unsafe.Pointer, f *Flow) *entry {
	if d.n*4 >= len(d.tab)*3 {
		d.grow(f)
		e = d.probe(key)
	}
	e.key = key
	d.n++
	return e
}

// probe returns the entry of key, or the empty one where it would be.
// Precondition: the table has an empty entry.
func (d *domain) probe(key unsafe.Pointer) *entry {
	mask := uint(len(d.tab) - 1)
	i := home(key, d.shift)
	for {
		e := &d.tab[i&mask]
		if e.key == key || e.key == nil {
			return e
		}
		i++
	}
}

// home returns where key is in a table with shift, or would be if nothing else were there.
func home(key unsafe.Pointer, shift uint8) uint {
	return uint(uint64(uintptr(key)) * 0x9E3779B97F4A7C15 >> (shift & 63))
}

// grow makes room. Chains that are over are dropped first, so that a domain which
// names ever new objects stays as large as the number of objects in use.
func (d *domain) grow(f *Flow) {
	old := d.tab
	live := 0
	sweep := d.worthSweep()
	for i := range old {
		e := &old[i]
		if e.key == nil {
			continue
		}
		if sweep && e.up == nil && finished(e.last.state.Load()) {
			f.set(e.last, closed)
			e.key, e.last = nil, nil
			continue
		}
		live++
	}
	size := live * 4 // small tables grow fast: each time, chains are looked at
	if live > domainMax {
		size = live * 3 / 2
	}
	d.alloc(max(domainMin, 1<<bits.Len(uint(size))))
	for i := range old {
		if old[i].key != nil {
			*d.probe(old[i].key) = old[i]
		}
	}
	d.n = live
}

// worthSweep looks at a few chains and reports whether a good part of them is over. A sweep looks at the
// last access of each, which is likely to be in another processor's cache.
func (d *domain) worthSweep() bool {
	looked, over := 0, 0
	for i := 0; i < len(d.tab) && looked < sweepLook; i++ {
		if e := &d.tab[i]; e.key != nil && e.up == nil {
			looked++
			if finished(e.last.state.Load()) {
				over++
			}
		}
	}
	return over*4 > looked
}

func (d *domain) alloc(size int) {
	d.tab = make([]entry, size)
	d.shift = uint8(64 - bits.TrailingZeros(uint(size)))
}

// clear empties the table for the next task.
func (d *domain) clear() {
	if len(d.tab) > domainMax {
		d.tab = nil
	} else {
		clear(d.tab)
	}
	d.n = 0
	d.big = nil
}
