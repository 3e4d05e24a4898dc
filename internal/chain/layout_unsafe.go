// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"sync/atomic"
	"unsafe"

	"weft/internal/xatomic"
)

// The types of the engine and their layout in memory. README.md says which goroutine owns which
// field.

// A Node is one task as the dependency engine sees it. A runtime embeds it in its own task and
// calls, in this order:
//
//	parent.Register(n, accesses, flow)   by the parent's body, when it makes the task
//	n.Release(access, flow)              by the body, any number of times
//	n.Finish(flow)                       once: gives up the accesses
//	n.Retire()                           once: the task and all its descendants are over
//
// After each call the runtime takes from the Flow the nodes that became ready or free. A node that
// NextFree returns may be registered again, for another task.
type Node struct {
	// First cache line: the fields that other tasks write as tokens pass, and those that the
	// runtime reads for every task.
	accs [blockLen]access // the first accesses

	// pending is the number of strong accesses that may not start yet, plus one while the node is
	// being registered. It becomes zero once.
	pending xatomic.Int32

	// refs is the number of accesses that are not at rest, plus one until Retire. It becomes zero
	// once; or leftToGC, if an access lingers.
	refs xatomic.Int32

	count int32 // number of accesses, one for each object; constant once registered

	// rested is the number of accesses that came to rest during Finish, at most maxRested; Retire
	// subtracts them from refs. Before Finish it says whether the node needs exclusion: exclWants,
	// exclHolds, or zero.
	rested int8

	hasDom bool   // dom is not nil; tests of this need not load dom's line
	Flags  uint16 // for the runtime, as Parent is
	Parent *Node

	// Second line: where the tokens go. A task without accesses does not touch it.
	succs [blockLen]*access
	more  *[]accessBlock // the accesses after the first blockLen; nil if there never were any
	// the children's chains; nil until a child names an object; owned by the body
	dom *domain
	_   [8]byte // pads to the end of the line

	// Third line: the objects. The rest of the line holds what the runtime writes for each task.
	objs [blockLen]object
}

// Values of Node.rested before Finish. Register sets it; after that it belongs to the goroutine
// that has the node in hand: the one that took it from a Flow, or the one that gives it its
// objects.
const (
	exclWants = -1 // Acquire must be called before the task starts
	exclHolds = -2 // the node has its objects
)

// maxKept is the largest number of accesses for which a node keeps memory for its next task
// (guess).
const maxKept = 64

// restsForGood is the Node.rested of a node that is retired for good. RetireForGood writes it
// before it subtracts its share of refs; the goroutine that brings refs to zero reads it.
const restsForGood = -3

// access is one task's access to one object: a link in the object's chain. It holds only what other
// tasks write as tokens pass, so that all accesses of a stencil's task, with the counters of its
// node, fit in one cache line (README.md, "Memory layout"). The other parts of an access are in two
// other lines, at a fixed distance from it: see succ and ref.
type access struct {
	state    xatomic.Uint32
	released bool   // by Release; owned by the body
	pos      uint8  // index in its block (see owner), and four bits of the size
	sizeLo   uint16 // low bits of the number of bytes that the chain covers (extent.go)
}

// blockLen is the number of accesses in a block: those of a five-point stencil.
const blockLen = 5

// An accessBlock is storage for five accesses. A Node begins with the layout of one block for its
// first five accesses, and uses the padding for its own fields. Tasks with more accesses have
// further blocks.
type accessBlock struct {
	accs  [blockLen]access
	owner *Node // constant once registered
	_     [2]uint64
	succs [blockLen]*access
	_     [3]uint64
	refs  [blockLen]object
	_     [3]uint64 // pads to whole cache lines, so that blocks of two tasks share none
}

// Distances from an access to its succ and its ref.
const (
	toSucc = unsafe.Offsetof(accessBlock{}.succs)
	toRef  = unsafe.Offsetof(accessBlock{}.refs)
)

// Fails to compile when a Node does not begin with the layout of a block, or when accs, succs and
// refs of a block do not have the same stride.
const (
	_ = -(toSucc ^ unsafe.Offsetof(Node{}.succs))
	_ = -(toRef ^ unsafe.Offsetof(Node{}.objs))
	_ = -unsafe.Offsetof(Node{}.accs)
	_ = -(unsafe.Sizeof(access{}) ^ unsafe.Sizeof(uintptr(0)))
)

