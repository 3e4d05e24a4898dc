// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"math/bits"
	"slices"

	"weft/internal/addrmap"
)

// useIndex finds uses by the bytes that they are of. It divides them by length, into classes of up
// to 1, 2, 4 … bytes, and each class by where they begin, in buckets as wide as the class. So a use
// reaches into one bucket behind its own at most, and memory of n bytes meets uses of n/width+2
// buckets.
type useIndex struct {
	classes [bits.UintSize + 1]useClass // by the logarithm of the width
}

type useClass struct {
	buckets addrmap.Map // []*group, by the number of the bucket plus one
	uses    int
}

// put adds u to the group of its parent in the list that is the value of key in m, and notes the
// spot.
func put(m *addrmap.Map, key uintptr, u *use, to *spot) {
	list, _ := m.Get(key).([]*group)
	i := slices.IndexFunc(list, func(g *group) bool { return g.parent == u.rec.parent })
	if i < 0 {
		i = len(list)
		list = append(list, &group{parent: u.rec.parent})
		m.Set(key, list)
	}
	g := list[i]
	*to = spot{g, len(g.uses)}
	g.uses = append(g.uses, u)
}

// take takes the use at a spot out of its group, and that out of the list that is the value of key
// in m, if it was the last. It returns the use that is at the spot now.
func (p *spot) take(m *addrmap.Map, key uintptr) (moved *use) {
	l := p.group.uses
	n := len(l) - 1
	moved = l[n]
	l[p.at], l[n] = moved, nil
	p.group.uses = l[:n]
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

func (x *useIndex) bucket(u *use) (c *useClass, key uintptr) {
	width := bits.Len(uint(u.hi - u.lo - 1))
	return &x.classes[width], u.lo>>width + 1
}

func (x *useIndex) add(u *use) {
	c, key := x.bucket(u)
	put(&c.buckets, key, u, &u.bytes)
	c.uses++
}

func (x *useIndex) remove(u *use) {
	c, key := x.bucket(u)
	u.bytes.take(&c.buckets, key).bytes.at = u.bytes.at
	c.uses--
}

// each calls f for the uses that meet u, by tasks with another parent, until it returns true, which
// it returns then.
func (x *useIndex) each(u *use, f func(o *use) bool) bool {
	for width := range x.classes {
		c := &x.classes[width]
		if c.uses == 0 {
			continue
		}
		bucket := func(v any) bool {
			groups, _ := v.([]*group)
			return slices.ContainsFunc(groups, func(g *group) bool {
				return g.parent != u.rec.parent && slices.ContainsFunc(g.uses, func(o *use) bool { return u.meets(o) && f(o) })
			})
		}
		first, last := max(u.lo>>width, 1)-1, (u.hi-1)>>width
		if last-first >= uintptr(c.buckets.Len()) { // there are fewer buckets than places for them
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
		for b := first; b <= last; b++ {
			if bucket(c.buckets.Get(b + 1)) {
				return true
			}
		}
	}
	return false
}
