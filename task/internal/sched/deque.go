// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package sched

import (
	"weft/internal/chain"
	"weft/internal/xatomic"
)

// A deque is a Chase–Lev work-stealing deque. Its owner, the holder of the slot, pushes and pops at
// the bottom; thieves steal at the top. README.md has the protocol, and the bad schedules that its
// order prevents.
type deque struct {
	_      pad
	top    xatomic.Int64 // next to steal; only grows
	_      pad
	bottom xatomic.Int64         // next free cell; written by the owner
	buf    xatomic.Pointer[ring] // written by the owner
	seen   int64                 // top as the owner last read it; a lower bound. Owner only
	own    int64                 // how many times the owner has moved top. Owner only
	_      pad
}

type pad [64]byte

// A ring is a circular array of tasks; its length is a power of two.
type ring struct {
	cells []cell
	mask  int64
}

const (
	ringMin = 256 // tasks (guess: of the live tasks seldom more are ready)
	deep    = 128 // tasks: the lines of fewer tasks fit a first cache of 48 KiB
)

func newRing(n int64) *ring { return &ring{make([]cell, n), n - 1} }

func (d *deque) init(n int64) { d.buf.Store(newRing(n)) }

// push adds n at the bottom. Owner only.
func (d *deque) push(n *chain.Node) {
	b := d.bottom.Load()
	r := d.buf.Load()
	if b-d.seen > r.mask {
		// Full by an old top: only now read the line that thieves write.
		if d.seen = d.top.Load(); b-d.seen > r.mask {
			r = d.grow(r, b)
		}
	}
	r.cells[b&r.mask].store(n) //bug:D1
	d.bottom.Store(b + 1)      //bug:D1
}

// grow doubles the ring. Thieves that still have the old ring find the same tasks there: no cell of
// it is written again.
func (d *deque) grow(r *ring, b int64) *ring {
	n := newRing(2 * (r.mask + 1))
	for i := d.top.Load(); i < b; i++ { //bug:grow
		n.cells[i&n.mask].store(r.cells[i&r.mask].load())
	}
	d.buf.Store(n)
	return n
}

// shrink replaces the ring by a small one if the deque is empty. Owner only. A thief that read top
// and bottom before may then read an empty cell of the small ring; but the task that it wanted has
// been taken, so its CAS of top fails.
func (d *deque) shrink() {
	if len(d.buf.Load().cells) > ringMin && d.empty() {
		d.init(ringMin)
	}
}

// pop takes the newest task; nil if there is none. Owner only.
func (d *deque) pop() *chain.Node {
	b := d.bottom.Load() - 1
	if d.top.Load() > b {
		return nil // empty, and only the owner could change that
	}
	d.bottom.Store(b) // announce: thieves must not take b without a contest //bug:D3
	t := d.top.Load() //bug:D3
	if t > b {        //bug:empty
		d.bottom.Store(b + 1)
		return nil
	}
	r := d.buf.Load()
	x := r.cells[b&r.mask].load()
	switch {
	case t == b:
		// The last task: a thief may try to take it too.
		if d.top.CompareAndSwap(t, t+1) { //bug:last
			d.own++
		} else {
			x = nil
		}
		d.bottom.Store(b + 1)
	case b-t >= deep && t == d.own:
		// No thief has come yet, so the next pop returns the task beneath. With thieves the
		// prefetch would cost more than it saves: a thief needs the same lines.
		r.cells[(b-1)&r.mask].prefetch()
	}
	return x
}

// steal takes the oldest task. It returns nil and false if there is none, nil and true if another
// thief or the owner was faster.
func (d *deque) steal() (x *chain.Node, lost bool) {
	t := d.top.Load()    //bug:D5
	b := d.bottom.Load() //bug:D5
	if t >= b {
		return nil, false
	}
	r := d.buf.Load()
	x = r.cells[t&r.mask].load()
	if !d.top.CompareAndSwap(t, t+1) { //bug:D7
		return nil, true
	}
	return x, false
}

// empty reports whether there was nothing to steal. Any goroutine may call it.
func (d *deque) empty() bool { return d.top.Load() >= d.bottom.Load() }
