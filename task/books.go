// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"slices"
	"sync"

	"weft/deps"
)

// books is what debug mode knows of a run.
type books struct {
	mu   sync.Mutex
	live map[uintptr][]*group // uses that are not given up, by object. +checklocks:mu
	said map[uintptr]bool     // program counters that were warned of. +checklocks:mu
}

// group is the uses of one object by the children of one task. The engine orders them.
type group struct {
	parent *record
	uses   []*use
}

// add enters u. +checklocks:b.mu
func (b *books) add(u *use) {
	if b.live == nil {
		b.live, b.said = map[uintptr][]*group{}, map[uintptr]bool{}
	}
	var g *group
	for _, x := range b.live[u.obj] {
		if x.parent == u.rec.parent {
			g = x
		}
	}
	if g == nil {
		g = &group{parent: u.rec.parent}
		b.live[u.obj] = append(b.live[u.obj], g)
	}
	u.group, u.at = g, len(g.uses)
	g.uses = append(g.uses, u)
}

// dropUse takes u out, if it is in. +checklocks:b.mu
func (b *books) dropUse(u *use) {
	g := u.group
	if g == nil {
		return
	}
	u.group = nil
	last := g.uses[len(g.uses)-1]
	g.uses[u.at], last.at = last, u.at
	g.uses[len(g.uses)-1] = nil
	if g.uses = g.uses[:len(g.uses)-1]; len(g.uses) > 0 {
		return
	}
	l := slices.DeleteFunc(b.live[u.obj], func(x *group) bool { return x == g })
	if b.live[u.obj] = l; len(l) == 0 {
		delete(b.live, u.obj)
	}
}

// gap returns a live use that clashes with u and is not linked with it, and says why not. +checklocks:b.mu
func (b *books) gap(u *use) (other *use, why string) {
	for _, g := range b.live[u.obj] {
		if g.parent == u.rec.parent || u.access.IsWeak() {
			continue
		}
		for _, o := range g.uses {
			if !o.access.IsWeak() && clash(u.access, o.access) {
				if why := unlinked(u, o); why != "" {
					return o, why
				}
				break // the others of the group have the same ancestors
			}
		}
	}
	return nil, ""
}

// unlinked says which ancestor of u's task or of o's keeps the two from being linked; "" if they are.
func unlinked(u, o *use) string {
	for _, x := range [2][2]*use{{u, o}, {o, u}} {
		mine, others := x[0], x[1].rec
		for p := mine.rec.parent; p != nil && !others.isUnder(p); p = p.parent {
			own := p.find(mine.obj)
			if own == nil && p.ranged(mine.access) {
				continue
			}
			if own == nil {
				return p.name() + " has not declared it, and its descendants use it (a weak access is enough)"
			}
			if !covers(own.access, mine.access) {
				return p.name() + " has declared " + own.access.String() + ", and its descendants do more"
			}
		}
	}
	return ""
}

// covers reports whether a task with access own may have descendants with access a.
func covers(own, a deps.Access) bool {
	return !known(own) || !known(a) || own.Mode().Orders(deps.ModeInOut) || own.Mode() == a.Mode()
}

// clash reports whether two tasks with these accesses to one object must not run at the same time. What debug mode does not know
// the rules of, it says nothing about.
func clash(a, b deps.Access) bool {
	return known(a) && known(b) && (!a.Mode().Orders(b.Mode()) || a.Mode().Orders(deps.ModeInOut))
}

func known(a deps.Access) bool {
	switch a.Mode() {
	case deps.ModeIn, deps.ModeOut, deps.ModeInOut, deps.ModeConcurrent:
		return true
	}
	return false
}

// openAll says that r's task may run from now on. The error names a task that may as well, and should not.
func (b *books) openAll(r *record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range r.uses {
		u := &r.uses[i]
		if u.open || u.group == nil || u.access.IsWeak() {
			continue
		}
		u.open = true
		for _, g := range b.live[u.obj] {
			if g == u.group {
				continue
			}
			for _, o := range g.uses {
				if !o.open || !clash(u.access, o.access) || o.rec.isUnder(r) || r.isUnder(o.rec) {
					continue
				}
				why := unlinked(u, o)
				if why == "" {
					why = "this is a bug of weft"
				}
				return fmt.Errorf("%w: %v of %s and %v of %s: %s", ErrConflict, u.access, r.name(), o.access, o.rec.name(), why)
			}
		}
	}
	return nil
}

func (b *books) drop(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range r.uses {
		b.dropUse(&r.uses[i])
	}
}
