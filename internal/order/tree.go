// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

import (
	"weft/internal/addrmap"
	"weft/internal/chain"
)

// Access is what a task declares of some memory: an object, which is known by its address Lo, or a
// range of bytes.
type Access struct {
	Lo, Hi uintptr
	Object bool
	Mode   Mode
	Weak   bool

	Keeps chain.Access // keeps the memory alive while the use is in the tree; may be zero
}

// Of returns what an access of package deps says.
func Of(a chain.Access) Access {
	lo, hi, slice := a.Memory()
	return Access{lo, hi, !slice, a.Mode(), a.IsWeak(), a}
}

// List returns what the accesses say that have memory.
func List(accs []chain.Access) (list []Access) {
	for _, a := range accs {
		if o := Of(a); o.Lo < o.Hi {
			list = append(list, o)
		}
	}
	return list
}

// Task is a task, as far as its memory goes.
type Task struct {
	Parent  *Task // nil for the first one
	Entries []*Entry
	Mark    any // the caller's

	dom   domain // of its children
	walks *walks // of the tree; nil in the first task, before it has children
}

// Use is what a task has declared of an object, or of a piece of a range, in all its accesses to
// it.
type Entry struct {
	Access
	Task *Task
	Run  *Run

	DeclaredWeak bool // all of it was declared weak, though Weak may be false: see Child
	Held         bool // a task above holds the object: Commutative is InOut then

	at     int     // its place in the run
	whole  bool    // it is known by its address, and passes on all of its bytes at once
	left   bool    // nobody is to hear of it: see Leave
	sealed uintptr // of how many of its bytes children have had what it may: see seals
	shared bool    // others may still ask for that

	walk uint64 // the last one that has come here
	was  []step // where it has been
}

// Run is neighbours among the children of one task that go together and have the same bytes. A use
// that goes together with no other is a run by itself.
type Run struct {
	Mark          any             // the caller's
	ExclusionSets []*ExclusionSet // of Commutative uses: those that it belongs to; several where objects overlap

	entries []*Entry // one at least, in their order
	prevs   []*Run   // before it; nil if the parent comes before it, empty if nobody asks any more
	started bool     // of a group: one of its tasks has come after all that is before the group
	left    int      // how many of the uses have left
}

// Group is Commutative uses of which one at a time has the memory, in any order.
type ExclusionSet struct {
	Mark any // the caller's
}

// cell is an object, or a piece of memory that is used alike, among the children of one task.
type cell struct {
	lo, hi uintptr
	// the end of the chain; several where objects overlap that were known by their addresses
	last   []*Run
	own    *Entry // of the child that is being added
	sealed bool   // a child has had what the parent may: see seals
}

// domain is what the children of one task use: chains, of which it has the ends. Objects are known
// by their addresses, until a child declares a range; from then on all is known by its bytes. A
// task that is known by its bytes has children that are.
type domain struct {
	ranges  bool
	objects addrmap.Map // *cell, by the address plus one
	pieces  []*cell     // in order, apart
}

// walks is what the walks in one tree share: they are numbered, so that a use can say which step it
// has seen in this one.
type walks struct {
	last uint64
	todo []step // memory
}

// step is a place on the way: a use, what is asked of it, and for which of its bytes.
type step struct {
	entry    *Entry
	cond     condition
	afterRun bool // what asks comes after all of the use's group
	lo, hi   uintptr
}

// what is what a use waits for.
type condition uint8

const (
	nothing condition = iota
	mayRead
	mayWrite
	mayJoin
	passesRead
	isOver
)

// Find calls f for the uses of t that an access is about, with the bytes of it that they have.
func (t *Task) Find(a Access, f func(u *Entry, lo, hi uintptr)) {
	for _, u := range t.Entries {
		if lo, hi := u.Part(a); lo < hi {
			f(u, lo, hi)
		}
	}
}

// Part returns which bytes of u an access by its task, or to the same memory, is about; none if lo
// is hi.
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

// end returns where the access ends. An object has a byte at least.
func (a Access) end() uintptr {
	if a.Object {
		return max(a.Hi, a.Lo+1)
	}
	return a.Hi
}

