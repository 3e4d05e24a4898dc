// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sync"
)

// A Cycle is the order of tasks that are made in rounds, the same tasks with the same accesses in
// each round: the order that chains would give to an endless sequence of rounds, as a graph. A
// runtime follows the graph round after round. A Cycle is constant once made. README.md, "Cycles",
// has the rules.
type Cycle struct {
	accs  []Access // the tasks' combined accesses, task after task
	first []int32  // index in accs of each task's first access, and the end of the last
	edges []Edge   // node after node
	out   []int32  // index in edges of each node's first edge, and the end of the last
	sets  []int32  // accesses that edges stand for; numbered within their task

	ranged bool // accs are pieces of memory, sorted by address within each task
}

// An Edge says that node To starts after the node that the edge leaves: in the same round, or with
// Next in the next one.
type Edge struct {
	To     int32
	Next   bool
	lo, hi int32 // in Cycle.sets
}

// NewCycle returns the order of tasks with the given accesses: those of task i are
// list[ends[i-1]:ends[i]]. With apart, the caller keeps the rounds apart, and there are no edges
// from one round to the next.
//
// A weak access orders as a strong one does.
func NewCycle(list []Access, ends []int32, apart bool) *Cycle {
	b := newBuilder(apart)
	defer b.free()
	b.combine(list, ends)
	b.chains()
	b.collect()
	b.reduce()
	return b.c
}

// NewChain is NewCycle for tasks that run in their order, one at a time.
func NewChain(list []Access, ends []int32, apart bool) *Cycle {
	b := newBuilder(apart)
	defer b.free()
	b.combine(list, ends)
	c, n := b.c, len(ends)
	c.out = make([]int32, n+1)
	for i := range n {
		if next := i+1 == n; !next || !apart && n > 1 {
			c.edges = append(c.edges, Edge{To: int32((i + 1) % n), Next: next})
		}
		c.out[i+1] = int32(len(c.edges))
	}
	return c
}

// Tasks returns the number of tasks.
func (c *Cycle) Tasks() int { return len(c.first) - 1 }

// Nodes returns the number of nodes: first the tasks, in their order, and then joints. A joint is
// no task: it comes after all nodes with an edge to it, and before all nodes to which it has an
// edge.
func (c *Cycle) Nodes() int { return len(c.out) - 1 }

// Edges returns the edges that leave a node. No edge leads from a node to itself: the caller
// ensures that a task does not run at the same time as itself. No edge leads from joint to joint.
func (c *Cycle) Edges(node int) []Edge { return c.edges[c.out[node]:c.out[node+1]] }

// Len returns the number of edges.
func (c *Cycle) Len() int { return len(c.edges) }

// Objects returns the accesses of the edge's node for which the edge stands, by the numbers of
// Find, in ascending order. If the node gives all of them up early, the edge may be followed then.
// An edge without accesses waits for the end of the node.
func (c *Cycle) Objects(e Edge) []int32 { return c.sets[e.lo:e.hi] }

// Accesses returns the combined accesses of a task.
func (c *Cycle) Accesses(task int) []Access { return c.accs[c.first[task]:c.first[task+1]] }

// joinAt reports whether a joint replaces the edges from each of k nodes to each of l. Edges are
// cheaper to follow, but k·l of them must not be many more than k+l.
func joinAt(k, l int) bool { return k > 1 && l > 1 && k*l > 4*(k+l) }

// reduceMax is the largest number of edges of a node among which redundant edges are searched.
const reduceMax = 32

// builder makes a Cycle. Its memory is reused, so that a loop that is recorded often leaves only
// its graph to the garbage collector.
type builder struct {
	c     *Cycle
	apart bool
	nodes int // tasks and joints

	tab    []named // open addressing; a power of two long
	shift  uint8   // 64 - log2(len(tab))
	count  []int32 // number of accesses to each object
	object []int32 // of each access
	owner  []int32 // task of each access
	// indices of the accesses, chain after chain; within a chain in the order of the tasks
	byChain []int32
	chain   []int32 // where the chain of each object begins in byChain, and the end of the last

	runs   []segment // segments of the current object's chain
	from   []int32   // origin of each raw edge
	keys   []uint64  // of each raw edge: target<<33 | next<<32 | access + 1, or 0 for no access
	sorted []uint64  // keys, by origin
	begin  []int32   // where those of each origin begin, later where they end
	edges  []Edge    // the Cycle's
	gone   []bool    // edges that others imply
}

var builders = sync.Pool{New: func() any { return new(builder) }}

func newBuilder(apart bool) *builder {
	b := builders.Get().(*builder)
	b.c, b.apart = &Cycle{}, apart
	return b
}

