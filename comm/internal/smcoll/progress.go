// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package smcoll

import (
	"fmt"
	"slices"
	"sync"
	"weak"
)

// Look ends what waits here and can go on, or has a reason to give up: something has gone wrong, or
// a rank of another process has news.
func (st *Segment) Progress() {
	for r := range st.members {
		if s := st.members[r].Load(); s != nil {
			s.progress()
		}
	}
}

// Late returns how many operations wait for a place.
func (st *Segment) Queued() int { return int(st.queuedAll.Load()) }

// Asleep counts the callers of this process that sleep here. version changes with what happens.
func (st *Segment) Asleep() (n int, version uint64) {
	st.each(func(s *Member, p *cell, state uint64) {
		if phase(state&(1<<phaseBits-1)) == asleep {
			n++
		}
		version += state
	})
	return n, version
}

// Waiting calls f for what waits here, with its host and a text.
func (st *Segment) Waiting(f func(h Host, text string)) {
	st.each(func(s *Member, p *cell, _ uint64) {
		s.hist.Mu.Lock() // so that the place is not filled anew
		state, what := p.state.Load(), p.what
		s.hist.Mu.Unlock()
		if seq := state >> phaseBits; state == stateOf(seq, passive) || state == stateOf(seq, asleep) {
			f(s.host, fmt.Sprintf("rank %d in %v number %d", s.missing(seq), what, seq))
		}
	})
}

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

// Segments are all stages of a run: a failure ends what waits at them.
type Segments struct {
	mu      sync.Mutex
	pending map[key]*pendingSegment // guarded by mu: not all of their ranks have asked yet
	// guarded by mu: those of communicators that were collected are nil
	all []weak.Pointer[Segment]
}

// key names a communicator in a run: its context, and its first rank in the run, because all
// colours of a split share a context.
type key struct {
	ctx   uint64
	first int32
}

type pendingSegment struct {
	segment *Segment
	asked   int
}

// Heap returns the stage of a communicator that has all its ranks in this process. Each of them
// asks once.
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

// Add has a stage of one rank looked at, too.
func (g *Segments) Add(st *Segment) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.push(st)
}

// push remembers a stage. When the list is full it is swept first, so that it stays in proportion
// to what is alive. The caller holds mu.
func (g *Segments) push(st *Segment) {
	if len(g.all) == cap(g.all) {
		g.all = slices.DeleteFunc(g.all, func(p weak.Pointer[Segment]) bool { return p.Value() == nil })
		if 2*len(g.all) > cap(g.all) {
			g.all = slices.Grow(g.all, len(g.all)+8)
		}
	}
	g.all = append(g.all, weak.Make(st))
}

// All returns those that are alive.
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

// Look is Look of all.
func (g *Segments) Progress() {
	for _, st := range g.All() {
		st.Progress()
	}
}
