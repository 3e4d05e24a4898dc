// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"math/bits"
	"slices"

	"weft/internal/addrmap"
)

// accessIndex finds accesses by their bytes. It divides them by length into classes of up to 1, 2,
// 4 … bytes, and each class by first byte into buckets as wide as the class. So an access reaches
// at most one bucket further than its own, and memory of n bytes meets the accesses of at most
// n/width+2 buckets.
type accessIndex struct {
	classes [bits.UintSize + 1]accessClass // by the logarithm of the width
}

type accessClass struct {
	buckets  addrmap.Map // []*group, by the number of the bucket plus one
	accesses int
}

// put adds a to the group of its parent. The groups are the list that m has for key. It sets spot
// to a's position.
func put(m *addrmap.Map, key uintptr, a *access, to *spot) {
	list, _ := m.Get(key).([]*group)
	i := slices.IndexFunc(list, func(g *group) bool { return g.parent == a.rec.parent })
	if i < 0 {
		i = len(list)
		list = append(list, &group{parent: a.rec.parent})
		m.Set(key, list)
	}
	g := list[i]
	*to = spot{g, len(g.accesses)}
	g.accesses = append(g.accesses, a)
}

// take takes the access at p out of its group. If the group is empty then, it goes out of the list
// that m has for key. take returns the access that is at p now.
func (p *spot) take(m *addrmap.Map, key uintptr) (moved *access) {
	l := p.group.accesses
	n := len(l) - 1
	moved = l[n]
	l[p.at], l[n] = moved, nil
	p.group.accesses = l[:n]
	if n > 0 {
		return moved
	}
	list := slices.DeleteFunc(m.Get(key).([]*group), func(g *group) bool { return g == p.group })
	if len(list) > 0 {
		m.Set(key, list)
	} else {
		m.Remove(key)
	}
	return moved
}

func (x *accessIndex) bucket(a *access) (c *accessClass, key uintptr) {
	width := bits.Len(uint(a.hi - a.lo - 1))
	return &x.classes[width], a.lo>>width + 1
}

func (x *accessIndex) add(a *access) {
	c, key := x.bucket(a)
	put(&c.buckets, key, a, &a.bytes)
	c.accesses++
}

func (x *accessIndex) remove(a *access) {
	c, key := x.bucket(a)
	a.bytes.take(&c.buckets, key).bytes.at = a.bytes.at
	c.accesses--
}

// each calls f for the accesses that meet a, by tasks with another parent, until f returns true,
// and reports whether it did.
func (x *accessIndex) each(a *access, f func(b *access) bool) bool {
	for width := range x.classes {
		c := &x.classes[width]
		if c.accesses == 0 {
			continue
		}
		bucket := func(v any) bool {
			groups, _ := v.([]*group)
			return slices.ContainsFunc(groups, func(g *group) bool {
				return g.parent != a.rec.parent && slices.ContainsFunc(g.accesses, func(b *access) bool { return a.meets(b) && f(b) })
			})
		}
		first, last := max(a.lo>>width, 1)-1, (a.hi-1)>>width
		if last-first >= uintptr(c.buckets.Len()) { // fewer buckets exist than a could meet
			found := false
			c.buckets.All(func(v any) bool {
				found = bucket(v)
				return !found
			})
			if found {
				return true
			}
			continue
		}
		for i := first; i <= last; i++ {
			if bucket(c.buckets.Get(i + 1)) {
				return true
			}
		}
	}
	return false
}
