// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"reflect"

	"weft/internal/xatomic"
)

// A Group is the participants of one reduction between two other accesses to its object: what they
// have in common is a set of private copies. Each participant takes one and gives it back;
// README.md, "Private copies", says why there are never more than participants at one time.
//
// Take and Give may be called by any goroutine; Combine and Close when every participant is over.
type Group struct {
	r      *Reduced
	shards []shard
	mask   int

	next  xatomic.Int32 // of clean; counts on when there are none left
	clean []*Copy       // that no participant has had yet; constant while the group lives
}

// Copy is a private copy. It belongs to who has taken it.
type Copy struct {
	v    any
	used bool // has contributions
	next *Copy
	_    [cacheLine - 32]byte
}

// Value returns what Ops.Fresh has made for c.
func (c *Copy) Value() any { return c.v }

// cacheLine is what copies are kept apart by, so that two participants do not write the same line
// (some processors fetch two at a time).
const cacheLine = 128

// Apart returns a slice of n elements in cache lines of its own.
func Apart[T any](n int) []T {
	gap := int((cacheLine-1)/reflect.TypeFor[T]().Size()) + 1
	return make([]T, gap+n+gap)[gap : gap+n : gap+n]
}

// shard is a stack of copies that are free. There are several so that participants on many
// processors do not meet at one lock.
type shard struct {
	// word is how many copies the shard has, and above that how many were given to it, ever. It is
	// written under mu.
	word xatomic.Uint64
	mu   xatomic.Mutex
	top  *Copy // +checklocks:mu
	_    [cacheLine - 24]byte
}

const (
	maxShards = 16 // guess: eight of 128 workers to a lock, and few words to look at
	wordFree  = 1<<32 - 1
	wordGiven = 1 << 32
	maxClean  = 256 // copies that are kept for the next group (guess: twice a large machine)
)

// Open returns a new group of r, for a runtime with the given number of workers.
func (r *Reduced) Open(workers int) *Group {
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
	return &Group{r: r, shards: make([]shard, n), mask: n - 1}
}

// Reduced returns the reduction.
func (g *Group) Reduced() *Reduced { return g.r }

// Take returns a copy for the caller alone, from the shard of at if it can: one that has
// contributions already, else a new one. It calls the operator's Init, which may panic; the copy is
// lost then. Before that it calls got, if that is not nil.
func (g *Group) Take(at int, got func(*Copy)) *Copy {
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

// free takes a copy that was given back; nil if there was none at one moment of the call. The
// numbers are the steps of README.md.
func (g *Group) free(at int) *Copy {
	var seen [maxShards]uint64
	for {
		for d := range g.shards {
			i := (at + d) & g.mask
			for {
				w := g.shards[i].word.Load() // T1
				if w&wordFree == 0 {
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

// unused returns a copy that nobody has had in this group.
func (g *Group) unused() *Copy {
	if i := int(g.next.Add(1)) - 1; i < len(g.clean) {
		return g.clean[i]
	}
	return &Copy{v: g.r.ops.Fresh()}
}

// Give takes back a copy, to the shard of at.
func (g *Group) Give(at int, c *Copy) {
	s := &g.shards[at&g.mask]
	s.mu.Lock()
	c.next, s.top = s.top, c
	s.word.Store(s.word.Load() + wordGiven + 1)
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

// Used returns how many copies have contributions.
func (g *Group) Used() (n int) {
	for i := range g.shards {
		n += int(g.shards[i].word.Load() & wordFree)
	}
	return n
}

// Combine merges all copies into the elements lo to hi of the object. Calls for different elements
// may run at the same time.
func (g *Group) Combine(lo, hi int) {
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

// Close ends the group, whose copies have been combined. The reduction keeps them for the next one.
func (g *Group) Close() {
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
