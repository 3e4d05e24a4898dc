// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"weft/internal/addrmap"
	"weft/internal/chain"
)

// Access is the declaration of a task for some memory: an object, which is known by its address Lo,
// or a range of bytes.
type Access struct {
	Lo, Hi uintptr
	Object bool
	Mode   Mode
	Weak   bool

	Keeps chain.Access // keeps the memory alive while the access is in the tree; may be zero
}

// Of returns the order.Access of an access of package deps.
func Of(a chain.Access) Access {
	lo, hi, slice := a.Memory()
	return Access{lo, hi, !slice, a.Mode(), a.IsWeak(), a}
}

// List returns the order.Access of each of accs that has memory.
func List(accs []chain.Access) (list []Access) {
	for _, a := range accs {
		if o := Of(a); o.Lo < o.Hi {
			list = append(list, o)
		}
	}
	return list
}

// Task is a task with the memory that it declares.
type Task struct {
	Parent  *Task // nil for the first one
	Entries []*Entry
	Mark    any // for the caller

	dom   domain // of its children
	walks *walks // of the tree; nil in the first task, before it has children
}

// Entry is the combined declaration of a task for one object, or for one piece of a range.
type Entry struct {
	Access
	Task *Task
	Run  *Run

	DeclaredWeak bool // all of it was declared weak; Weak may still be false, see Child
	Held         bool // a task above holds the object, so that Commutative means InOut

	at     int     // index in the run
	whole  bool    // an object known by its address, which passes on all of its bytes at once
	left   bool    // no answer needs to name it: see Leave
	sealed uintptr // number of its bytes for which children have had its tokens: see seal
	shared bool    // other children may still ask for its tokens

	walk uint64 // number of the last walk that came here
	was  []step // steps of that walk
}

// Run is neighbours among the children of one task that run together and have the same bytes. An
// access that runs together with no other is a Run by itself.
type Run struct {
	Mark          any             // for the caller
	ExclusionSets []*ExclusionSet // of Commutative accesses; several if objects overlap

	entries []*Entry // at least one, in program order
	// predecessors; nil if the parent's access precedes it, empty if no question reaches them
	prevs   []*Run
	started bool // one of its tasks has come after all predecessors of the run
	left    int  // number of entries that have left
}

// ExclusionSet is Commutative accesses of which one at a time has the memory, in any order.
type ExclusionSet struct {
	Mark any // the caller's
}

// cell is an object, or a piece of memory with uniform accesses, among the children of one task.
type cell struct {
	lo, hi uintptr
	// the end of the chain; several if objects overlap that were known by their addresses
	last   []*Run
	own    *Entry // entry of the child that is being added
	sealed bool   // a child has had the parent's tokens: see seal
}

// domain is the memory that the children of one task use: the ends of their chains. Objects are
// known by their addresses until a child declares a range; from then on all memory is known by its
// bytes. If the memory of a task is known by its bytes, so is that of its children.
type domain struct {
	ranges  bool
	objects addrmap.Map // *cell, by the address plus one
	pieces  []*cell     // ordered, disjoint
}

// walks is shared by the walks in one tree: they are numbered, so that an entry can record which
// steps of the current walk it has seen.
type walks struct {
	last uint64
	todo []step // reused memory
}

// step is a condition that a walk has to check: of an entry, for some of its bytes.
type step struct {
	entry    *Entry
	cond     condition
	afterRun bool // the question comes from after the entry's run
	lo, hi   uintptr
}

// condition is a condition that an access waits for.
type condition uint8

const (
	nothing condition = iota
	mayRead
	mayWrite
	mayJoin
	passesRead
	isOver
)

// Find calls f for the entries of t that an access names, with the bytes that it names.
func (t *Task) Find(a Access, f func(u *Entry, lo, hi uintptr)) {
	for _, u := range t.Entries {
		if lo, hi := u.Part(a); lo < hi {
			f(u, lo, hi)
		}
	}
}

// Part returns the bytes [lo, hi) of u that an access by its task, or to the same memory, names; lo
// equals hi if there are none.
func (u *Entry) Part(a Access) (lo, hi uintptr) {
	lo, hi = max(a.Lo, u.Lo), min(a.end(), u.Hi)
	switch {
	case lo >= hi || u.whole && a.Object && u.Lo != a.Lo:
		return 0, 0
	case u.whole:
		return u.Lo, u.Hi
	}
	return lo, hi
}

// end returns the end of the access. An object has at least one byte.
func (a Access) end() uintptr {
	if a.Object {
		return max(a.Hi, a.Lo+1)
	}
	return a.Hi
}

// Holds reports whether no other task holds the object while the task of u runs, or its children
// that use the object.
func (u *Entry) Holds() bool { return kinds[u.Mode].exclusive && !u.Weak && !u.Held }

// UsesMemory reports whether the body of u's task accesses the memory. If all of the declaration is
// weak, only its children do. A task that takes part in a reduction may have weak participants
// executed in its own body.
func (u *Entry) UsesMemory() bool { return !u.DeclaredWeak || u.needs() == nothing }