// Bits of access.pos.
const (
	blockIndex   = 7      // index in the block
	inExtraBlock = 1 << 3 // the block is not the node's first
	posBits      = 4      // number of bits above; the rest are the highest bits of the size
)

// at returns n's access i.
func (n *Node) at(i int32) *access {
	if i < blockLen {
		return &n.accs[i]
	}
	i -= blockLen
	return &(*n.more)[i/blockLen].accs[i%blockLen]
}

// posOf returns the position bits of access i of a node.
func posOf(i int32) uint8 {
	if i < blockLen {
		return uint8(i)
	}
	return uint8(i%blockLen) | inExtraBlock
}

// owner returns the node of a; nil if a is a bridge. It is constant once registered.
func (a *access) owner() *Node {
	first := unsafe.Add(unsafe.Pointer(a), -int(a.pos&blockIndex)*int(unsafe.Sizeof(*a)))
	if a.pos&inExtraBlock == 0 {
		return (*Node)(first)
	}
	return (*accessBlock)(first).owner
}

// succ returns the next access in the chain, or the parent's access. It is written before hasNext.
func (a *access) succ() *access        { return *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) }
func (a *access) setSucc(next *access) { *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) = next }

// ref returns the object, and keeps it alive, until a child's access is linked. From then on
// (hasChild) it returns the first child's access; the object is then in the table of the domain.
// For a bridge it returns the bridge.
func (a *access) ref() object            { return *(*object)(unsafe.Add(unsafe.Pointer(a), toRef)) }
func (a *access) setRef(o object)        { *(*object)(unsafe.Add(unsafe.Pointer(a), toRef)) = o }
func (a *access) setChild(first *access) { a.setRef(object(unsafe.Pointer(first))) }

// Functions, not methods: the type access must not name types with parts that are instances of
// generic types (see rangesRef).

func setBridge(a *access, b *bridge) { a.setRef(object(unsafe.Pointer(b))) }

func bridgeOf(a *access) *bridge { return (*bridge)(unsafe.Pointer(a.ref())) }

// succLate is succ for the sender of a message that may be late.
func (a *access) succLate() *access { return (*access)(atomic.LoadPointer(a.word(toSucc))) }

// childLate returns the first child's access, for the sender of a message that may be late.
// Precondition: hasChild.
func (a *access) childLate() *access { return (*access)(atomic.LoadPointer(a.word(toRef))) }
func (a *access) cutSucc()           { atomic.StorePointer(a.word(toSucc), nil) }
func (a *access) cutChild()          { atomic.StorePointer(a.word(toRef), nil) }

func (a *access) word(at uintptr) *unsafe.Pointer {
	return (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(a), at))
}

// A domain is the table of the objects that the children of one task have named so far. It has the
// last access of each object's chain. It is owned by the body of the parent and needs no lock: only
// that body adds children, and the end of the body closes the domain.
//
// An access that is in a table never comes to rest: rest needs a successor or the closed bit, and
// only the owner of the table sets these.
type domain struct {
	tab []entry // open addressing, linear probing, a power of two long
	// the parent's own accesses, by index in tab: zero where it has none; nil if it has none at all
	ups   []upper
	mul   uint64 // multiplier of the hash; see home
	shift uint8  // 64 - log2(len(tab))
	n     int    // keys in use

	dropped     recentKeys // keys that sweeps have dropped
	added, back int        // keys added since the last rebuild, and how many of them are in dropped

	// For Release, while the table is empty.
	releaseHint int32   // index of the parent's access that Release found last
	own         *domain // table of the parent's accesses; nil if not needed

	ranges rangesRef           // none until a child names a range; then tab is empty
	big    map[uintptr]uintptr // sizes of large objects (extent.go); nil if none
}

// An entry is a quarter of a cache line, and never crosses two lines: large tables are mostly not
// in the first-level cache.
//
// The key is a number, so the table keeps no object alive. The accesses of a chain do, until their
// tasks are over. So an address that is reused for a new object finds a chain that is over, which
// orders nothing.
type entry struct {
	key  uintptr
	last *access // end of the chain: a child's access, or the parent's own
}

