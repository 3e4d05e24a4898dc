// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"sort"

	"weft/internal/addrmap"
)

func (d *domain) object(at uintptr) *cell {
	c, _ := d.objects.Get(at + 1).(*cell)
	return c
}

// makeRanges has all known by its bytes.
func (d *domain) makeRanges() {
	d.ranges = true
	var all byAddress
	d.objects.All(func(v any) bool {
		all = append(all, v.(*cell))
		return true
	})
	d.objects = addrmap.Map{}
	sort.Sort(all)
	for _, o := range all {
		for _, p := range d.cut(o.lo, o.hi) {
			for _, x := range o.last { // each by itself: the race detector sees a copy
				p.last = append(p.last[:len(p.last):len(p.last)], x) // others have the list
			}
		}
	}
}

type byAddress []*cell

func (b byAddress) Len() int           { return len(b) }
func (b byAddress) Less(i, j int) bool { return b[i].lo < b[j].lo }
func (b byAddress) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// pick returns the object, or the pieces, that an access is to, and makes them if they are new.
func (d *domain) pick(a Access) []*cell {
	switch {
	case a.Lo == a.end():
		return nil
	case d.ranges:
		return d.cut(a.Lo, a.end())
	}
	o := d.object(a.Lo)
	if o == nil {
		o = &cell{lo: a.Lo, hi: a.end()}
		d.objects.Set(a.Lo+1, o)
	}
	return []*cell{o}
}

// cut returns the pieces that make up lo to hi, with new ones where there are none. What lies
// outside stays as it is.
func (d *domain) cut(lo, hi uintptr) []*cell {
	d.split(lo)
	d.split(hi)
	from := d.search(lo)
	i := from
	for at := lo; at < hi; i++ {
		next := hi
		if i < len(d.pieces) {
			next = min(next, d.pieces[i].lo)
		}
		if at < next {
			d.insert(i, &cell{lo: at, hi: next})
		}
		at = d.pieces[i].hi
	}
	return d.pieces[from:i]
}

// split makes two pieces of the one that goes on beyond at.
func (d *domain) split(at uintptr) {
	i := d.search(at)
	if i == len(d.pieces) || d.pieces[i].lo >= at {
		return
	}
	p := d.pieces[i]
	d.insert(i+1, &cell{lo: at, hi: p.hi, last: p.last, sealed: p.sealed})
	p.hi = at
}

// insert makes c the piece of number i.
func (d *domain) insert(i int, c *cell) {
	d.pieces = append(d.pieces, nil)
	for k := len(d.pieces) - 1; k > i; k-- {
		d.pieces[k] = d.pieces[k-1]
	}
	d.pieces[i] = c
}

// seek returns the first piece that ends after lo.
func (d *domain) search(lo uintptr) int {
	return sort.Search(len(d.pieces), func(i int) bool { return d.pieces[i].hi > lo })
}

// meets returns what the children of u's task have of its bytes.
func (d *domain) meets(u *Entry, lo, hi uintptr) (list []*cell) {
	if d.ranges {
		from := d.search(lo)
		to := from
		for to < len(d.pieces) && d.pieces[to].lo < hi {
			to++
		}
		return d.pieces[from:to]
	}
	if o := d.object(u.Lo); o != nil {
		list = append(list, o)
	}
	return list
}
