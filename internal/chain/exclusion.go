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

// exclusion is the table of the objects that tasks hold for their Commutative accesses, and of the
// waiters for each. A node takes all its objects in one step or none, and waits in the queue of
// each.
//
// There is one table for the process, since an object is an address of the process: tasks of
// different domains and runtimes exclude each other. README.md, "Exclusion", has the protocol.
type exclusion struct {
	shards [shardCount]resourceShard
	bytes  spans[*resource] // ranges (exclusion_range.go); guarded by the lock of byteShard
	age    atomic.Uint64    // age of the newest waiter
	// number of waiters that have been passed so often that their objects were reserved for them
	reserves atomic.Uint64
}

var exclusions exclusion

const (
	shardBits  = 6
	shardCount = 1 << shardBits // a set of shards fits in a word

	// overtakeMax is how many younger nodes may take an object that a node waits for before the
	// node's objects are reserved for it (guess: neighbours in a stencil become ready in order, and
	// each would make the next one wait).
	overtakeMax = 4

	// byteShard is the shard of all ranges. No object is in it.
	byteShard = shardCount - 1

	shardMin  = 16   // smallest number of hash chains in a shard (guess)
	shardKept = 1024 // unused resources, and hash chains, that an empty shard keeps (guess)
)

// resourceShard is one part of the table; the hash of an object's address selects it.
type resourceShard struct {
	mu    xatomic.Mutex
	tab   []*resource // hash chains linked by resource.next; a power of two long. +checklocks:mu
	n     int         // resources in tab. +checklocks:mu
	free  *resource   // unused resources, linked by next. +checklocks:mu
	nfree int         // +checklocks:mu
	_     [9]uint64
}

// resource is an object, or a piece of memory, that a node holds or waits for. It is guarded by the
// lock of its shard.
type resource struct {
	key         object // keeps the object alive; nil for a piece of memory
	next        *resource
	holder      *Node       // nil if nodes only wait for it
	first, last *queueEntry // queue of the waiters, the oldest first
	watchers    int         // number of waiters that watch it

	// The waiters up to clean had no reservation when exclusion.reserves was epoch.
	clean *queueEntry
	epoch uint64
}

// waiter is a node that waits for its objects. It is in the queues of all of them. Changing a
// waiter, or taking it out of the queues, needs the locks of all its shards; reading it needs any
// of them. It is three cache lines, of which a waiter for one object uses two.
type waiter struct {
	node  *Node
	age   uint64
	set   uint64    // set of its shards
	watch *resource // a resource that another node holds, or that is reserved for an older waiter

	// passed counts how often a younger node took an object of this waiter. It changes under the
	// lock of that object's shard only.
	passed atomic.Int32

	n    int32        // entries in few
	more *moreEntries // entries that are not in few; nil if none
	_    [2]uint64
	few  [4]queueEntry
}

// moreEntries has the queue entries of a waiter with more than four, and those that cuts have
// added.
type moreEntries struct {
	entries []queueEntry
	cuts    []*queueEntry // for the second parts of pieces that were cut while w waited
}

// queueEntry is the entry of a waiter in the queue of one resource.
type queueEntry struct {
	w          *waiter
	on         *resource
	prev, next *queueEntry
}

// hash spreads addresses. Its highest bits select the shard.
func hash(key object) uint64 { return uint64(addr(key)) * 0x9E3779B97F4A7C15 }

func shardOf(key object) uint64 { return min(hash(key)>>(64-shardBits), byteShard-1) }

// lock locks the shards of a set, in ascending order.
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

