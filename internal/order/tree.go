// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"cmp"
	"slices"

	"weft/internal/chain"
)

// Mode is how memory is used, as package deps has it.
type Mode = chain.Mode

// Access is what a task declares of some memory: an object, which is known by its address Lo, or a
// range of bytes.
type Access struct {
	Lo, Hi uintptr
	Object bool
	Mode   Mode
	Weak   bool
}

// Of returns what an access of package deps says.
func Of(a chain.Access) Access {
	lo, hi, slice := a.Memory()
	return Access{lo, hi, !slice, a.Mode(), a.IsWeak()}
}

// Task is a task, as far as its memory goes.
type Task struct {
	Parent *Task // nil for the first one
	Uses   []*Use
	dom    domain // of its children
	walks  *walks // of the tree; nil in the first task, before it has children
}

// Use is what a task has declared of an object, or of a piece of a range, in all its accesses to it.
type Use struct {
	Access
	Task *Task

	Said bool // all of it was declared weak, though Weak may be false: see Child
	Held bool // a task above holds the object: Commutative is InOut then

	prevs []*Use // before it, among the siblings
	whole bool   // it is known by its address, and passes on all of its bytes at once

	walk uint64 // the last one that has come here
	was  []step // where it has been
}

// Child adds a child with accesses to the tree. Accesses to the same memory are one use. All uses
// of a task with a strong Commutative one are strong: while the task holds that object, its children
// must not wait for memory that another holder may have.
func (t *Task) Child(list []Access) *Task {
	if t.walks == nil {
		t.walks = new(walks)
	}
	c, d := &Task{Parent: t, walks: t.walks}, &t.dom
	for _, a := range list {
		if !a.Object && a.Lo < a.Hi {
			t.Ranges()
		}
	}
	for _, a := range list { // so that pieces are the same for all of them, and for the parent
		if !d.ranges {
			break
		}
		for _, cell := range slices.Clone(d.pick(a)) {
			for _, p := range t.Uses {
				if lo, hi := max(cell.lo, p.Lo), min(cell.hi, p.Hi); lo < hi {
					d.cut(lo, hi)
				}
			}
		}
	}
	for _, a := range list {
		for _, cell := range d.pick(a) {
			u := &Use{Access: a, Task: c, Said: a.Weak, prevs: cell.last, whole: !d.ranges}
			u.Lo, u.Hi, u.Mode = cell.lo, cell.hi, a.Mode.Both(a.Mode)
			if len(cell.last) == 1 && cell.last[0].Task == c {
				u = cell.last[0]
				u.Mode, u.Said = u.Mode.Both(a.Mode), u.Said && a.Weak
			} else {
				cell.last = []*Use{u}
				c.Uses = append(c.Uses, u)
			}
		}
	}
	takes := slices.ContainsFunc(c.Uses, func(u *Use) bool { return u.Mode == chain.ModeCommutative && !u.Said })
	for _, u := range c.Uses {
		u.Weak = u.Said && !takes
		u.up(u.Lo, u.Hi, func(up *Use, _, _ uintptr) { u.Held = u.Held || up.Held || up.Holds() })
	}
	c.dom.ranges = d.ranges && len(c.Uses) > 0
	return c
}

// Ranges has the memory of t's children known by its bytes, as it is once one of them has declared
// a range.
func (t *Task) Ranges() {
	if !t.dom.ranges {
		t.dom.makeRanges()
	}
}

// Holds: while the task of u runs, and its children that use the object, no other holder of it does.
func (u *Use) Holds() bool { return u.Mode == chain.ModeCommutative && !u.Weak && !u.Held }

// groups: u goes together with its neighbours of the same mode.
func (u *Use) groups() bool {
	return u.Mode == chain.ModeConcurrent || u.Mode == chain.ModeCommutative && !u.Held
}

// joins: u and the one before it belong to one group.
func (u *Use) joins(before *Use) bool { return before.Mode == u.Mode && u.groups() }

// up calls f for the uses of the parent that u is under, with the bytes of lo to hi that they have.
func (u *Use) up(lo, hi uintptr, f func(up *Use, lo, hi uintptr)) {
	for _, p := range u.Task.Parent.Uses {
		switch {
		case u.whole && p.Lo == u.Lo, !u.whole && p.Lo < hi && lo < p.Hi:
			f(p, max(lo, p.Lo), min(hi, p.Hi))
		}
	}
}

