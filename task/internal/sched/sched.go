// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package sched is the scheduler of package task: it says which task a slot runs next, and puts slots
// without work to sleep. A task is a node of the dependency engine here, and ready; what a task is
// besides, and how it is run, the runtime knows.
//
// Ready tasks are in four places. Each slot has a deque: the slot works at one end, and others steal
// from the other. One queue is for tasks that a goroutine without a slot has made ready. Two are for
// tasks with a priority, above zero and below. README.md has the protocols of the deque and of idle
// slots.
package sched

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A Scheduler distributes ready tasks among slots. Unless a method says otherwise, any goroutine may
// call it.
type Scheduler struct {
	// Constant after Init.
	host   Host
	rounds int
	slots  []*Slot

	holders holders
	idle    idle
	inject  inject
	high    prioQueue // priority above zero: before everything else
	low     prioQueue // below zero: when there is nothing else
}

// A Host is the runtime whose tasks are scheduled. The holder of a slot calls it, and holds no lock.
type Host interface {
	// Poll looks for what completes tasks. It reports whether there is anything to poll, so that
	// it is worth a longer look before the slot parks.
	Poll(s *Slot) bool

	// Stole tells that s has stolen taken tasks from another slot, and is about to run the oldest of
	// them.
	Stole(s, from *Slot, oldest *chain.Node, taken int)

	// Parks tells that s is about to sleep, if all: as the last of all slots; and Unparks that it is
	// awake.
	Parks(s *Slot, all bool)
	Unparks(s *Slot)

	// Wakes tells that a slot has left the list of those that are parked. Any goroutine may call it.
	Wakes()
}

// A Slot is the right to run tasks. Exactly one goroutine holds it at a time. Unless a method says
// otherwise, only the holder may call it.
type Slot struct {
	// Constant after Init.
	q  *Scheduler
	ID int

	// Owned by the holder.
	Next    *chain.Node // runs next, past the queue
	tick    uint32
	turn    uint32 // successors that ran next since the last look at what waits
	rng     rand.PCG
	hunting bool // counted in idle.hunting

	_     pad
	g     atomic.Uintptr        // goroutine that holds the slot; written by it
	cell  *atomic.Pointer[Slot] // place in holders; guarded by holders.mu
	deque deque
	sema  sleeper // of the holder when it is parked
}

// A View is what anybody may see of a slot. It changes when the slot takes or queues a task of its own, and
// when another goroutine takes it.
type View struct {
	top, bottom int64
	holder      uintptr
}

// idle is where slots without work go. README.md, "Idle slots", has the protocol;
// the numbers in the code are its steps.
type idle struct {
	_       pad
	hunting xatomic.Int32 // slots that look for work
	parked  xatomic.Int32 // slots in list
	_       pad
	mu      xatomic.Mutex
	list    []*Slot // +checklocks:mu
	closed  bool    // +checklocks:mu
	parks   uint64  // how often a slot was put into list. +checklocks:mu
}

// holders finds the slot that a goroutine holds. It is a table with one cell for each slot,
// placed by the holder's identity. A goroutine only ever asks for itself, and
// only it can make slot.g its own identity, so an entry that matches is true.
type holders struct {
	tab  []atomic.Pointer[Slot]
	mask uintptr
	far  atomic.Uintptr // longest distance of an entry from its home; only grows
	mu   sync.Mutex     // orders changes
}