// find returns the resource of key; nil if no node holds it or waits for it. Precondition, as for
// the functions below: the caller has the lock of its shard.
func (e *exclusion) find(key object) *resource {
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

func (s *resourceShard) chain(key object) **resource {
	return &s.tab[uint(hash(key)>>32)&uint(len(s.tab)-1)]
}

// findOrAdd returns the resource of key, and adds it if it is absent.
func (e *exclusion) findOrAdd(key object) *resource {
	if c := e.find(key); c != nil {
		return c
	}
	s := &e.shards[shardOf(key)]
	if s.n >= len(s.tab) {
		s.grow()
	}
	c := s.free
	if c == nil {
		c = new(resource)
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

// remove takes c, which no node holds or waits for, out of the table.
func (e *exclusion) remove(c *resource) {
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

func (s *resourceShard) grow() {
	old := s.tab
	s.tab = make([]*resource, max(shardMin, 2*len(old)))
	for _, c := range old {
		for c != nil {
			next := c.next
			at := s.chain(c.key)
			c.next, *at = *at, c
			c = next
		}
	}
}

// reservedBefore reports whether c is reserved for one of the waiters before x; if x is nil, for
// any waiter.
func (c *resource) reservedBefore(x *queueEntry) bool { return c.first != x && c.scanReserved(x) }

func (c *resource) scanReserved(x *queueEntry) bool {
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

// reserved reports whether w's objects are reserved for it: no younger node may take any of them.
func (w *waiter) reserved() bool { return w.passed.Load() >= overtakeMax }

// pass counts, for the waiter of w and for all older ones in the queue, that a younger node takes
// the resource.
func (w *queueEntry) pass() {
	for ; w != nil; w = w.prev {
		if w.w.passed.Add(1) == overtakeMax {
			exclusions.reserves.Add(1) //bug:reserved
		}
	}
}

var waiters = sync.Pool{New: func() any { return new(waiter) }}

// enqueue makes n wait for its objects and bytes, and watch the given resource. Precondition: the
// caller has the locks of set.
func (e *exclusion) enqueue(n *Node, keys []object, bytes []extent, set uint64, watch *resource) {
	w := waiters.Get().(*waiter)
	w.node, w.set = n, set
	w.setWatch(watch)
	w.age = e.age.Add(1) // under the locks, so that all queues are in the order of age
	w.passed.Store(0)
	k := len(keys)
	for _, x := range bytes {
		e.each(x, func(*resource) { k++ })
	}
	entries := w.few[:min(k, len(w.few))]
	if w.n = int32(len(entries)); k > len(entries) {
		entries = make([]queueEntry, k)
		w.n, w.more = 0, &moreEntries{entries: entries}
	}
	for i, key := range keys {
		entries[i].join(w, e.findOrAdd(key))
	}
	entries = entries[len(keys):]
	for _, x := range bytes {
		e.each(x, func(c *resource) {
			entries[0].join(w, c)
			entries = entries[1:]
		})
	}
}

// join makes x the entry of w at the end of c's queue.
func (x *queueEntry) join(w *waiter, c *resource) {
	*x = queueEntry{w: w, on: c, prev: c.last}
	if c.last == nil {
		c.first = x
	} else {
		c.last.next = x
	}
	c.last = x
}

// leave takes x out of its queue.
func (x *queueEntry) leave() {
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

// setWatch makes w watch c, or nothing if c is nil, instead of what it watched. Precondition: the
// caller has the locks of w's shards.
func (w *waiter) setWatch(c *resource) {
	if w.watch != nil {
		w.watch.watchers--
	}
	if w.watch = c; c != nil {
		c.watchers++
	}
}

// refused returns a resource that keeps w from taking its objects; nil if there is none.
// Precondition, also of take: the caller has the locks of w's shards.
func (w *waiter) refused() *resource {
	few := w.few[:w.n]
	for i := range few {
		if x := &few[i]; x.on.holder != nil || x.on.reservedBefore(x) {
			return x.on
		}
	}
	if w.more != nil {
		for x := range w.more.all {
			if x.on.holder != nil || x.on.reservedBefore(x) {
				return x.on
			}
		}
	}
	return nil
}

// take gives w its objects and returns its node. w must not be used afterwards.
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
	w.setWatch(nil)
	w.node = nil
	waiters.Put(w)
	return n
}

func (m *moreEntries) all(yield func(x *queueEntry) bool) {
	for i := range m.entries {
		if !yield(&m.entries[i]) {
			return
		}
	}
	for _, x := range m.cuts {
		if !yield(x) {
			return
		}
	}
}

// take gives n the resource of x, which leaves the queue.
func (x *queueEntry) take(n *Node) {
	x.on.holder = n
	if x.prev != nil {
		x.prev.pass()
	}
	x.leave()
}

// serve offers a free resource to its waiters: the object key or, for a nil key, the piece of
// memory that begins at the address at. The oldest waiter that can take all its objects gets them,
// and its node becomes ready in f. locked is the set of locks that the caller has. serve may
// release these and lock others, always including the resource's; it returns the set that is locked
// at the end.
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
	tried := uint64(0) // age up to which waiters have been tried
again:
	var c *resource
	if key != nil {
		c = e.find(key)
	} else {
		c = e.piece(at)
	}
	if c == nil || c.holder != nil {
		return locked // another node has taken it, and will serve the next one
	}
	for x := c.first; x != nil && c.watchers > 0; x = x.next {
		w := x.w
		if w.watch == c && w.age > tried {
			if need := w.set; need&^locked != 0 {
				e.unlock(locked)
				locked = need
				e.lock(locked)
				goto again // w may have its objects by now, and its memory may be another waiter's //bug:G2-look
			}
			on := w.refused()
			if on == nil {
				n := w.take()
				n.rested = exclHolds
				f.ready.push(n)
				return locked
			}
			w.setWatch(on) //bug:G2-unwatch
			tried = w.age
		}
		if w.reserved() {
			return locked // reserved for w
		}
	}
	return locked
}

// acquire is Acquire for the given objects and bytes, whose shards are set.
func (e *exclusion) acquire(n *Node, keys []object, bytes []extent, set uint64) bool {
	e.lock(set)
	defer e.unlock(set)
	for _, x := range bytes { //bug:P1
		e.cutOut(x)
	}
	for _, key := range keys {
		if c := e.find(key); c != nil && c.refuses() {
			e.enqueue(n, keys, bytes, set, c)
			return false // another goroutine may own n as soon as the locks are free
		}
	}
	for _, x := range bytes {
		if c := e.refusing(x); c != nil {
			e.enqueue(n, keys, bytes, set, c)
			return false
		}
	}
	for _, key := range keys {
		e.findOrAdd(key).take(n)
	}
	for _, x := range bytes {
		e.each(x, func(c *resource) { c.take(n) })
	}
	n.rested = exclHolds
	return true
}

// take makes n the holder of c.
func (c *resource) take(n *Node) {
	c.holder = n
	c.last.pass()
}

// refuses reports whether c is held, or reserved for a waiter.
func (c *resource) refuses() bool { return c.holder != nil || c.reservedBefore(nil) }

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
	// All are free before the first is served, since a waiter for one may wait for another too.
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