func (b *builder) free() {
	b.c = nil
	clear(b.tab) // the objects
	builders.Put(b)
}

// zeroed returns a slice of n zeros, in the memory of s if that is large enough.
func zeroed[T any](s []T, n int) []T {
	s = slices.Grow(s[:0], n)[:n]
	clear(s)
	return s
}

// segment is a run of accesses, in builder.byChain, that do not order each other.
type segment struct {
	lo, hi int32
	inNext bool // they are the next round's
	kind   Mode
}

// named is an object while the accesses are combined.
type named struct {
	key    object
	object int32
	last   int32 // index of its latest access
}

// combine makes the accesses: one for each task and object.
func (b *builder) combine(list []Access, ends []int32) {
	c := b.c
	b.nodes = len(ends)
	if slices.ContainsFunc(list, Access.isRange) {
		c.ranged = true
		list, ends = cut(list, ends)
	}
	c.accs = make([]Access, 0, len(list))
	c.first = make([]int32, len(ends)+1)
	b.count, b.object, b.owner = b.count[:0], b.object[:0], b.owner[:0]
	if len(b.tab) == 0 {
		b.alloc(64)
	}
	at := int32(0)
	for t, end := range ends {
		begin := int32(len(c.accs))
		for ; at < end; at++ {
			x := list[at]
			if x.ptr == nil {
				panicZero()
			}
			if len(b.count)*4 >= len(b.tab)*3 {
				old := b.tab
				b.alloc(4 * len(old))
				for _, p := range old {
					if p.key != nil {
						*b.find(p.key) = p
					}
				}
			}
			p := b.find(x.ptr)
			switch {
			case p.key == nil:
				*p = named{x.ptr, int32(len(b.count)), 0}
				b.count = append(b.count, 0)
			case p.last >= begin:
				u := &c.accs[p.last]
				u.mode = combine(u.mode.order(), x.mode.order())
				u.weak = u.weak && x.weak
				continue
			}
			p.last = int32(len(c.accs))
			c.accs = append(c.accs, x)
			b.owner = append(b.owner, int32(t))
			b.object = append(b.object, p.object)
			b.count[p.object]++
		}
		if n := int32(len(c.accs)); n-begin > scanMax && !c.ranged {
			sortAccesses(c.accs[begin:], b.object[begin:])
		}
		c.first[t+1] = int32(len(c.accs))
	}

	// The accesses to each object, in order: a counting sort.
	b.chain = zeroed(b.chain, len(b.count)+1)
	for i, n := range b.count {
		b.chain[i+1] = b.chain[i] + n
		b.count[i] = b.chain[i]
	}
	b.byChain = zeroed(b.byChain, len(c.accs))
	for u, o := range b.object {
		b.byChain[b.count[o]] = int32(u)
		b.count[o]++
	}
}

func (b *builder) alloc(size int) {
	b.tab = make([]named, size)
	b.shift = uint8(64 - bits.TrailingZeros(uint(size)))
}

// find returns the entry of key, or the empty entry where key belongs.
func (b *builder) find(key object) *named {
	mask := uint(len(b.tab) - 1)
	i := uint(uint64(addr(key)) * 0x9E3779B97F4A7C15 >> (b.shift & 63))
	for b.tab[i&mask].key != nil && b.tab[i&mask].key != key {
		i++
	}
	return &b.tab[i&mask]
}

// chains makes the raw edges of each object's chain: from each segment to the next, and from the
// last to the first of the next round.
func (b *builder) chains() {
	b.from, b.keys = b.from[:0], b.keys[:0]
	for o := range len(b.chain) - 1 {
		b.split(b.chain[o], b.chain[o+1])
		g := b.runs
		n := len(g)
		if n == 1 {
			// its accesses do not order each other; or it is one task, which follows itself anyway
			continue
		}
		lo, hi := 0, n-1
		if !b.apart && g[0].kind == g[n-1].kind && g[0].kind != ModeInOut {
			lo, hi = 1, n-2 // the last segment continues in the next round
		}
		for i := lo; i < hi; i++ {
			b.connect(g[i:i+1], g[i+1:i+2])
		}
		start := []segment{g[lo].nextRound()}
		switch {
		case b.apart:
		case lo == 0:
			b.connect(g[n-1:], start)
		default:
			seam := []segment{g[n-1], g[0].nextRound()}
			b.connect(g[hi:hi+1], seam)
			b.connect(seam, start)
		}
	}
}

