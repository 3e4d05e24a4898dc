// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"weft/internal/xatomic"
)

// Node is somebody who wants to know of the completion of a request: a callback or a waiting
// goroutine.
type Node struct {
	Next *Node
	Func func(error)   // nil: a goroutine waits
	Ch   chan struct{} // for it; capacity 1, at most one token per registration
}

// Wake gives a waiting goroutine its token. It never blocks: one channel may stand in several
// lists, of which one token is enough.
func (n *Node) Wake() {
	select {
	case n.Ch <- struct{}{}:
	default:
	}
}

// Set is the trampolines of a job. Any goroutine may use it.
type Set struct{ all []Trampoline }

// NewSet returns a set for so many processors.
func NewSet(processors int) *Set {
	n := minStripes
	for n < 2*processors {
		n *= 2
	}
	return &Set{make([]Trampoline, n)}
}

const minStripes = 8 // a power of two, as all numbers of them

// Run calls the callbacks of the list, now or soon, with the error. No lock is held while they run.
func (s *Set) Run(list *Node, err error) { s.all[stripe(len(s.all))].run(list, err) }

// Trampoline bounds the depth of callbacks.
type Trampoline struct {
	active  xatomic.Int32 // calls of run under way
	waiting xatomic.Int32 // lists in backlog
	mu      xatomic.Mutex
	backlog []deferred // guarded by mu: what has found depthLimit active
	_       [64]byte   // they do not share a cache line
}

// deferred is a list of callbacks and what they are to be told.
type deferred struct {
	list *Node
	err  error
}

// enter makes the caller active, if there is room. (R1)
func (t *Trampoline) enter() bool {
	for n := t.active.Load(); n < depthLimit; n = t.active.Load() {
		if t.active.CompareAndSwap(n, n+1) { //bug:R1
			return true
		}
	}
	return false
}

func (t *Trampoline) run(list *Node, err error) {
	if t.waiting.Load() > 0 || !t.enter() { // behind what waits
		t.mu.Lock()
		t.backlog = append(t.backlog, deferred{list, err})
		t.waiting.Add(1) // R2
		t.mu.Unlock()
		if !t.enter() { //bug:R3
			return
		}
		list = nil
	}
	t.work(list, err)
}

// work runs callbacks until there are none left, then gives up the active place. If one panics, the
// others still run before the panic goes on.
func (t *Trampoline) work(list *Node, err error) {
	calling := false
	defer func() {
		if calling {
			t.work(list, err)
		}
	}()
	for {
		for list != nil {
			n := list
			list = n.Next
			calling = true
			n.Func(err)
			calling = false
		}
		if d, some := t.next(); some {
			list, err = d.list, d.err
			continue
		}
		t.active.Add(-1)                         //bug:L1
		if t.waiting.Load() == 0 || !t.enter() { //bug:L2
			return
		}
	}
}

// next takes what waits longest: what was deferred goes in the order in which it was completed.
func (t *Trampoline) next() (d deferred, some bool) {
	if t.waiting.Load() == 0 {
		return d, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.backlog) == 0 {
		return d, false
	}
	d = t.backlog[0]
	t.backlog[0] = deferred{}
	if t.backlog = t.backlog[1:]; len(t.backlog) == 0 {
		t.backlog = nil // what it has grown to is not kept
	}
	t.waiting.Add(-1)
	return d, true
}
