// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"slices"
	"unsafe"

	"weft/internal/addrmap"
	"weft/internal/chain"
	"weft/internal/order"
)

// Debug mode finds accesses that name a copy instead of the original. The address does not tell a
// copy from an object that is named once, which is legal. But its bytes do, if they refer to other
// memory. Two things are wrong:
//
//   - Two objects have the same bytes, with a reference among them. Each is named by one task, and
//     one of these tasks has declared to write its object and has not: it wrote what the reference
//     refers to. So the two are copies of one variable, such as a loop makes for each iteration. A
//     fresh object that is named once is no copy: its task writes it, or only reads it, or no other
//     object has its bytes.
//   - An object is a slice whose elements another task names, and no task has changed the slice.
//
// So the audit remembers for each object that a run has named: how many tasks did, and its bytes
// when it was named first and when its writers were over. It keeps the object too, so that its
// address means this object until the run is over. Once the main task has waited for all tasks,
// settle keeps only the objects that may be copies. Only weft vet finds copies that have no
// references.

const (
	maxCopies    = 4096 // objects that a run remembers; more are not checked
	maxCopyWords = 64   // of an object; larger ones are not compared
	sliceWords   = 3
	maxElements  = 1 << 40
	// a word within this distance of its object's address refers to the heap (generous)
	heapSize = 1 << 38
	// lengths and the addresses of the program's data are below; Go puts the heap anywhere above,
	// at random
	heapFrom = 1 << 32
)

// copies is what debug mode remembers of the objects that were named. All is guarded by
// runAudit.mu.
type copies struct {
	objects addrmap.Map // *named by address
	list    []*named    // the same, and ranges
}

// named is an object, or a range, that tasks have named.
type named struct {
	lo, hi  uintptr
	slice   bool
	decl    chain.Access // of the first task; it keeps the object
	first   *Record
	tasks   int
	writes  bool // a task has declared to write it
	words   []uintptr
	changed bool // a task that has declared to write it has done so
}

// name notes that a's task names an object, which no other task uses at the moment.
// +checklocks:runAudit.mu
func (c *copies) name(a *access) {
	x, _ := c.objects.Get(a.lo).(*named)
	if x == nil || x.slice != a.slice {
		if c.objects.Len() >= maxCopies {
			return
		}
		x = &named{lo: a.lo, hi: a.hi, slice: a.slice, decl: a.decl, first: a.rec}
		if n := a.hi - a.lo; !a.slice && n <= maxCopyWords*unsafe.Sizeof(n) && n%unsafe.Sizeof(n) == 0 && a.lo%unsafe.Alignof(n) == 0 {
			x.words = make([]uintptr, n/unsafe.Sizeof(n))
			peek(x.words, a.lo)
		}
		c.list = append(c.list, x)
		c.objects.Set(a.lo, x)
	}
	x.tasks++
	x.writes = x.writes || order.Writes(a.mode) && !a.weak
}

// settle forgets the objects that can be neither copies nor slices whose elements are named. All
// tasks except the main task are over, so later tasks are ordered after them. It still remembers
// how many tasks have named an address, so that an object which is named again is not taken for a
// copy. +checklocks:runAudit.mu
func (c *copies) settle() {
	c.list = slices.DeleteFunc(c.list, func(x *named) bool {
		mayBe := x.tasks == 1 && x.refers() || len(x.words) == sliceWords
		if !mayBe {
			*x = named{lo: x.lo, hi: x.hi, slice: x.slice, tasks: x.tasks}
		}
		return !mayBe
	})
}

// over notes that a's task, which has used its object, is over. +checklocks:runAudit.mu
func (c *copies) over(a *access) {
	x, _ := c.objects.Get(a.lo).(*named)
	if x == nil || x.changed || !order.Writes(a.mode) || a.weak || len(x.words) == 0 {
		return
	}
	now := make([]uintptr, len(x.words))
	peek(now, x.lo)
	x.changed = !slices.Equal(now, x.words)
}

// peek copies memory that the program may be using.
//
//go:norace
func peek(to []uintptr, from uintptr) {
	p := *(*unsafe.Pointer)(unsafe.Pointer(&from)) // named by an access, which keeps it
	for i := range to {
		to[i] = *(*uintptr)(unsafe.Add(p, uintptr(i)*unsafe.Sizeof(from)))
	}
}

// refers reports whether one of the words refers to another object of the heap.
func (x *named) refers() bool {
	return x.lo >= heapFrom && slices.ContainsFunc(x.words, func(w uintptr) bool {
		return w >= heapFrom && w-x.lo+heapSize < 2*heapSize && w%unsafe.Alignof(w) == 0
	})
}

// elements returns the address and the number of x's elements, if x has the words of a slice.
func (x *named) elements() (lo, count uintptr) {
	if len(x.words) != sliceWords || x.changed || x.words[1] > x.words[2] || x.words[2] > maxElements {
		return 0, 0
	}
	return x.words[0], x.words[2]
}

// isElement reports whether x is one of count elements at lo, or a range that begins at lo.
func (x *named) isElement(lo, count uintptr) bool {
	size := x.hi - x.lo
	if x.slice {
		return x.lo == lo
	}
	return x.lo >= lo && (x.lo-lo)%size == 0 && (x.lo-lo)/size < count
}

// finding is a mistake: a and b are copies, or a slice and its elements.
type finding struct {
	text string
	a, b *named
}

// find returns the mistakes among the objects that a run has named. +checklocks:runAudit.mu
func (c *copies) find() (list []finding) {
	for _, x := range c.list {
		lo, count := x.elements()
		if count == 0 {
			continue
		}
		for _, y := range c.list {
			if y != x && y.isElement(lo, count) && (x.writes || y.writes) && y.without(x) {
				list = append(list, finding{"a task names a slice, and another one its elements: these are two objects, and nothing orders the two; name the elements in both, by deps.Slice", x, y})
				break
			}
		}
	}
	once := slices.DeleteFunc(slices.Clone(c.list), func(x *named) bool { return x.tasks != 1 || !x.refers() })
	slices.SortStableFunc(once, func(a, b *named) int {
		return cmp.Or(slices.Compare(a.words, b.words), cmp.Compare(one(b.unwritten()), one(a.unwritten())))
	})
	for i := 1; i < len(once); i++ {
		if a, b := once[i-1], once[i]; a.unwritten() && slices.Equal(a.words, b.words) {
			list = append(list, finding{"two tasks name copies of one variable, which nothing else names: nothing orders them; " +
				"name the original, such as &blocks[i] in place of a variable of the loop", a, b})
		}
	}
	return list
}

// without reports whether some task is known to have named x and not y. Tasks that name both are
// ordered by both.
func (x *named) without(y *named) bool { return x.first.object(y.lo) == nil || x.tasks > y.tasks }

// unwritten reports whether a task has declared to write x, and has not.
func (x *named) unwritten() bool { return x.writes && !x.changed }

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
