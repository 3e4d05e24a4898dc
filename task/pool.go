// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"weft/internal/xatomic"
	"weft/task/internal/sched"
)

// pool holds free tasks that one slot had too many of and another
// needs: a creator runs out, since its tasks end on other slots. They come and go in batches.
//
// It keeps all that was in use together lately. While it has more than poolKept, a timer looks at it now and
// then: what was not needed between two looks goes to the garbage collector.
type pool struct {
	rt    *Runtime
	timer timer
	looks xatomic.Uint32 // of the timer; see slot.shrink

	mu    xatomic.Mutex
	list  []*Task // +checklocks:mu
	least int     // shortest list since the last look. +checklocks:mu
	armed bool    // the timer runs. +checklocks:mu
}

const (
	poolKept = 256 * batch     // tasks that are kept for as long as the runtime lives (guess: 5 MiB)
	poolLook = 2 * time.Second // time without use after which others go, as idle spares do (guess)
)

func (p *pool) init(rt *Runtime) {
	p.rt = rt
	p.timer = newTimer(p.look)
}

// close stops the timer. The slots have ended.
func (p *pool) close() {
	p.mu.Lock()
	p.armed = true // for good
	p.mu.Unlock()
	p.timer.stop()
}

// The loops below are not copies: Go's own copy of pointers is what the race detector sees in lint mode, where it shall not see the runtime.

// get moves a batch to the end of list, if there is one.
func (p *pool) get(list []*Task) []*Task {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) < batch {
		return list
	}
	for range batch {
		last := len(p.list) - 1
		list = append(list, p.list[last])
		p.list[last] = nil
		p.list = p.list[:last]
	}
	p.least = min(p.least, len(p.list))
	return list
}

// put takes what is in list.
func (p *pool) put(list []*Task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, t := range list {
		p.list = append(p.list, t)
		list[i] = nil
	}
	if len(p.list) > poolKept && !p.armed {
		p.armed, p.least = true, 0
		p.timer.start(poolLook)
	}
}

// look drops the tasks that nobody has needed since the last look.
func (p *pool) look() {
	p.mu.Lock()
	n := max(min(p.least, len(p.list)-poolKept), 0)
	if n > 0 {
		kept := make([]*Task, 0, len(p.list)-n)
		for i, t := range p.list { // the coldest are first
			if i < n {
				t.node.Drop()
				continue
			}
			t.node.Unlink() // it may have been a neighbour of one that goes
			kept = append(kept, t)
		}
		p.list = kept
	}
	p.least = len(p.list)
	if p.armed = len(p.list) > poolKept; p.armed {
		p.timer.start(poolLook)
	}
	p.mu.Unlock()
	p.looks.Add(1)
	rt := p.rt
	rt.sched.EachParked(func(s *sched.Slot) { rt.slots.all[s.ID].shrink() })
}
