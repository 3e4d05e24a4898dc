// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"math/bits"
	"math/rand/v2"
	"sync"
)

// Sampler decides which tasks of a writer are recorded, where not all are (Options.Sample), and
// counts the others by where they come from. It belongs to one writer at a time; Skipped may be
// called by anybody.
type Sampler struct {
	// Constant after construction.
	rec   *Recorder
	names *Names
	pace  int64 // adaptive: ticks for each task at which all are recorded; else zero

	// Owned by the writer.
	every uint64 // of how many tasks one is recorded
	left  uint64 // tasks until the next one that is
	stood uint8  // what the task that was taken last stands for, as a power of two
	gap   uint64 // tasks from the one before to that one
	seen  uint64 // tasks since from
	from  int64  // ticks
	rng   rand.PCG

	mu    sync.Mutex // of the writer when it changes the origin of a cell, and of readers
	cells [counted]countCell
	old   map[uint32]uint64 // of origins that have no cell any more. +checklocks:mu
}

// counted is how many origins are counted without a lock (guess: more than programs have that spawn
// often).
const counted = 64

type countCell struct {
	origin Origin // read by the writer alone
	spec   uint32 // +checklocks:Sampler.mu
	n      mark   // only grows: readers may be late
	moved  uint64 // of n, what was of other origins. +checklocks:Sampler.mu
}

// Adaptive as Options.Sample records all tasks while they come slowly, and the fewer the quicker
// they come, so that recording costs about the same share of the time. Each recorded task says of
// how many it is one.
const Adaptive = -1

// How Adaptive goes by what it sees: a slot looks at the clock after so many tasks, and records
// each if they came one in so much time. A task that is recorded costs its slot some 50 ns, and the
// sinks some 500 (measured): so that is a sixtieth.
const (
	adaptTasks = 512
	adaptPace  = 32_000 // ns
	adaptMost  = 6      // one of 64
)

// Sampler returns a new sampler for a writer; nil if all tasks are recorded.
func (r *Recorder) Sampler() *Sampler {
	if !r.Samples() {
		return nil
	}
	s := &Sampler{rec: r, names: &r.names, every: uint64(r.Sample()), rng: *rand.NewPCG(rand.Uint64(), rand.Uint64())}
	if r.opt.Sample == Adaptive {
		s.pace, s.from = max(1, adaptPace*1000/max(1, r.clock.Span(1000))), Ticks()
	}
	s.left = 1 + s.rng.Uint64()%s.every
	s.gap = s.left
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samplers = append(r.samplers, s)
	return s
}

// Take reports whether the next task is to be recorded. The gaps between those that are have all
// lengths from 1 to twice the mean, by chance, so that no pattern of the program's hides from them.
func (s *Sampler) Take() bool {
	if s.left--; s.left > 0 {
		return false
	}
	if s.pace != 0 {
		s.adapt()
	}
	s.left = 1
	if s.every > 1 {
		s.left += s.rng.Uint64() % (2*s.every - 1)
	}
	s.gap = s.left
	return true
}

// adapt decides how often the next tasks are recorded.
func (s *Sampler) adapt() {
	s.stood = uint8(bits.Len64(s.every) - 1)
	if s.seen += s.gap; s.seen < adaptTasks {
		return
	}
	now := Ticks()
	each := (now - s.from) / int64(s.seen)
	s.from, s.seen, s.every = now, 0, 1
	if s.rec.eager.Load() {
		return
	}
	for n := 0; n < adaptMost && each*int64(s.every) < s.pace; n++ {
		s.every *= 2
	}
}

// Stands says of how many tasks the one that Take has taken last is one, as a power of two, where
// the sampler is adaptive; else zero.
func (s *Sampler) Stands() uint8 { return s.stood }

// Skip counts a task that is not recorded.
func (s *Sampler) Skip(o Origin) {
	c := &s.cells[(o.Body>>4^o.Site>>2)%counted]
	if c.origin != o || c.spec == 0 {
		s.change(c, o)
	}
	c.n.show(c.n.own() + 1)
}

func (s *Sampler) change(c *countCell, o Origin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := c.n.own() - c.moved; n > 0 {
		if s.old == nil {
			s.old = map[uint32]uint64{}
		}
		s.old[c.spec] += n
		c.moved += n
	}
	c.origin, c.spec = o, s.names.Spec(o)
}

// Annotate reports whether tasks are to be made known to Go's own tools.
func (r *Recorder) Annotate() bool { return r.opt.Annotate }

// Samples reports whether tasks may be left out.
func (r *Recorder) Samples() bool { return r.opt.Sample > 1 || r.opt.Sample == Adaptive }

// Thin ends Options.Eager.
func (r *Recorder) Thin() { r.eager.Store(false) }

// Sample is of how many tasks one is recorded, if that does not change.
func (r *Recorder) Sample() int { return max(1, r.opt.Sample) }

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
				sum[c.spec] += c.n.load() - c.moved
			}
		}
		s.mu.Unlock()
	}
	return sum
}
