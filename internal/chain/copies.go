// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"reflect"

	"weft/internal/xatomic"
)

// A ReductionGroup is the participants of one reduction between two other accesses to its object.
// They share a set of private copies: each participant takes one and gives it back. README.md,
// "Private copies", shows why there are never more copies than participants at one time.
//
// Any goroutine may call Take and Give; Combine and Close may be called when every participant is
// over.
type ReductionGroup struct {
	r      *Reduced
	shards []shard
	mask   int

	next xatomic.Int32 // index in clean of the next unused copy; grows beyond its length
	// copies without contributions, from earlier groups; constant while the group is open
	clean []*Copy
}

// Copy is a private copy. It belongs to the participant that has taken it.
type Copy struct {
	v    any
	used bool // has contributions
	next *Copy
	_    [cacheLine - 32]byte
}

// Value returns the value that Ops.Fresh made for c.
func (c *Copy) Value() any { return c.v }

// cacheLine is the distance that keeps copies apart, so that two participants do not write the same
// line (some processors fetch two lines at a time).
const cacheLine = 128

// Apart returns a slice of n elements that shares no cache line with other memory.
func Apart[T any](n int) []T {
	gap := int((cacheLine-1)/reflect.TypeFor[T]().Size()) + 1
	return make([]T, gap+n+gap)[gap : gap+n : gap+n]
}

// shard is a stack of free copies. There are several so that participants on many processors do not
// contend for one lock.
type shard struct {
	// word is the number of copies in the shard and, above it, the number of copies ever given to
	// it. It is written under mu.
	word xatomic.Uint64
	mu   xatomic.Mutex
	top  *Copy // +checklocks:mu
	_    [cacheLine - 24]byte
}

const (
	maxShards   = 16 // guess: eight of 128 workers for a lock, and few words to read
	freeMask    = 1<<32 - 1
	oneReturned = 1 << 32
	// copies kept for the next group (guess: twice the workers of a large machine)
	maxClean = 256
)

// Open returns a new group of r, for a runtime with the given number of workers.
func (r *Reduced) Open(workers int) *ReductionGroup {
	r.kept.mu.Lock()
	defer r.kept.mu.Unlock()
	if k := len(r.kept.groups); k > 0 {
		g := r.kept.groups[k-1]
		r.kept.groups[k-1] = nil
		r.kept.groups = r.kept.groups[:k-1]
		return g
	}
	n := 1
	for n < min(workers, maxShards) {
		n *= 2
	}
	return &ReductionGroup{r: r, shards: make([]shard, n), mask: n - 1}
}

// Reduced returns the reduction.
func (g *ReductionGroup) Reduced() *Reduced { return g.r }

// Take returns a copy for the caller alone, from the shard of at if possible: one that has
// contributions already, else a new one. Before it calls the operator's Init, it calls got with the
// copy, if got is not nil. Init may panic; the copy is then lost.
func (g *ReductionGroup) Take(at int, got func(*Copy)) *Copy {
	c := g.free(at)
	if c == nil {
		c = g.unused()
	}
	if got != nil {
		got(c)
	}
	if !c.used {
		g.r.ops.Init(c.v)
		c.used = true
	}
	return c
}

// free takes a copy that was given back. It returns nil if there was none at one moment of the
// call. T1 to T3 are the steps of README.md.
func (g *ReductionGroup) free(at int) *Copy {
	var seen [maxShards]uint64
	for {
		for d := range g.shards {
			i := (at + d) & g.mask
			for {
				w := g.shards[i].word.Load() // T1
				if w&freeMask == 0 {
					seen[i] = w
					break
				}
				if c := g.shards[i].pop(); c != nil { // T2
					return c
				}
			}
		}
		same := true
		for i := range g.shards {
			same = same && g.shards[i].word.Load() == seen[i] // T3
		}
		if same {
			return nil
		}
	}
}

// unused returns a copy that no participant of this group has had.
func (g *ReductionGroup) unused() *Copy {
	if i := int(g.next.Add(1)) - 1; i < len(g.clean) {
		return g.clean[i]
	}
	return &Copy{v: g.r.ops.Fresh()}
}

// Give gives a copy back, to the shard of at.
func (g *ReductionGroup) Give(at int, c *Copy) {
	s := &g.shards[at&g.mask]
	s.mu.Lock()
	c.next, s.top = s.top, c
	s.word.Store(s.word.Load() + oneReturned + 1)
	s.mu.Unlock()
}

func (s *shard) pop() *Copy {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.top
	if c != nil {
		s.top, c.next = c.next, nil
		s.word.Store(s.word.Load() - 1)
	}
	return c
}

// Used returns the number of copies with contributions.
func (g *ReductionGroup) Used() (n int) {
	for i := range g.shards {
		n += int(g.shards[i].word.Load() & freeMask)
	}
	return n
}

// Combine merges all copies into the elements lo to hi of the object. Calls for different elements
// may run at the same time.
func (g *ReductionGroup) Combine(lo, hi int) {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		c := s.top
		s.mu.Unlock()
		for ; c != nil; c = c.next {
			g.r.ops.Combine(c.v, lo, hi)
		}
	}
}

// Close ends the group, whose copies have been combined. The reduction keeps the copies for its
// next group.
func (g *ReductionGroup) Close() {
	left := min(int(g.next.Load()), len(g.clean))
	g.clean = append(g.clean[:0], g.clean[left:]...)
	for i := range g.shards {
		for c := g.shards[i].pop(); c != nil; c = g.shards[i].pop() {
			if c.used = false; len(g.clean) < maxClean {
				g.clean = append(g.clean, c)
			}
		}
	}
	g.next.Init(0)
	r := g.r
	r.kept.mu.Lock()
	r.kept.groups = append(r.kept.groups, g)
	r.kept.mu.Unlock()
}
