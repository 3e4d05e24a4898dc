// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"iter"
	"slices"
)

// Reductions is a list of reductions, each with a V, in the order in which they were added. It
// finds a reduction by the memory that is reduced, in logarithmic time. The zero value is empty.
//
// Invariant: no two of the reductions have memory in common. The caller ensures it, by Meeting.
type Reductions[V any] struct {
	all   []reduction[V] // with an index, entries that were taken out are zero
	holes int            // number of zero entries
	first int            // all entries before it are zero

	// index has the positions in all, by memory; nil while there are few.
	index *spans[int32]
}

type reduction[V any] struct {
	r *Reduced
	v V
}

const (
	// number that is searched one by one (guess: as long as a search in the index)
	fewReductions  = 16
	keptReductions = 64 // number for which an empty list keeps memory (guess)
)

// Len returns the number of reductions.
func (l *Reductions[V]) Len() int { return len(l.all) - l.holes }

// All iterates over the list.
func (l *Reductions[V]) All() iter.Seq[*V] {
	return func(yield func(*V) bool) {
		for i := range l.all {
			if l.all[i].r != nil && !yield(&l.all[i].v) {
				return
			}
		}
	}
}

// Find returns the V of r, until the list changes; nil if r is not in the list.
func (l *Reductions[V]) Find(r *Reduced) *V {
	if l.index != nil {
		lo, _ := r.extent()
		if p := l.index.search(lo); l.index.has(p) {
			if x := &l.all[l.index.at(p).v]; x.r == r {
				return &x.v
			}
		}
		return nil
	}
	for i := range l.all {
		if l.all[i].r == r {
			return &l.all[i].v
		}
	}
	return nil
}

// Meeting returns the V of a reduction other than but whose memory a names, until the list changes;
// nil if there is none.
func (l *Reductions[V]) Meeting(a Access, but *Reduced) *V {
	if i := l.meeting(a, but); i >= 0 {
		return &l.all[i].v
	}
	return nil
}

// AllMeeting iterates over the reductions whose memory a names.
func (l *Reductions[V]) AllMeeting(a Access) iter.Seq[*V] {
	return func(yield func(*V) bool) {
		l.eachMeeting(a, func(i int) bool { return yield(&l.all[i].v) })
	}
}

// TakeMeeting is Meeting, and takes the reduction out of the list.
func (l *Reductions[V]) TakeMeeting(a Access, but *Reduced) (v V, ok bool) {
	if i := l.meeting(a, but); i >= 0 {
		return l.take(i), true
	}
	return v, false
}

// TakeFirst takes out the reduction that was added first.
func (l *Reductions[V]) TakeFirst() (v V, ok bool) {
	if l.Len() == 0 {
		return v, false
	}
	for l.all[l.first].r == nil {
		l.first++
	}
	return l.take(l.first), true
}

func (l *Reductions[V]) meeting(a Access, but *Reduced) (at int) {
	at = -1
	l.eachMeeting(a, func(i int) bool {
		if l.all[i].r != but {
			at = i
		}
		return at < 0
	})
	return at
}

// eachMeeting calls f with the positions in all of the reductions whose memory a names, until f
// returns false.
func (l *Reductions[V]) eachMeeting(a Access, f func(i int) bool) {
	if l.index == nil {
		for i := range l.all {
			if l.all[i].r.Meets(a) && !f(i) {
				return
			}
		}
		return
	}
	lo, hi := a.extent()
	if !a.isRange() {
		hi = max(hi, lo+1)
	}
	for p := l.index.search(lo); l.index.has(p) && l.index.at(p).lo < hi; p = l.index.next(p) {
		if i := int(l.index.at(p).v); l.all[i].r.Meets(a) && !f(i) {
			return
		}
	}
}

// Add puts r at the end. Precondition: the list has no reduction of its memory.
func (l *Reductions[V]) Add(r *Reduced, v V) {
	l.all = append(l.all, reduction[V]{r, v})
	switch {
	case l.index != nil:
		l.enter(len(l.all) - 1)
	case len(l.all) > fewReductions:
		l.enterAll()
	}
}

func (l *Reductions[V]) enterAll() {
	l.index = new(spans[int32])
	for i := range l.all {
		l.enter(i)
	}
}

func (l *Reductions[V]) enter(i int) {
	lo, hi := l.all[i].r.extent()
	l.index.replace(lo, hi, int32(i))
}

// take removes the entry at i and returns its V. With an index it leaves a hole; when more than
// half are holes, it closes them.
func (l *Reductions[V]) take(i int) V {
	x := l.all[i]
	if l.index == nil {
		l.all = removeAt(l.all, i, i+1)
		return x.v
	}
	lo, _ := x.r.extent()
	p := l.index.search(lo)
	l.index.erase(p, l.index.next(p))
	l.all[i] = reduction[V]{}
	if l.holes++; l.holes > len(l.all)/2 {
		// frees memory
		l.all = copyOf(slices.DeleteFunc(l.all, func(x reduction[V]) bool { return x.r == nil }), len(l.all)-l.holes)
		l.holes, l.first, l.index = 0, 0, nil
		if len(l.all) > fewReductions {
			l.enterAll()
		}
	}
	return x.v
}

// Clear empties the list. It keeps some memory for the next reductions.
func (l *Reductions[V]) Clear() {
	clear(l.all)
	if l.all = l.all[:0]; cap(l.all) > keptReductions {
		l.all = nil
	}
	l.holes, l.first, l.index = 0, 0, nil
}

// VetReductions returns why the accesses of list cannot belong to one task: one of them names
// memory that another one reduces. It returns "" if they can.
func VetReductions(list []Access) string {
	var l Reductions[Access]
	for _, x := range list {
		r := x.Reduced()
		if r == nil || l.Find(r) != nil {
			continue
		}
		if y := l.Meeting(x, r); y != nil {
			return twoReductions(*y, x)
		}
		l.Add(r, x)
	}
	if l.Len() == 0 {
		return ""
	}
	for _, x := range list {
		if y := l.Meeting(x, x.Reduced()); y != nil {
			return twoReductions(*y, x)
		}
	}
	return ""
}

func twoReductions(x, y Access) string {
	return fmt.Sprintf("a task accesses object %p by %v and by %v; a reduction is the only access of its task to the object", x.object(), x, y)
}