// Holds: while the task of u runs, and its children that use the object, no other holder of it
// does.
func (u *Entry) Holds() bool { return kinds[u.Mode].exclusive && !u.Weak && !u.Held }

// Touches: the body of u's task uses the memory. If all that it declares is weak, only its children
// do; but a task that takes part in a reduction may have some of them in itself.
func (u *Entry) UsesMemory() bool { return !u.DeclaredWeak || u.needs() == nothing }

// Above calls f for the uses of the tasks above that u is under, with the bytes of lo to hi that
// they have.
func (u *Entry) Above(lo, hi uintptr, f func(up *Entry, lo, hi uintptr)) {
	u.up(lo, hi, func(up *Entry, lo, hi uintptr) {
		f(up, lo, hi)
		up.Above(lo, hi, f)
	})
}

// needs is what u, if it is strong, waits for before its task starts.
func (u *Entry) needs() condition {
	if k := kinds[u.Mode]; !k.exclusive || !u.Held {
		return k.needs
	}
	return mayWrite
}

// waits: u's task does not start before u has what it needs.
func (u *Entry) waits() bool { return !u.Weak && u.needs() != nothing }

// groups: u goes together with its neighbours of the same mode, and later ones wait for all of
// them.
func (u *Entry) joinable() bool { return u.needs() == mayJoin }

// writes: u goes together with no other.
func (u *Entry) writes() bool { return u.needs() == mayWrite }

// joins: u and the one before it belong to one group.
func (u *Entry) joins(before *Entry) bool { return before.Mode == u.Mode && u.joinable() }

// up calls f for the uses of the parent that u is under, with the bytes of lo to hi that they have.
func (u *Entry) up(lo, hi uintptr, f func(up *Entry, lo, hi uintptr)) {
	for _, p := range u.Task.Parent.Entries {
		switch {
		case u.whole && p.Lo == u.Lo, !u.whole && p.Lo < hi && lo < p.Hi:
			f(p, max(lo, p.Lo), min(hi, p.Hi))
		}
	}
}

func (x *Run) last() *Entry { return x.entries[len(x.entries)-1] }

// takes: u is one more of the run.
func (x *Run) accepts(u *Entry) bool {
	last := x.last()
	return last.Mode == u.Mode && !u.writes() && last.Lo == u.Lo && last.Hi == u.Hi && last.whole == u.whole
}

func (x *Run) add(u *Entry) {
	u.Run, u.at = x, len(x.entries)
	x.entries = append(x.entries, u)
}

// sweep takes those out of the run that have left, but the first of them: what comes after some of
// the others too comes after that one.
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

// joinGroups makes x, a new run in which u is alone, belong to the groups that it goes on with, of
// those before it and of the parent, or to one of its own.
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

// Mode is how memory is used, as package deps has it.
type Mode = chain.Mode

// kind is what there is to say of a mode: the case of a new one is a line of kinds.
type kind struct {
	// of a strong use, before its task starts; those that may join go together with their
	// neighbours
	needs     condition
	exclusive bool // of those that go together, one at a time has the memory, in any order
}

var kinds = [...]kind{
	chain.ModeIn:          {needs: mayRead},
	chain.ModeOut:         {needs: mayWrite},
	chain.ModeInOut:       {needs: mayWrite},
	chain.ModeConcurrent:  {needs: mayJoin},
	chain.ModeCommutative: {needs: mayJoin, exclusive: true},
	chain.ModeReduce:      {needs: nothing}, // a copy of its own
}

// Waits reports whether a strong use of this mode waits for others. One that does not is in no
// order with them until it is combined.
func Waits(m Mode) bool { return kinds[m].needs != nothing }

// Writes reports whether uses of this mode change the memory.
func Writes(m Mode) bool { return kinds[m].needs != mayRead }

// Clash reports whether two tasks must not use the same memory at one time in these modes.
func Clash(a, b Mode) bool { return Waits(a) && Waits(b) && (a != b || kinds[a].needs == mayWrite) }

// Grants reports whether a task that has declared own may have descendants that declare m. Who has
// memory alone has it for its descendants, unless own is weak.
func Grants(own Mode, weak bool, m Mode) bool {
	k := kinds[own]
	return !Waits(own) || !Waits(m) || k.needs == mayWrite || own == m || k.exclusive && !weak
}