// Above calls f for the entries of all tasks above that cover u, with the bytes of [lo, hi) that
// they have.
func (u *Entry) Above(lo, hi uintptr, f func(up *Entry, lo, hi uintptr)) {
	u.up(lo, hi, func(up *Entry, lo, hi uintptr) {
		f(up, lo, hi)
		up.Above(lo, hi, f)
	})
}

// needs returns the condition that u, if it is strong, waits for before its task starts.
func (u *Entry) needs() condition {
	if k := kinds[u.Mode]; !k.exclusive || !u.Held {
		return k.needs
	}
	return mayWrite
}

// waits reports whether u's task does not start before u has what it needs.
func (u *Entry) waits() bool { return !u.Weak && u.needs() != nothing }

// joinable reports whether u runs together with its neighbours of the same mode, and later accesses
// wait for all of them.
func (u *Entry) joinable() bool { return u.needs() == mayJoin }

// writes reports whether u runs together with no other access.
func (u *Entry) writes() bool { return u.needs() == mayWrite }

// joins reports whether u and the access before it belong to one run.
func (u *Entry) joins(before *Entry) bool { return before.Mode == u.Mode && u.joinable() }

// up calls f for the entries of the parent that cover u, with the bytes of [lo, hi) that they have.
func (u *Entry) up(lo, hi uintptr, f func(up *Entry, lo, hi uintptr)) {
	for _, p := range u.Task.Parent.Entries {
		switch {
		case u.whole && p.Lo == u.Lo, !u.whole && p.Lo < hi && lo < p.Hi:
			f(p, max(lo, p.Lo), min(hi, p.Hi))
		}
	}
}

func (x *Run) last() *Entry { return x.entries[len(x.entries)-1] }

// accepts reports whether u continues the run.
func (x *Run) accepts(u *Entry) bool {
	last := x.last()
	return last.Mode == u.Mode && !u.writes() && last.Lo == u.Lo && last.Hi == u.Hi && last.whole == u.whole
}

func (x *Run) add(u *Entry) {
	u.Run, u.at = x, len(x.entries)
	x.entries = append(x.entries, u)
}

// sweep removes from the run all entries that have left, except the first of them: accesses that
// come after another one of them also come after that one.
func (x *Run) sweep() {
	n, one := 0, false
	for _, u := range x.entries {
		if !u.left || !one {
			x.entries[n], u.at = u, n
			n++
		}
		one = one || u.left
	}
	clear(x.entries[n:])
	x.entries, x.left = x.entries[:n], 0
}

// joinSets adds x, a new run that contains only u, to the exclusion sets that it continues: those
// of the runs before it and of the parent. If there are none, x gets a new set.
func (x *Run) joinSets(u *Entry) {
	if !kinds[u.Mode].exclusive || u.Held {
		return
	}
	joins := func(before *Entry) {
		if !u.joins(before) {
			return
		}
	groups:
		for _, g := range before.Run.ExclusionSets {
			for _, known := range x.ExclusionSets {
				if known == g {
					continue groups
				}
			}
			x.ExclusionSets = append(x.ExclusionSets, g)
		}
	}
	for _, p := range x.prevs {
		joins(p.last())
	}
	if x.prevs == nil {
		u.up(u.Lo, u.Hi, func(up *Entry, _, _ uintptr) { joins(up) })
	}
	if x.ExclusionSets == nil {
		x.ExclusionSets = append(x.ExclusionSets, new(ExclusionSet))
	}
}

// Mode is how memory is accessed, as in package deps.
type Mode = chain.Mode

// kind describes a mode: a new mode is a new line of kinds.
type kind struct {
	// condition for a strong access, before its task starts; neighbours that may join run together
	needs     condition
	exclusive bool // of the accesses that run together, one at a time has the memory, in any order
}

var kinds = [...]kind{
	chain.ModeIn:          {needs: mayRead},
	chain.ModeOut:         {needs: mayWrite},
	chain.ModeInOut:       {needs: mayWrite},
	chain.ModeConcurrent:  {needs: mayJoin},
	chain.ModeCommutative: {needs: mayJoin, exclusive: true},
	chain.ModeReduce:      {needs: nothing}, // a private copy
}

// Waits reports whether a strong access of this mode waits for others. One that does not is not
// ordered with them until it is combined.
func Waits(m Mode) bool { return kinds[m].needs != nothing }

// Writes reports whether accesses of this mode change the memory.
func Writes(m Mode) bool { return kinds[m].needs != mayRead }

// Clash reports whether two tasks must not access the same memory in these modes at the same time.
func Clash(a, b Mode) bool { return Waits(a) && Waits(b) && (a != b || kinds[a].needs == mayWrite) }

// Grants reports whether a task that has declared own may have descendants that declare m. A task
// with exclusive access has it for its descendants, unless own is weak.
func Grants(own Mode, weak bool, m Mode) bool {
	k := kinds[own]
	return !Waits(own) || !Waits(m) || k.needs == mayWrite || own == m || k.exclusive && !weak
}