// split cuts byChain[lo:hi], a chain, into segments.
func (b *builder) split(lo, hi int32) {
	b.runs = b.runs[:0]
	for i := lo; i < hi; i++ {
		kind := b.c.accs[b.byChain[i]].mode.order()
		if kind == ModeCommutative {
			kind = ModeInOut // creation order is one of the legal orders
		}
		if n := len(b.runs); n > 0 && kind != ModeInOut && b.runs[n-1].kind == kind {
			b.runs[n-1].hi++
			continue
		}
		b.runs = append(b.runs, segment{lo: i, hi: i + 1, kind: kind})
	}
}

// nextRound returns s in the next round.
func (s segment) nextRound() segment {
	s.inNext = true
	return s
}

// connect makes edges from all of x to all of y. Only the last segment of x and the first of y may
// be in another round than the rest, as at a seam, so that a joint can be in a round between.
func (b *builder) connect(x, y []segment) {
	k, l := 0, 0
	for _, s := range x {
		k += int(s.hi - s.lo)
	}
	for _, s := range y {
		l += int(s.hi - s.lo)
	}
	if !joinAt(k, l) {
		for _, s := range x {
			for _, d := range y {
				for i := s.lo; i < s.hi; i++ {
					for j := d.lo; j < d.hi; j++ {
						b.edge(b.byChain[i], b.owner[b.byChain[j]], d.inNext && !s.inNext)
					}
				}
			}
		}
		return
	}
	joint := int32(b.nodes)
	b.nodes++
	mid := x[len(x)-1].inNext
	for _, s := range x {
		for i := s.lo; i < s.hi; i++ {
			b.edge(b.byChain[i], joint, mid && !s.inNext)
		}
	}
	for _, d := range y {
		for j := d.lo; j < d.hi; j++ {
			b.raw(joint, b.owner[b.byChain[j]], d.inNext && !mid, 0)
		}
	}
}

// edge makes a raw edge for an access.
func (b *builder) edge(acc, to int32, next bool) {
	t := b.owner[acc]
	b.raw(t, to, next, uint64(acc-b.c.first[t])+1)
}

func (b *builder) raw(from, to int32, next bool, acc uint64) {
	k := uint64(to)<<33 | acc
	if next {
		k |= 1 << 32
	}
	b.from = append(b.from, from)
	b.keys = append(b.keys, k)
}

// collect makes the edges of the raw ones: those of one origin together, in the order of their
// targets; those with the same origin, target and round as one.
func (b *builder) collect() {
	c := b.c
	b.begin = zeroed(b.begin, b.nodes+1)
	begin := b.begin
	for _, f := range b.from {
		begin[f+1]++
	}
	for i := range b.nodes {
		begin[i+1] += begin[i]
	}
	b.sorted = zeroed(b.sorted, len(b.keys))
	sorted := b.sorted
	for i, f := range b.from {
		sorted[begin[f]] = b.keys[i]
		begin[f]++ // ends as the begin of the next origin
	}
	edges, lo := b.edges[:0], int32(0)
	c.sets = make([]int32, 0, len(sorted))
	c.out = make([]int32, b.nodes+1)
	for n, hi := range begin[:b.nodes] {
		keys := sorted[lo:hi]
		lo = hi
		sortKeys(keys)
		for i, k := range keys {
			if i == 0 || keys[i-1]>>32 != k>>32 {
				at := int32(len(c.sets))
				edges = append(edges, Edge{To: int32(k >> 33), Next: k>>32&1 != 0, lo: at, hi: at})
			}
			if acc := int32(uint32(k)) - 1; acc >= 0 {
				c.sets = append(c.sets, acc)
				edges[len(edges)-1].hi++
			}
		}
		c.out[n+1] = int32(len(edges))
	}
	b.edges, c.edges = edges, slices.Clone(edges)
}

// sortKeys sorts; most nodes have a few edges.
func sortKeys(k []uint64) {
	if len(k) > 16 {
		slices.Sort(k)
		return
	}
	for i := 1; i < len(k); i++ {
		for j := i; j > 0 && k[j] < k[j-1]; j-- {
			k[j], k[j-1] = k[j-1], k[j]
		}
	}
}

// reduce drops an edge u → v that two others imply: u → w and w → v, in as many rounds or fewer, if
// u → w waits for every object that u → v waits for. Then nothing changes if u gives some of its
// objects up early, since w, and v after it, starts no earlier than u → w allows. With w = v, an
// edge to the next round is dropped for the same edge within the round, since v follows itself.
func (b *builder) reduce() {
	c := b.c
	b.gone = zeroed(b.gone, len(c.edges))
	gone := b.gone
	left := len(gone)
	for u := range c.Tasks() {
		lo, hi := c.out[u], c.out[u+1]
		if hi-lo > reduceMax {
			continue
		}
		for i := lo; i < hi; i++ {
			if e := c.edges[i]; int(e.To) < c.Tasks() && b.implied(e, i, lo, hi, gone) {
				gone[i] = true
				left--
			}
		}
	}
	if left == len(gone) {
		return
	}
	kept := c.edges[:0]
	lo := int32(0)
	for n := range b.nodes {
		hi := c.out[n+1]
		for i := lo; i < hi; i++ {
			if !gone[i] {
				kept = append(kept, c.edges[i])
			}
		}
		c.out[n+1], lo = int32(len(kept)), hi
	}
	c.edges = kept
}

