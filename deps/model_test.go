// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import "weft/deps"

// The model is the meaning of the package, said once more and as naively as
// possible: a tree of tasks, each use of an object pointing at the one before
// it in its domain, and questions that are answered by walking the tree. Nothing is
// stored but what the program did.

// decl is an access as it is written in a program.
type decl struct {
	obj  int
	mode deps.Mode
	weak bool
}

// use is all that one task declares for one object.
type use struct {
	decl
	task  *mtask
	prev  *use   // the use before it in its domain, nil for the first
	given bool   // by Release or by the end of the task
	said  bool   // declared weak, also if it is strong since the task has a strong Commutative use
	whole []*use // the uses that pass tokens on together with this one; nil if it is alone
}

type mtask struct {
	parent *mtask
	uses   []*use
	last   map[int]*use // the last use of each object by a child so far
}

func newModelTask(parent *mtask) *mtask {
	return &mtask{parent: parent, last: map[int]*use{}}
}

// find returns t's own use of the object, nil if t has not declared it.
func (t *mtask) find(obj int) *use {
	for _, u := range t.uses {
		if u.obj == obj {
			return u
		}
	}
	return nil
}

// combineDecls makes one declaration for each object of the list (reference §1.1).
func combineDecls(list []decl) []decl {
	var out []decl
next:
	for _, d := range list {
		for i := range out {
			o := &out[i]
			if o.obj == d.obj {
				if o.mode != d.mode {
					o.mode = deps.ModeInOut
				}
				o.weak = o.weak && d.weak
				continue next
			}
		}
		out = append(out, d)
	}
	return out
}

// clashes reports whether a list has an object both in Reduce and otherwise.
func clashes(list []decl) bool {
	for _, a := range list {
		for _, b := range list {
			if a.obj == b.obj && (a.mode == deps.ModeReduce) != (b.mode == deps.ModeReduce) {
				return true
			}
		}
	}
	return false
}

// spawn appends a child of p.
func (p *mtask) spawn(list []decl) *mtask {
	t := newModelTask(p)
	list = combineDecls(list)
	for _, d := range list {
		u := &use{decl: d, task: t, prev: p.last[d.obj], said: d.weak}
		u.weak = d.weak && !takes(list)
		p.last[d.obj] = u
		t.uses = append(t.uses, u)
	}
	return t
}

// takes: one of the list is a strong Commutative.
func takes(list []decl) bool {
	for _, d := range list {
		if d.mode == deps.ModeCommutative && !d.weak {
			return true
		}
	}
	return false
}

// strict: t or one above it takes objects, so that its children must keep to what it declares; else they could
// wait for somebody who waits for those objects.
func (t *mtask) strict() bool {
	for ; t != nil; t = t.parent {
		for _, u := range t.uses {
			if u.mode == deps.ModeCommutative && !u.weak {
				return true
			}
		}
	}
	return false
}

// end gives up all of t's uses.
func (t *mtask) end() {
	for _, u := range t.uses {
		u.given = true
	}
}

// holds: while the task of u runs, and the children that use the object, no other holder of it does.
func (u *use) holds() bool { return u.mode == deps.ModeCommutative && !u.weak && !u.held() }

// held: an ancestor holds the object; Commutative is InOut then.
func (u *use) held() bool {
	up := u.up()
	return up != nil && (up.holds() || up.held())
}

// gone: u's task and its children no longer use the object, whatever does before.
func (u *use) gone() bool { return u.given && (u.below() == nil || u.below().over()) }

// grouped: u and the use before it belong to one group.
func (u *use) grouped(before *use) bool {
	return before.mode == u.mode && (u.mode == deps.ModeConcurrent || u.mode == deps.ModeCommutative && !u.held())
}

// up is the parent's use of the object.
func (u *use) up() *use {
	if u.task.parent == nil {
		return nil
	}
	return u.task.parent.find(u.obj)
}

// below is the last use of the object by a child of u's task.
func (u *use) below() *use { return u.task.last[u.obj] }

// mayRead: every earlier writer is over. The first in a domain may what its
// parent's use may; without one nothing protects the object.
func (u *use) mayRead() bool {
	if u.prev != nil {
		return u.prev.passesRead()
	}
	up := u.up()
	return up == nil || up.holds() || up.mayRead()
}

// mayWrite: everything earlier is over.
func (u *use) mayWrite() bool {
	if u.prev != nil {
		return u.prev.over()
	}
	up := u.up()
	return up == nil || up.holds() || up.mayWrite()
}

// mayJoin: the group that u belongs to is open.
func (u *use) mayJoin() bool {
	if u.mayWrite() {
		return true
	}
	before := u.prev
	if before == nil {
		before = u.up()
	}
	return before != nil && u.grouped(before) && before.mayJoin()
}

// passesRead: the use after u may read as far as u is concerned.
func (u *use) passesRead() bool { return u.all((*use).passesReadAlone) }

func (u *use) passesReadAlone() bool {
	switch {
	case u.mode == deps.ModeIn:
		return u.mayRead()
	case !u.given:
		return false
	case u.below() != nil && !u.below().passesRead():
		return false
	}
	return u.mayRead()
}

// over: u's task and what it left to its children no longer use the object, nor
// does anything earlier.
func (u *use) over() bool { return u.all((*use).overAlone) }

// all reports whether f holds for u and those that are one with it.
func (u *use) all(f func(*use) bool) bool {
	if !f(u) {
		return false
	}
	for _, v := range u.whole {
		if !f(v) {
			return false
		}
	}
	return true
}

func (u *use) overAlone() bool {
	switch {
	case !u.given:
		return false
	case u.below() != nil && !u.below().over():
		return false
	}
	return u.mayWrite()
}

// mayStart: no strong use of t has to wait.
func (t *mtask) mayStart() bool {
	for _, u := range t.uses {
		if !u.weak && !u.mayUse() {
			return false
		}
	}
	return true
}

func (u *use) mayUse() bool {
	switch u.mode {
	case deps.ModeIn:
		return u.mayRead()
	case deps.ModeConcurrent, deps.ModeCommutative:
		return u.mayJoin()
	case deps.ModeReduce:
		return true
	}
	return u.mayWrite()
}
