// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

// Package pool keeps the memory of tasks that are over, for others.
package pool

import (
	"time"

	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A Pool holds free tasks that one slot had too many of and another needs: a creator runs out,
// since its tasks end on other slots. They come and go in batches. Any goroutine may call it.
//
// It keeps all that was in use together lately. While it has more than Kept, a timer looks at it
// now and then: what was not needed between two looks goes to the garbage collector.
type Pool struct {
	checked func() // constant: called after each look of the timer
	timer   xatomic.Timer
	checks  xatomic.Uint32

	mu    xatomic.Mutex
	list  []*chain.Node // +checklocks:mu
	least int           // shortest list since the last look. +checklocks:mu
	armed bool          // the timer runs. +checklocks:mu
}

// Batch is how many free tasks move at once (guess).
const Batch = 64

// Kept is how many tasks are kept for as long as the runtime lives (guess: 5 MiB).
const Kept = 256 * Batch

// lookTime is how long others are kept without use, as idle spares are (guess).
const checkTime = 2 * time.Second

// Init makes p an empty pool. looked is called after each look of the timer.
func (p *Pool) Init(looked func()) {
	p.checked = looked
	p.timer = xatomic.NewTimer(p.Check)
}

// Close stops the timer. Nobody gives or takes any more.
func (p *Pool) Close() {
	p.mu.Lock()
	p.armed = true // for good
	p.mu.Unlock()
	p.timer.Stop()
}

// Looks returns how often the timer has looked.
func (p *Pool) Checks() uint32 { return p.checks.Load() }

// The loops below are not copies: Go's own copy of pointers is what the race detector sees in lint
// mode, where it shall not see the runtime.

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

// Put takes what is in list.
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

// Look is what the timer does: it drops the tasks that nobody has needed since the last look.
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
			x.Unlink() // it may have been a neighbour of one that goes
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

// Inspect calls f with what is in the pool, which does not change meanwhile. armed: the timer runs.
// It is for tests.
func (p *Pool) Inspect(f func(list []*chain.Node, armed bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p.list, p.armed)
}
