// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"weft/internal/xatomic"
)

// exclusion says which objects tasks hold for their Commutative accesses, and who waits for
// which. A node takes all its objects in one step or none, and waits in the queue of each.
//
// There is one for the process, since an object is an address of the process: tasks of different
// domains, runs and runtimes exclude each other. README.md, "Exclusion", has the protocol.
type exclusion struct {
	shards [shardCount]claimShard
	bytes  spans[*claim] // ranges (exclusion_range.go); guarded by the lock of byteShard
	age    atomic.Uint64 // of the newest waiter
	// how many waiters have been passed so often that their objects are kept for them
	reserves atomic.Uint64
}

var exclusions exclusion

const (
	shardBits  = 6
	shardCount = 1 << shardBits // a set of shards is a word

	// overtakeMax is how many younger nodes may take an object that a node waits for, before the
	// node's objects are kept for it (guess: neighbours in a stencil become ready in order, and
	// each would make the next one wait).
	overtakeMax = 4

	// byteShard is the shard of all ranges. No object is in it.
	byteShard = shardCount - 1

	shardMin  = 16   // chains of a shard's table (guess)
	shardKept = 1024 // records, and chains, that an empty shard keeps (guess)
)

// claimShard is a part of the table, by the objects' addresses.
type claimShard struct {
	mu    xatomic.Mutex
	tab   []*claim // chains through claim.next; a power of two long. +checklocks:mu
	n     int      // claims in tab. +checklocks:mu
	free  *claim   // +checklocks:mu
	nfree int      // +checklocks:mu
	_     [9]uint64
}

// claim is an object that a node holds or waits for. It is guarded by the lock of its shard.
type claim struct {
	key         object // keeps the object alive; nil for a piece of memory
	next        *claim
	holder      *Node // nil if it is only waited for
	first, last *want // the nodes that wait for it, the oldest first
	watchers    int   // how many of them watch it

	// The waiters up to clean were not reserved when exclusion.reserves was epoch.
	clean *want
	epoch uint64
}

// waiter is a node that waits for its objects. It is in the queues of all of them. To change it, or
// take it out of the queues, needs the locks of all its shards; to read it, any of these. It is
// three cache lines, of which one object needs two.
type waiter struct {
	node  *Node
	age   uint64
	set   uint64 // its shards
	watch *claim // somebody else has it, or an older waiter's objects are kept for that

	// passed counts how often a younger node took an object of this one. It is changed
	// with the lock of that object only.
	passed atomic.Int32

	n    int32      // places in few
	more *manyWants // places that are not in few; nil if there are none
	_    [2]uint64
	few  [4]want
}

// manyWants has the places of a waiter that has more than four, or whose pieces others have cut.
type manyWants struct {
	wants []want
	cuts  []*want // for pieces that others have been cut into since
}

// want is a waiter's place in the queue of one object.
type want struct {
	w          *waiter
	on         *claim
	prev, next *want
}

// hash spreads addresses: the shard is in the highest bits.
func hash(key object) uint64 { return uint64(addr(key)) * 0x9E3779B97F4A7C15 }

func shardOf(key object) uint64 { return min(hash(key)>>(64-shardBits), byteShard-1) }

// lock locks the shards of a set, in order.
func (e *exclusion) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		e.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (e *exclusion) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		e.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}

// find returns the claim on key; nil if nobody holds it or waits for it. Precondition, as for the
// functions below: the lock of its shard.
func (e *exclusion) find(key object) *claim {
	s := &e.shards[shardOf(key)]
	if s.n == 0 {
		return nil
	}
	c := *s.chain(key)
	for c != nil && c.key != key {
		c = c.next
	}
	return c
}

func (s *claimShard) chain(key object) **claim { return &s.tab[uint(hash(key)>>32)&uint(len(s.tab)-1)] }

// claim returns the claim on key, which it makes if there is none.
func (e *exclusion) claim(key object) *claim {
	if c := e.find(key); c != nil {
		return c
	}
	s := &e.shards[shardOf(key)]
	if s.n >= len(s.tab) {
		s.grow()
	}
	c := s.free
	if c == nil {
		c = new(claim)
	} else {
		s.free, c.next = c.next, nil
		s.nfree--
	}
	c.key = key
	at := s.chain(key)
	c.next, *at = *at, c
	s.n++
	return c
}

