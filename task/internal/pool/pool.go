// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package pool keeps the memory of tasks that are over for new tasks.
package pool

import (
	"time"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A Pool passes free tasks from slots that have too many to slots that need some: a creator runs
// out of free tasks if its tasks end on other slots. Free tasks move in batches. Any goroutine may
// call it.
//
// The pool keeps as many free tasks as were in use at one time recently. While it has more than
// Kept, a timer checks it periodically, and tasks that were not needed between two checks go to the
// garbage collector.
type Pool struct {
	checked func() // constant: called after each check by the timer
	timer   xatomic.Timer
	checks  xatomic.Uint32

	mu    xatomic.Mutex
	list  []*chain.Node // +checklocks:mu
	least int           // shortest list since the last check. +checklocks:mu
	armed bool          // the timer runs. +checklocks:mu
}

// Batch is how many free tasks move at once (guess).
const Batch = 64

// Kept is how many free tasks are kept until the runtime is closed (guess: 5 MiB).
const Kept = 256 * Batch

// checkTime is how long other free tasks are kept without use, as long as idle spares (guess).
const checkTime = 2 * time.Second

// Init makes p an empty pool. checked is called after each check by the timer.
func (p *Pool) Init(checked func()) {
	p.checked = checked
	p.timer = xatomic.NewTimer(p.Check)
}

// Close stops the timer. Precondition: no goroutine calls Get or Put any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.armed = true // so Put does not start it
	p.mu.Unlock()
	p.timer.Stop()
}

// Checks returns how many times the timer has checked the pool.
func (p *Pool) Checks() uint32 { return p.checks.Load() }

// The loops below do not use copy: in lint mode the race detector sees Go's own copy of pointers,
// and must not see the runtime.

// Get moves a batch to the end of list, if there is one.
func (p *Pool) Get(list []*chain.Node) []*chain.Node {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < Batch {
		return list
	}
	all, left := p.list, len(p.list)-Batch
	for i := len(all) - 1; i >= left; i-- {
		list = append(list, all[i])
		all[i] = nil
	}
	p.list, p.least = all[:left], min(p.least, left)
	return list
}

// Put takes the free tasks in list, and clears list.
func (p *Pool) Put(list []*chain.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.list
	for i, n := range list {
		all = append(all, n)
		list[i] = nil
	}
	p.list = all
	if len(p.list) > Kept && !p.armed {
		p.armed, p.least = true, 0
		p.timer.Start(checkTime)
	}
}

// Check is the timer's function. It drops the tasks that were not needed since the last check.
func (p *Pool) Check() {
	p.mu.Lock()
	n := max(min(p.least, len(p.list)-Kept), 0)
	if n > 0 {
		left := make([]*chain.Node, 0, len(p.list)-n)
		for i, x := range p.list { // the coldest are first
			if i < n {
				x.Drop()
				continue
			}
			x.Unlink() // it may have been a neighbour of a dropped task
			left = append(left, x)
		}
		p.list = left
	}
	p.least = len(p.list)
	if p.armed = len(p.list) > Kept; p.armed {
		p.timer.Start(checkTime)
	}
	p.mu.Unlock()
	p.checks.Add(1)
	p.checked()
}

// Inspect calls f with the free tasks in the pool, which does not change meanwhile. armed: the
// timer runs. It is for tests.
func (p *Pool) Inspect(f func(list []*chain.Node, armed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.list, p.armed)
}
