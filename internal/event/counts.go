// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Sampler decides which tasks of a writer are recorded, where not all are (Options.Sample), and counts the others by where they come from.
// It belongs to one writer at a time; Skipped may be called by anybody.
type Sampler struct {
	// Constant after construction.
	names *Names
	every uint64

	// Owned by the writer.
	left uint64 // tasks until the next one that is recorded
	rng  rand.PCG

	mu    sync.Mutex // of the writer when it changes the origin of a cell, and of readers
	cells [counted]countCell
	old   map[uint32]uint64 // of origins that have no cell any more. +checklocks:mu
}

// counted is how many origins are counted without a lock (guess: more than programs have that spawn often).
const counted = 64

type countCell struct {
	origin Origin // read by the writer alone
	spec   uint32 // +checklocks:Sampler.mu
	n      atomic.Uint64
}

// Sampler returns a new sampler for a writer; nil if all tasks are recorded.
func (r *Recorder) Sampler() *Sampler {
	if r.sample <= 1 {
		return nil
	}
	s := &Sampler{names: &r.names, every: uint64(r.sample), rng: *rand.NewPCG(rand.Uint64(), rand.Uint64())}
	s.left = 1 + s.rng.Uint64()%s.every
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samplers = append(r.samplers, s)
	return s
}

// Take reports whether the next task is to be recorded. The gaps between those that are have all lengths from 1 to twice the mean,
// by chance, so that no pattern of the program's hides from them.
func (s *Sampler) Take() bool {
	if s.left--; s.left > 0 {
		return false
	}
	s.left = 1 + s.rng.Uint64()%(2*s.every-1)
	return true
}

// Skip counts a task that is not recorded.
func (s *Sampler) Skip(o Origin) {
	c := &s.cells[(o.Body>>4^o.Site>>2)%counted]
	if c.origin != o || c.spec == 0 {
		s.change(c, o)
	}
	c.n.Add(1)
}

func (s *Sampler) change(c *countCell, o Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := c.n.Swap(0); n > 0 {
		if s.old == nil {
			s.old = map[uint32]uint64{}
		}
		s.old[c.spec] += n
	}
	c.origin, c.spec = o, s.names.Spec(o)
}

// Annotate reports whether tasks are to be made known to Go's own tools.
func (r *Recorder) Annotate() bool { return r.annotate }

// Sample is of how many tasks one is recorded.
func (r *Recorder) Sample() int { return max(1, r.sample) }

// Skipped returns how many tasks of each origin, by its number, have not been recorded.
func (r *Recorder) Skipped() map[uint32]uint64 {
	r.mu.Lock()
	samplers := r.samplers
	r.mu.Unlock()
	sum := map[uint32]uint64{}
	for _, s := range samplers {
		s.mu.Lock()
		for spec, n := range s.old {
			sum[spec] += n
		}
		for i := range s.cells {
			if c := &s.cells[i]; c.spec != 0 {
				sum[c.spec] += c.n.Load()
			}
		}
		s.mu.Unlock()
	}
	return sum
}
