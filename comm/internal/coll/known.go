// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"slices"
	"sync"
	"weak"
)

// Known finds the communicators of a rank by their contexts, as long as they are reachable. Context
// 0 is the communicator of all ranks.
type Known[C any] struct {
	mu    sync.Mutex
	first *C                         // guarded by mu: the communicator of all ranks
	all   map[uint64]weak.Pointer[C] // guarded by mu: the others
	sweep int                        // guarded by mu: the size at which all is swept
	// Guarded by mu: about communicators that this rank may not have made yet.
	early []early
	// Guarded by mu: the last ones made; they are compared even if the program has dropped them.
	recent [RecentComms]*C
	made   int // guarded by mu: communicators made
}

// RecentComms is how many communicators a run keeps after the program has dropped them. A guess: a
// function makes one communicator or two, uses them and drops them.
const RecentComms = 4

// early is a question about a communicator that is not known at this rank.
type early struct {
	ctx uint64
	Question
}

// maxEarly bounds the early questions: those about dropped communicators are never removed.
const maxEarly = 64

// Add adds a communicator, and returns the early questions about it.
func (s *Known[C]) Add(ctx uint64, c *C) (asked []Question) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx == 0 {
		s.first = c
	} else {
		if len(s.all) >= s.sweep {
			for ctx, p := range s.all {
				if p.Value() == nil {
					delete(s.all, ctx)
				}
			}
			s.sweep = 2*len(s.all) + 8
		}
		if s.all == nil {
			s.all = map[uint64]weak.Pointer[C]{}
		}
		s.all[ctx] = weak.Make(c)
		s.recent[s.made%RecentComms] = c
		s.made++
	}
	s.early = slices.DeleteFunc(s.early, func(e early) bool {
		if e.ctx == ctx {
			asked = append(asked, e.Question)
		}
		return e.ctx == ctx
	})
	return asked
}

// Find returns a communicator. If it is not known, Find returns nil and keeps the question, if q is
// not nil and not certain.
func (s *Known[C]) Find(ctx uint64, q *Question) *C {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.first
	if ctx != 0 {
		c = s.all[ctx].Value()
	}
	if c == nil && q != nil && !q.Certain {
		if len(s.early) == maxEarly {
			s.early = slices.Delete(s.early, 0, 1)
		}
		s.early = append(s.early, early{ctx, *q})
	}
	return c
}

// Living returns all communicators that are reachable.
func (s *Known[C]) Living() []*C {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []*C{s.first}
	for _, p := range s.all {
		if c := p.Value(); c != nil {
			all = append(all, c)
		}
	}
	return all
}
