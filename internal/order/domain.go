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

// makeRanges replaces the objects by pieces of bytes.
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
			for _, x := range o.last { // one by one: the race detector sees Go's own copy
				p.last = append(p.last[:len(p.last):len(p.last)], x) // other pieces share the list
			}
		}
	}
}

type byAddress []*cell

func (b byAddress) Len() int           { return len(b) }
func (b byAddress) Less(i, j int) bool { return b[i].lo < b[j].lo }
func (b byAddress) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// pick returns the object or the pieces of an access, and makes them if they are new.
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

// cut returns the pieces that make up [lo, hi), and makes new ones in gaps. Memory outside stays as
// it is.
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

// split cuts the piece that contains at, unless the piece begins there.
func (d *domain) split(at uintptr) {
	i := d.search(at)
	if i == len(d.pieces) || d.pieces[i].lo >= at {
		return
	}
	p := d.pieces[i]
	d.insert(i+1, &cell{lo: at, hi: p.hi, last: p.last, sealed: p.sealed})
	p.hi = at
}

// insert makes c the piece with index i.
func (d *domain) insert(i int, c *cell) {
	d.pieces = append(d.pieces, nil)
	for k := len(d.pieces) - 1; k > i; k-- {
		d.pieces[k] = d.pieces[k-1]
	}
	d.pieces[i] = c
}

// search returns the index of the first piece that ends after lo.
func (d *domain) search(lo uintptr) int {
	return sort.Search(len(d.pieces), func(i int) bool { return d.pieces[i].hi > lo })
}

// meets returns the pieces or the object of the children of u's task that overlap u's bytes [lo,
// hi).
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