// cell is an object, or a piece of memory that is used alike, among the children of one task.
type cell struct {
	lo, hi uintptr
	last   []*Use // several where objects overlap that were known by their addresses
}

// domain is what the children of one task use: chains, of which it has the ends. Objects are known
// by their addresses, until a child declares a range; from then on all is known by its bytes. A
// task that is known by its bytes has children that are.
type domain struct {
	ranges  bool
	objects map[uintptr]*cell
	pieces  []*cell // in order, apart
}

// makeRanges has all known by its bytes.
func (d *domain) makeRanges() {
	d.ranges = true
	var all []*cell
	for _, o := range d.objects {
		all = append(all, o)
	}
	d.objects = nil
	slices.SortFunc(all, func(a, b *cell) int { return cmp.Compare(a.lo, b.lo) })
	for _, o := range all {
		for _, p := range d.cut(o.lo, o.hi) {
			p.last = append(slices.Clip(p.last), o.last...)
		}
	}
}

// pick returns the object, or the pieces, that an access is to, and makes them if they are new. An
// object has a byte at least.
func (d *domain) pick(a Access) []*cell {
	if a.Object {
		a.Hi = max(a.Hi, a.Lo+1)
	}
	switch {
	case a.Lo == a.Hi:
		return nil
	case d.ranges:
		return d.cut(a.Lo, a.Hi)
	}
	o := d.objects[a.Lo]
	if o == nil {
		o = &cell{lo: a.Lo, hi: a.Hi}
		if d.objects == nil {
			d.objects = map[uintptr]*cell{}
		}
		d.objects[a.Lo] = o
	}
	return []*cell{o}
}

// cut returns the pieces that make up lo to hi, with new ones where there are none. What lies
// outside stays as it is.
func (d *domain) cut(lo, hi uintptr) (list []*cell) {
	i, j := d.find(lo, hi)
	old := d.pieces[i:j]
	if len(old) == 1 && old[0].lo == lo && old[0].hi == hi {
		return old
	}
	var pieces []*cell
	add := func(lo, hi uintptr, last []*Use, in bool) {
		if lo < hi {
			p := &cell{lo, hi, last}
			pieces = append(pieces, p)
			if in {
				list = append(list, p)
			}
		}
	}
	at := lo // what lies before is done
	for _, p := range old {
		add(at, min(p.lo, hi), nil, true)
		add(p.lo, min(p.hi, lo), p.last, false)
		add(max(p.lo, lo), min(p.hi, hi), p.last, true)
		add(max(p.lo, hi), p.hi, p.last, false)
		at = max(at, p.hi)
	}
	add(at, hi, nil, true)
	d.pieces = slices.Replace(d.pieces, i, j, pieces...)
	return list
}

// find returns where the pieces are that have bytes of lo to hi.
func (d *domain) find(lo, hi uintptr) (from, to int) {
	from, _ = slices.BinarySearchFunc(d.pieces, lo, func(p *cell, lo uintptr) int {
		if p.hi <= lo {
			return -1
		}
		return 1
	})
	for to = from; to < len(d.pieces) && d.pieces[to].lo < hi; to++ {
	}
	return from, to
}

// meets returns what the children of u's task have of its bytes.
func (d *domain) meets(u *Use, lo, hi uintptr) (list []*cell) {
	if d.ranges {
		from, to := d.find(lo, hi)
		return d.pieces[from:to]
	}
	if o := d.objects[u.Lo]; o != nil {
		list = append(list, o)
	}
	return list
}

// walks is what the walks in one tree share: they are numbered, so that a use can say which step it
// has seen in this one.
type walks struct {
	last uint64
	todo []step // memory
}

// step is a place on the way: a use, what is asked of it, and for which of its bytes.
type step struct {
	use    *Use
	what   what
	lo, hi uintptr
}

// what is what a use waits for.
type what uint8

const (
	mayRead what = iota
	mayWrite
	mayJoin
	passesRead
	isOver
)
