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

// Debug mode finds accesses that name a copy in place of what was meant. A copy cannot be told from
// an object that is named once, which is legal, by its address. But its bytes tell, where they
// refer to memory elsewhere:
//
//   - Two objects with the same bytes, a reference among them, each named by one task, one of which
//     has declared to write its object and has not: what it wrote is behind the reference. So the
//     two are copies of one variable, such as a loop makes for each iteration.
//   - An object that is a slice, whose elements another task names, and that no task has changed.
//
// So the books remember for each object that a run has named how many tasks did, and its bytes when
// it was named first and when its writers were over. They keep the object, too: its address means
// it until the run is over. Once the main task has waited for all, only those are kept that may be
// a copy (settle). Copies of what has no references are found by weft vet only.

const (
	maxCopies    = 4096 // objects that a run remembers; more are not looked at
	maxCopyWords = 64   // of an object; larger ones are not compared
	sliceWords   = 3
	maxElements  = 1 << 40
	// a word that is not as far from its own address refers to the heap (generous)
	heapSize = 1 << 38
	// lengths and the program's own data are below it; Go puts the heap anywhere above, at random
	heapFrom = 1 << 32
)

// copies is what debug mode remembers of the objects that were named. All is guarded by books.mu.
type copies struct {
	objects addrmap.Map // *named by address
	list    []*named    // the same, and ranges
}

// named is an object, or a range, that tasks have named.
type named struct {
	lo, hi  uintptr
	slice   bool
	access  chain.Access // of the first task; it keeps the object
	first   *Record
	tasks   int
	writes  bool // a task has declared to write it
	words   []uintptr
	changed bool // a task that has declared to write it has done so
}

// name notes that u's task names an object, which no other task uses at the moment.
// +checklocks:books.mu
func (c *copies) name(u *use) {
	x, _ := c.objects.Get(u.lo).(*named)
	if x == nil || x.slice != u.slice {
		if c.objects.Len() >= maxCopies {
			return
		}
		x = &named{lo: u.lo, hi: u.hi, slice: u.slice, access: u.access, first: u.rec}
		if n := u.hi - u.lo; !u.slice && n <= maxCopyWords*unsafe.Sizeof(n) && n%unsafe.Sizeof(n) == 0 && u.lo%unsafe.Alignof(n) == 0 {
			x.words = make([]uintptr, n/unsafe.Sizeof(n))
			peek(x.words, u.lo)
		}
		c.list = append(c.list, x)
		c.objects.Set(u.lo, x)
	}
	x.tasks++
	x.writes = x.writes || order.Writes(u.mode) && !u.weak
}

// settle gives up the objects that cannot be copies, or slices beside their elements. All tasks but
// the main one are over, so what comes is ordered behind them. How many tasks have named an address
// stays known: it makes no copy of what is named again. +checklocks:books.mu
func (c *copies) settle() {
	c.list = slices.DeleteFunc(c.list, func(x *named) bool {
		mayBe := x.tasks == 1 && x.refers() || len(x.words) == sliceWords
		if !mayBe {
			*x = named{lo: x.lo, hi: x.hi, slice: x.slice, tasks: x.tasks}
		}
		return !mayBe
	})
}

// over notes that u's task, which has used its object, is over. +checklocks:books.mu
func (c *copies) over(u *use) {
	x, _ := c.objects.Get(u.lo).(*named)
	if x == nil || x.changed || !order.Writes(u.mode) || u.weak || len(x.words) == 0 {
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

// elements returns where the elements are of x, if it has the words of a slice.
func (x *named) elements() (lo, count uintptr) {
	if len(x.words) != sliceWords || x.changed || x.words[1] > x.words[2] || x.words[2] > maxElements {
		return 0, 0
	}
	return x.words[0], x.words[2]
}

// isElement reports whether x is one of the elements, or a range that begins with one.
func (x *named) isElement(lo, count uintptr) bool {
	size := x.hi - x.lo
	if x.slice {
		return x.lo == lo
	}
	return x.lo >= lo && (x.lo-lo)%size == 0 && (x.lo-lo)/size < count
}

// finding is two objects that are not what they seem.
type finding struct {
	text string
	a, b *named
}

// find returns what is wrong with the objects that a run has named. +checklocks:books.mu
func (c *copies) find() (list []finding) {
	for _, x := range c.list {
		lo, count := x.elements()
		if count == 0 {
			continue
		}
		for _, y := range c.list {
			if y != x && y.isElement(lo, count) && (x.writes || y.writes) && y.without(x) {
				list = append(list, finding{"a task names a slice, and another one its elements: these are two objects, and nothing orders the two; name the elements in both, by chain.Slice", x, y})
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

// without reports whether a task has named x and not y, as far as is known. Tasks that name both
// are ordered by both.
func (x *named) without(y *named) bool { return x.first.object(y.lo) == nil || x.tasks > y.tasks }

// unwritten reports whether a task has declared to write x, and has not.
func (x *named) unwritten() bool { return x.writes && !x.changed }

func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