// upper is the parent's own access to an object. It keeps the object alive, which the access itself
// cannot do once it has a child.
type upper struct {
	a   *access
	obj object
}

// A Flow carries tokens: it is the work list of one goroutine, reused from call to call. After a
// call it has the nodes that the call made ready and those that it set free. The zero value is
// ready for use.
//
// A Flow belongs to one goroutine at a time and is not reentrant.
type Flow struct {
	// Join, if not nil, is called for each Reduce access that Register meets, before any other
	// goroutine can reach the child. If it returns a reason why the child cannot take part,
	// Register panics with that reason. Register may also panic after Join has returned.
	Join func(parent, child *Node, x Access) (why string)

	work  []step // effects that became true and are not carried out yet
	ready queue
	free  queue

	// The node that Finish is working on. Its accesses that come to rest meanwhile are counted here
	// instead of in its shared counter.
	cur     *Node
	curRest int32

	// For domains of ranges: messages to records, and messages from sinks to accesses.
	msgs []message
	outs []out

	locks locks // lists for the exclusion table
}

// step is an access with effects that became true and are not carried out yet.
type step struct {
	a   *access
	s   uint32 // state in which they are true
	old uint32 // state before
	eff uint32
}

// queue is a first-in, first-out list of nodes. It is not linked through the nodes, because most of
// their lines are in another processor's cache.
type queue struct {
	nodes []*Node
	head  int // number of nodes taken out
}

func (q *queue) push(n *Node) {
	if len(q.nodes) == cap(q.nodes) && q.head > len(q.nodes)/2 {
		// so that a queue that is never empty stays small
		q.nodes, q.head = removeAt(q.nodes, 0, q.head), 0
	}
	q.nodes = append(q.nodes, n)
}

func (q *queue) pop() *Node {
	if q.head == len(q.nodes) {
		return nil
	}
	n := q.nodes[q.head]
	q.nodes[q.head] = nil
	if q.head++; q.head == len(q.nodes) {
		q.nodes, q.head = q.nodes[:0], 0
	}
	return n
}

// message carries bits to the bytes [lo, hi) of a record.
type message struct {
	to     recordRef
	lo, hi uintptr
	bits   uint32
}

// out carries bits from a sink to an access.
type out struct {
	a    *access
	bits uint32
}

type extent struct{ lo, hi uintptr }

// locks is the part of a Flow for the exclusion table. Objects and bytes have separate lists: a
// task that has only objects pays nothing for ranges.
type locks struct {
	keys    []object   // scratch of Acquire
	dropped []drop     // holds on objects that have ended in this call
	bytes   []byteDrop // holds on bytes that have ended in this call
	free    []uintptr  // scratch of giveBack: first addresses of freed pieces that have waiters
}

// drop is a hold that has ended. It refers to no access, whose memory may serve another task before
// the hold is given back.
type drop struct {
	key   object
	owner *Node // compared, never dereferenced
}

func (l *locks) drop(key object, owner *Node) { l.dropped = append(l.dropped, drop{key, owner}) }

// byteDrop is drop for bytes.
type byteDrop struct {
	owner *Node
	extent
}

// Node and Flow are embedded in types of other packages, so they refer to the types of ranges by
// untyped pointers. Those types contain instances of generic types. With typed pointers the
// compiler would put the code of the instances into every package that uses a Node, and the linker
// could take it from any of these. A build that leaves this package out of the race detector
// (package task's lint mode) would then get it back in.

// rangesRef is a *ranges.
type rangesRef struct{ p unsafe.Pointer }

// recordRef is a *record.
type recordRef struct{ p unsafe.Pointer }

func inRanges(d *domain) *ranges     { return (*ranges)(d.ranges.p) }
func setRanges(d *domain, r *ranges) { d.ranges.p = unsafe.Pointer(r) }

func refer(r *record) recordRef  { return recordRef{unsafe.Pointer(r)} }
func target(r recordRef) *record { return (*record)(r.p) }

// rangesOf returns the ranges of the domain of n's children; nil if it has none, or if there is no
// domain.
func rangesOf(n *Node) *ranges {
	if n.dom == nil {
		return nil
	}
	return inRanges(n.dom)
}
