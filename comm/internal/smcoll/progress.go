// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"
	"slices"
	"sync"
	"weak"
)

// Progress ends all waiting operations that have what they need, or have a reason to give up. It is
// called after a failure, and when a rank of another process has sent a nudge.
func (st *Segment) Progress() {
	for r := range st.members {
		if s := st.members[r].Load(); s != nil {
			s.progress()
		}
	}
}

// Queued returns how many operations of all ranks wait for a cell.
func (st *Segment) Queued() int { return int(st.queuedAll.Load()) }

// Asleep counts the callers of this process that sleep in a collective. version changes with each
// change of a cell of these ranks.
func (st *Segment) Asleep() (n int, version uint64) {
	st.each(func(s *Member, p *cell, state uint64) {
		if phase(state&(1<<phaseBits-1)) == asleep {
			n++
		}
		version += state
	})
	return n, version
}

// Waiting calls f for each waiting operation, with its host and a description.
func (st *Segment) Waiting(f func(h Host, text string)) {
	st.each(func(s *Member, p *cell, _ uint64) {
		s.hist.Mu.Lock() // keeps the cell from being filled again
		state, what := p.state.Load(), p.what
		s.hist.Mu.Unlock()
		if seq := state >> phaseBits; state == stateOf(seq, passive) || state == stateOf(seq, asleep) {
			f(s.host, fmt.Sprintf("rank %d in %v number %d", s.missing(seq), what, seq))
		}
	})
}

// each calls f for each cell of the ranks of this process.
func (st *Segment) each(f func(s *Member, p *cell, state uint64)) {
	for r := range st.members {
		if s := st.members[r].Load(); s != nil && s.pin() {
			for i := range Width {
				p := &s.row.cells[i]
				f(s, p, p.state.Load())
			}
			s.unpin()
		}
	}
}

// Segments has all segments of a run, so that a failure can end the operations that wait in them.
type Segments struct {
	mu      sync.Mutex
	pending map[key]*pendingSegment // guarded by mu: segments that not all of their ranks have got
	// Guarded by mu: pointers are nil after the garbage collector has freed the segment.
	all []weak.Pointer[Segment]
}

// key identifies a communicator in a run: its context, and the rank in the run of its first member.
// The context alone is not enough, since all colours of a split share it.
type key struct {
	ctx   uint64
	first int32
}

type pendingSegment struct {
	segment *Segment
	asked   int
}

// Heap returns the segment of a communicator whose ranks are all in this process. Each rank calls
// Heap once.
func (g *Segments) Heap(ctx uint64, first int32, size int) *Segment {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := key{ctx, first}
	f := g.pending[k]
	if f == nil {
		f = &pendingSegment{segment: newSegment(size, false)}
		if g.pending == nil {
			g.pending = map[key]*pendingSegment{}
		}
		g.pending[k] = f
		g.push(f.segment)
	}
	if f.asked++; f.asked == size {
		delete(g.pending, k)
	}
	return f.segment
}

// Add adds a mapped segment, which is one rank's.
func (g *Segments) Add(st *Segment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.push(st)
}

// push adds a segment to the list. If the list is full, push first removes segments that are gone,
// so that the list stays in proportion to those that exist. The caller holds mu.
func (g *Segments) push(st *Segment) {
	if len(g.all) == cap(g.all) {
		g.all = slices.DeleteFunc(g.all, func(p weak.Pointer[Segment]) bool { return p.Value() == nil })
		if 2*len(g.all) > cap(g.all) {
			g.all = slices.Grow(g.all, len(g.all)+8)
		}
	}
	g.all = append(g.all, weak.Make(st))
}

// All returns the segments that still exist.
func (g *Segments) All() (all []*Segment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.all {
		if st := p.Value(); st != nil {
			all = append(all, st)
		}
	}
	return all
}

// Progress calls [Segment.Progress] of all segments.
func (g *Segments) Progress() {
	for _, st := range g.All() {
		st.Progress()
	}
}