// remove takes c, which nobody holds or waits for, out of the table.
func (e *exclusion) remove(c *claim) {
	s := &e.shards[shardOf(c.key)]
	at := s.chain(c.key)
	for *at != c {
		at = &(*at).next
	}
	*at = c.next
	c.key, c.next = nil, nil
	if s.nfree < shardKept {
		c.next, s.free = s.free, c
		s.nfree++
	}
	if s.n--; s.n == 0 && len(s.tab) > shardKept {
		s.tab = nil
	}
}

func (s *claimShard) grow() {
	old := s.tab
	s.tab = make([]*claim, max(shardMin, 2*len(old)))
	for _, c := range old {
		for c != nil {
			next := c.next
			at := s.chain(c.key)
			c.next, *at = *at, c
			c = next
		}
	}
}

// keptBefore reports whether the object is kept for one of the waiters before x; nil: for any.
func (c *claim) keptBefore(x *want) bool { return c.first != x && c.keptSlowly(x) }

func (c *claim) keptSlowly(x *want) bool {
	y := c.first
	switch now := exclusions.reserves.Load(); {
	case c.epoch != now:
		c.epoch, c.clean = now, nil
	case c.clean == nil:
	case x != nil && x.w.age <= c.clean.w.age:
		return false
	default:
		y = c.clean.next
	}
	for ; y != x; y = y.next {
		if y.w.reserved() { //bug:keep
			return true
		}
		c.clean = y
	}
	return false
}

// reserved reports whether w's objects are kept for it: no younger node may take one.
func (w *waiter) reserved() bool { return w.passed.Load() >= overtakeMax }

// pass notes that a node takes the object before the waiters from w on towards the older ones.
func (w *want) pass() {
	for ; w != nil; w = w.prev {
		if w.w.passed.Add(1) == overtakeMax {
			exclusions.reserves.Add(1) //bug:reserved
		}
	}
}

var waiters = sync.Pool{New: func() any { return new(waiter) }}

// enqueue makes n wait for its objects and bytes, because of watch. Precondition: the locks of set.
func (e *exclusion) enqueue(n *Node, keys []object, bytes []extent, set uint64, watch *claim) {
	w := waiters.Get().(*waiter)
	w.node, w.set = n, set
	w.watches(watch)
	w.age = e.age.Add(1) // under the locks: the queues are in the order of age
	w.passed.Store(0)
	k := len(keys)
	for _, x := range bytes {
		e.each(x, func(*claim) { k++ })
	}
	places := w.few[:min(k, len(w.few))]
	if w.n = int32(len(places)); k > len(places) {
		places = make([]want, k)
		w.n, w.more = 0, &manyWants{wants: places}
	}
	for i, key := range keys {
		places[i].join(w, e.claim(key))
	}
	places = places[len(keys):]
	for _, x := range bytes {
		e.each(x, func(c *claim) {
			places[0].join(w, c)
			places = places[1:]
		})
	}
}

// join makes x the place of w at the end of c's queue.
func (x *want) join(w *waiter, c *claim) {
	*x = want{w: w, on: c, prev: c.last}
	if c.last == nil {
		c.first = x
	} else {
		c.last.next = x
	}
	c.last = x
}

// leave takes x out of its queue.
func (x *want) leave() {
	c := x.on
	if c.clean == x { //bug:last-clean
		c.clean = x.prev
	}
	if x.prev == nil {
		c.first = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		c.last = x.prev
	} else {
		x.next.prev = x.prev
	}
}

// watches makes w watch c, nil for nothing, instead of what it has watched. Precondition: the locks
// of its shards.
func (w *waiter) watches(c *claim) {
	if w.watch != nil {
		w.watch.watchers--
	}
	if w.watch = c; c != nil {
		c.watchers++
	}
}

// refused returns the object because of which w cannot have its objects; nil if it can.
// Precondition, also of take: the locks of its shards.
func (w *waiter) refused() *claim {
	few := w.few[:w.n]
	for i := range few {
		if x := &few[i]; x.on.holder != nil || x.on.keptBefore(x) {
			return x.on
		}
	}
	if w.more != nil {
		for x := range w.more.all {
			if x.on.holder != nil || x.on.keptBefore(x) {
				return x.on
			}
		}
	}
	return nil
}