// implied reports whether other edges imply e, the edge at i of the node with the edges lo to hi.
func (b *builder) implied(e Edge, i, lo, hi int32, gone []bool) bool {
	c := b.c
	for j := lo; j < hi; j++ {
		a := c.edges[j]
		if j == i || gone[j] || a.Next && !e.Next || !covers(c.Objects(a), c.Objects(e)) {
			continue
		}
		if a.To == e.To || b.leads(a.To, e.To, e.Next && !a.Next, gone) {
			return true
		}
	}
	return false
}

// leads reports whether there is an edge from node w to v that stays in the round or, with next,
// leads at most to the next round.
func (b *builder) leads(w, v int32, next bool, gone []bool) bool {
	c := b.c
	lo, hi := c.out[w], c.out[w+1]
	es := c.edges[lo:hi]
	k, _ := slices.BinarySearchFunc(es, v, func(e Edge, v int32) int { return int(e.To - v) })
	for ; k < len(es) && es[k].To == v; k++ {
		if !gone[int(lo)+k] && (next || !es[k].Next) {
			return true
		}
	}
	return false
}

// covers reports whether all contains x; both are sorted.
func covers(all, x []int32) bool {
	for _, v := range x {
		for len(all) > 0 && all[0] < v {
			all = all[1:]
		}
		if len(all) == 0 || all[0] != v {
			return false
		}
	}
	return true
}

// sortAccesses sorts the accesses of a task, and with them their objects, by address.
func sortAccesses(accs []Access, objects []int32) {
	type numbered struct {
		a      Access
		object int32
	}
	both := make([]numbered, len(accs))
	for i := range both {
		both[i] = numbered{accs[i], objects[i]}
	}
	slices.SortFunc(both, func(x, y numbered) int { return cmp.Compare(addr(x.a.ptr), addr(y.a.ptr)) })
	for i := range both {
		accs[i], objects[i] = both[i].a, both[i].object
	}
}

// The accesses of a task are numbered in the order of its list while they are few. If they are more
// than scanMax, or pieces of memory, they are in the order of their addresses, so that a search
// takes logarithmic time.

// Find returns the numbers [lo, hi) of the accesses of a task that make up x. They must be declared
// in just this mode and strength, as Release demands. In a cycle of ranges these are the pieces
// that are wholly inside x.
func (c *Cycle) Find(task int, x Access) (lo, hi int, err error) {
	accs := c.Accesses(task)
	if c.ranged {
		return pieces(accs, x)
	}
	if x.isRange() && x.size() == 0 {
		return 0, 0, nil
	}
	i := -1
	if !x.isRange() {
		i = findAccess(accs, x)
	}
	if i < 0 {
		return 0, 0, fmt.Errorf("deps: Release of %v: the task has not declared an access to this object", x)
	}
	if u := accs[i]; u.mode.order() != x.mode.order() || u.weak != x.weak {
		return 0, 0, fmt.Errorf("deps: Release of %v: the task has declared %v", x, u)
	}
	return i, i + 1, nil
}

// findAccess returns the index of the access to the object of x; -1 if there is none.
func findAccess(accs []Access, x Access) int {
	if len(accs) <= scanMax {
		return slices.IndexFunc(accs, func(u Access) bool { return u.ptr == x.object() })
	}
	if i, ok := slices.BinarySearchFunc(accs, addr(x.object()), func(u Access, at uintptr) int { return cmp.Compare(addr(u.ptr), at) }); ok {
		return i
	}
	return -1
}

// Meeting returns a range [lo, hi) of numbers that includes all accesses of a task that x meets.
func (c *Cycle) Meeting(task int, x Access) (lo, hi int) {
	accs := c.Accesses(task)
	switch {
	case c.ranged:
		from, to := x.extent()
		lo = firstEndingAfter(accs, from)
		hi, _ = slices.BinarySearchFunc(accs, to, func(u Access, at uintptr) int { return cmp.Compare(addr(u.ptr), at) })
		return lo, max(lo, hi)
	case x.isRange(): // the objects may overlap
		return 0, len(accs)
	}
	if i := findAccess(accs, x); i >= 0 {
		return i, i + 1
	}
	return 0, 0
}
