// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package coll

import (
	"slices"
	"sync"
	"weak"
)

// Known finds the communicators of a rank by their contexts, as long as anybody has them. 0 is that
// of all ranks.
type Known[C any] struct {
	mu    sync.Mutex
	first *C                         // guarded by mu: of all ranks
	all   map[uint64]weak.Pointer[C] // guarded by mu: the others
	sweep int                        // guarded by mu: the size at which all is swept
	// guarded by mu: of communicators that this rank has not made yet, perhaps
	early []early
	// guarded by mu: the last ones made, which are compared though nobody has them any more
	late [LateComms]*C
	made int // guarded by mu: communicators made
}

// LateComms bounds what the program has let go of and the run keeps (guess): a function makes a
// communicator, or two, uses it and forgets it.
const LateComms = 4

// early is a question about a communicator that is not known here.
type early struct {
	ctx uint64
	Question
}

// maxEarly bounds them: those of communicators that nobody has any more stay.
const maxEarly = 64

// Add makes a communicator known, and returns the questions that have waited for it.
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
		s.late[s.made%LateComms] = c
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

// Find returns a communicator, or nil and keeps the question, if there is one that can wait.
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

// Living returns all of them.
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
