// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package callback

import (
	"weft/internal/xatomic"
)

// Node is a callback of a request, or a goroutine that waits for the request.
type Node struct {
	Next *Node
	Func func(error)   // the callback; nil: a goroutine waits
	Ch   chan struct{} // of a waiting goroutine; capacity 1, at most one token per registration
}

// Wake gives a waiting goroutine its token. It never blocks: one channel may be in several lists,
// and one token is enough for all.
func (n *Node) Wake() {
	select {
	case n.Ch <- struct{}{}:
	default:
	}
}

// Set has the trampolines of a job. Any goroutine may use it.
type Set struct{ all []Trampoline }

// NewSet returns a set for a number of processors.
func NewSet(processors int) *Set {
	n := minStripes
	for n < 2*processors {
		n *= 2
	}
	return &Set{make([]Trampoline, n)}
}

const minStripes = 8 // a power of two, as all sizes of sets are

// Run calls the callbacks of a list with an error, now or soon. No lock is held while they run.
func (s *Set) Run(list *Node, err error) { s.all[stripe(len(s.all))].run(list, err) }

// Trampoline bounds the depth of callbacks.
type Trampoline struct {
	active   xatomic.Int32 // calls of run under way
	deferred xatomic.Int32 // length of backlog
	mu       xatomic.Mutex
	backlog  []deferredList // guarded by mu: lists that found depthLimit calls active
	_        [64]byte       // trampolines share no cache line
}

// deferredList is a list of callbacks, and the error for them.
type deferredList struct {
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
	if t.deferred.Load() > 0 || !t.enter() { // lists in the backlog go first
		t.mu.Lock()
		t.backlog = append(t.backlog, deferredList{list, err})
		t.deferred.Add(1) // R2
		t.mu.Unlock()
		if !t.enter() { //bug:R3
			return
		}
		list = nil
	}
	t.work(list, err)
}

// work runs callbacks until none are left, and then makes the caller inactive. If a callback
// panics, the others still run before the panic goes on.
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
		t.active.Add(-1)                          //bug:L1
		if t.deferred.Load() == 0 || !t.enter() { //bug:L2
			return
		}
	}
}

// next takes the oldest list from the backlog.
func (t *Trampoline) next() (d deferredList, some bool) {
	if t.deferred.Load() == 0 {
		return d, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.backlog) == 0 {
		return d, false
	}
	d = t.backlog[0]
	t.backlog[0] = deferredList{}
	if t.backlog = t.backlog[1:]; len(t.backlog) == 0 {
		t.backlog = nil // frees the array
	}
	t.deferred.Add(-1)
	return d, true
}
