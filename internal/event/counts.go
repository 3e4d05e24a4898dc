// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package event

import (
	"math/bits"
	"math/rand/v2"
	"sync"
)

// Sampler decides which tasks of a writer are recorded if not all are (Options.Sample), and counts
// the others by origin. It belongs to one writer at a time; any goroutine may call
// Recorder.Skipped.
type Sampler struct {
	// Constant after construction.
	rec   *Recorder
	names *Names
	pace  int64 // adaptive: if tasks are at least so many ticks apart, all are recorded; else zero

	// Owned by the writer.
	every uint64 // one task in so many is recorded
	left  uint64 // tasks until the next recorded one
	stood uint8  // log2 of every, as it was when the last recorded task was chosen
	gap   uint64 // from the recorded task before the next one to the next one
	seen  uint64 // tasks since from
	from  int64  // in ticks: when every was last adapted
	rng   rand.PCG

	mu    sync.Mutex // locked by the writer when it changes the origin of a cell, and by readers
	cells [counted]countCell
	old   map[uint32]uint64 // counts of origins that lost their cell. +checklocks:mu
}

// counted is how many origins are counted without a lock (guess: few programs have more origins
// that spawn often).
const counted = 64

type countCell struct {
	origin Origin // read by the writer alone
	spec   uint32 // +checklocks:Sampler.mu
	n      mark   // only grows: a reader may see an old value
	moved  uint64 // the part of n that belongs to earlier origins. +checklocks:Sampler.mu
}

// Adaptive as Options.Sample records all tasks while few are spawned, and a smaller share the
// faster they are spawned, so that the share of time spent on recording stays about equal. Each
// recorded task says how many tasks it stands for.
const Adaptive = -1

// The constants of Adaptive. After adaptTasks tasks, a slot reads the clock and chooses a new rate;
// it records every task if they were at least adaptPace apart. A recorded task costs its slot about
// 50 ns and the sinks about 500 ns (measured): at that pace, a sixtieth of the time.
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

// Take reports whether the next task is to be recorded. The gap to the next recorded task is
// random, between 1 and about twice the mean, so that no pattern of the program escapes sampling.
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

// adapt chooses the sampling rate for the tasks after the current gap.
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

// Stands returns the weight of the task that Take chose last: it stands for 2^Stands tasks. It is
// zero if the sampler is not adaptive.
func (s *Sampler) Stands() uint8 { return s.stood }

// Skip counts a task that is not recorded.
func (s *Sampler) Skip(o Origin) {
	c := &s.cells[(o.Body>>4^o.Site>>2)%counted]
	if c.origin != o || c.spec == 0 {
		s.change(c, o)
	}
	c.n.publish(c.n.own() + 1)
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

// Annotate reports whether tasks are to be shown in Go's own tools.
func (r *Recorder) Annotate() bool { return r.opt.Annotate }

// Samples reports whether some tasks may not be recorded.
func (r *Recorder) Samples() bool { return r.opt.Sample > 1 || r.opt.Sample == Adaptive }

// Thin ends Options.Eager.
func (r *Recorder) Thin() { r.eager.Store(false) }

// Sample returns n if one task in n is recorded; 1 if all are, or if the recording is adaptive.
func (r *Recorder) Sample() int { return max(1, r.opt.Sample) }

// Skipped returns how many tasks of each origin have not been recorded, by the origin's number.
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