// take gives w its objects and returns its node. w is over.
func (w *waiter) take() *Node {
	n := w.node
	few := w.few[:w.n]
	for i := range few {
		few[i].take(n)
	}
	if w.more != nil {
		for x := range w.more.all {
			x.take(n)
		}
		w.more = nil
	}
	clear(few)
	w.watches(nil)
	w.node = nil
	waiters.Put(w)
	return n
}

func (m *manyWants) all(yield func(x *want) bool) {
	for i := range m.wants {
		if !yield(&m.wants[i]) {
			return
		}
	}
	for _, x := range m.cuts {
		if !yield(x) {
			return
		}
	}
}

// take gives n the object of x, which leaves the queue.
func (x *want) take(n *Node) {
	x.on.holder = n
	if x.prev != nil {
		x.prev.pass()
	}
	x.leave()
}

// serve gives the object key, or for nil the piece of memory that begins at at, which has been set
// free, to the oldest of its waiters that can have all its objects, and puts that node on f's list.
// locked is the set of locks that the caller has; serve may lock others instead, among them that of
// the object, and returns the set.
func (e *exclusion) serve(key object, at uintptr, locked uint64, f *Flow) uint64 {
	home := uint64(1) << byteShard
	if key != nil {
		home = 1 << shardOf(key)
	}
	if locked&home == 0 {
		e.unlock(locked)
		locked = home
		e.lock(locked)
	}
	tried := uint64(0) // waiters up to this age have been tried
again:
	var c *claim
	if key != nil {
		c = e.find(key)
	} else {
		c = e.piece(at)
	}
	if c == nil || c.holder != nil {
		return locked // somebody was quicker: it serves the next one
	}
	for x := c.first; x != nil && c.watchers > 0; x = x.next {
		w := x.w
		if w.watch == c && w.age > tried {
			if need := w.set; need&^locked != 0 {
				e.unlock(locked)
				locked = need
				e.lock(locked)
				goto again // w may have its objects by now, and its memory may be another's //bug:G2-look
			}
			on := w.refused()
			if on == nil {
				n := w.take()
				n.rested = exclHolds
				f.ready.push(n)
				return locked
			}
			w.watches(on) //bug:G2-unwatch
			tried = w.age
		}
		if w.reserved() {
			return locked // kept for w
		}
	}
	return locked
}

// acquire is Acquire with the objects, the bytes, and their shards.
func (e *exclusion) acquire(n *Node, keys []object, bytes []extent, set uint64) bool {
	e.lock(set)
	defer e.unlock(set)
	for _, x := range bytes { //bug:P1
		e.cutOut(x)
	}
	for _, key := range keys {
		if c := e.find(key); c != nil && c.refuses() {
			e.enqueue(n, keys, bytes, set, c)
			return false // n is somebody else's as soon as the locks are free
		}
	}
	for _, x := range bytes {
		if c := e.refusing(x); c != nil {
			e.enqueue(n, keys, bytes, set, c)
			return false
		}
	}
	for _, key := range keys {
		e.claim(key).take(n)
	}
	for _, x := range bytes {
		e.each(x, func(c *claim) { c.take(n) })
	}
	n.rested = exclHolds
	return true
}

// take makes n the holder.
func (c *claim) take(n *Node) {
	c.holder = n
	c.last.pass()
}

// refuses reports whether somebody else has the object, or it is kept for a waiter.
func (c *claim) refuses() bool { return c.holder != nil || c.keptBefore(nil) }

func (e *exclusion) giveBack(f *Flow) {
	l := &f.locks
	list := l.dropped
	set := uint64(0)
	for _, d := range list {
		set |= 1 << shardOf(d.key)
	}
	if len(l.bytes) > 0 {
		set |= 1 << byteShard
	}
	e.lock(set)
	k := 0
	for _, d := range list {
		c := e.find(d.key)
		if c == nil || c.holder != d.owner {
			e.unlock(set)
			panic(fmt.Sprintf("deps: object %p is given back by a node that does not hold it: it was started without Acquire", d.key))
		}
		if c.holder = nil; c.first == nil {
			e.remove(c)
			continue
		}
		list[k] = d
		k++
	}
	if len(l.bytes) > 0 {
		e.endBytes(l, set)
	}
	// All are free before the first is served, since who waits for one may wait for another too.
	for _, d := range list[:k] {
		set = e.serve(d.key, 0, set, f)
	}
	for _, at := range l.free {
		set = e.serve(nil, at, set, f)
	}
	e.unlock(set)
	clear(list)
	l.dropped, l.free = list[:0], l.free[:0]
}
