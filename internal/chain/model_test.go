// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"weft/internal/chain"
	"weft/internal/order"
)

// The model is package order, for memory whose bytes are numbers: in programs without ranges, an
// object is one byte.

// decl is an access as it is written in a program.
type decl struct {
	obj  int
	mode chain.Mode
	weak bool
}

// taskAccess is the combined declaration of one task for one object, or byte.
type taskAccess struct {
	decl
	of       *order.Entry
	task     *mtask
	released bool // by Release or by the end of the task
	// declared weak, even if a strong Commutative access of the task has made it strong
	declaredWeak bool
}

type mtask struct {
	parent *mtask
	order  *order.Task
	accs   []*taskAccess
	all    map[*order.Task]*mtask // of the program
}

func newModelTask(parent *mtask) *mtask {
	t := &mtask{parent: parent, order: new(order.Task), all: map[*order.Task]*mtask{}}
	t.all[t.order] = t
	return t
}

// find returns t's own access to the object; nil if t has not declared it.
func (t *mtask) find(obj int) *taskAccess {
	for _, u := range t.accs {
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
					o.mode = chain.ModeInOut
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
			if a.obj == b.obj && (a.mode == chain.ModeReduce) != (b.mode == chain.ModeReduce) {
				return true
			}
		}
	}
	return false
}

// spawn appends a child of p.
func (p *mtask) spawn(list []decl) *mtask {
	var accs []order.Access
	for _, d := range list {
		accs = append(accs, order.Access{Lo: uintptr(d.obj), Hi: uintptr(d.obj) + 1, Object: true, Mode: d.mode, Weak: d.weak})
	}
	return p.child(accs)
}

func (p *mtask) child(list []order.Access) *mtask {
	t := &mtask{parent: p, order: p.order.Child(list), all: p.all}
	t.all[t.order] = t
	for _, u := range t.order.Entries {
		for b := u.Lo; b < u.Hi; b++ {
			t.accs = append(t.accs, &taskAccess{decl: decl{int(b), u.Mode, u.Weak}, of: u, task: t, declaredWeak: u.DeclaredWeak})
		}
	}
	return t
}

// takes reports whether the list has a strong Commutative access.
func takes(list []decl) bool {
	for _, d := range list {
		if d.mode == chain.ModeCommutative && !d.weak {
			return true
		}
	}
	return false
}

// strict reports whether t or a task above it takes objects, so that its children must keep to its
// declarations: otherwise they could wait for a task that waits for those objects.
func (t *mtask) strict() bool {
	for ; t != nil; t = t.parent {
		for _, u := range t.accs {
			if u.mode == chain.ModeCommutative && !u.weak {
				return true
			}
		}
	}
	return false
}

// end gives up all of t's accesses.
func (t *mtask) end() {
	for _, u := range t.accs {
		u.released = true
	}
}

func (u *taskAccess) holds() bool { return u.of.Holds() }
func (u *taskAccess) held() bool  { return u.of.Held }

// gone reports whether u's task and its children no longer use the object, whatever earlier tasks
// do.
func (u *taskAccess) gone() bool {
	gone := u.released
	u.of.Below(uintptr(u.obj), uintptr(u.obj)+1, u.task.released(&gone))
	return gone
}

// mayStart reports whether no strong access of t has to wait.
func (t *mtask) mayStart() bool {
	may := true
	t.order.Before(t.released(&may))
	return may
}

// released returns a function that tells package order which accesses are given up. It sets *all to
// false if one is not.
func (t *mtask) released(all *bool) func(u *order.Entry, lo, hi uintptr) bool {
	return func(u *order.Entry, lo, hi uintptr) bool {
		given := true
		for _, x := range t.all[u.Task].accs {
			given = given && (x.released || uintptr(x.obj) < lo || uintptr(x.obj) >= hi)
		}
		*all = *all && given
		return given
	}
}
