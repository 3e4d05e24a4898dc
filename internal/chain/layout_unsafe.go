// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"sync/atomic"
	"unsafe"

	"weft/internal/xatomic"
)

// What the engine is made of, and where it lies in memory. Who owns what is in README.md.

// A Node is one task as the dependency engine sees it. A runtime embeds it in its
// own task and calls, in this order:
//
//	parent.Register(n, accesses, flow)   by the parent's body, when it makes the task
//	n.Release(access, flow)              by the body, as often as it likes
//	n.Finish(flow)                       once: the accesses are given up
//	n.Retire()                           once: the task and all its descendants are over
//
// and takes what became ready or free from the Flow after each call. A node that
// comes out of NextFree may be registered again, for another task.
type Node struct {
	// The cache line that others write in passing; and what the runtime looks at, whatever the
	// task.
	accs [groupLen]access // the first accesses

	// pending is the number of strong accesses that may not start yet, plus
	// one while the node is being registered. It becomes zero once.
	pending xatomic.Int32

	// refs is the number of accesses that are not over, plus one until
	// Retire. It becomes zero once; or isLeft, if an access lingers.
	refs xatomic.Int32

	count int32 // accesses, one for each object; constant once registered

	// rested accesses were counted by Finish, which counts up to maxRested, and are subtracted by
	// Retire. Before that, it says whether the node needs exclusion: exclWants, exclHolds, or zero.
	rested int8

	hasDom bool   // dom is not nil: who does not need dom itself need not touch its line
	Flags  uint16 // the runtime's own, as the next
	Parent *Node

	// The next line, which a task without accesses does not touch, has where the tokens go.
	succs [groupLen]*access
	more  *[]group // the accesses that the node itself has no room for; nil if there never were any
	dom   *domain  // the children's objects; nil until a child names one; owned by the body
	_     [8]byte  // to the end of the line

	// Then come the objects. The rest of their line is for what the runtime writes for each task.
	objs [groupLen]object
}

// Values of Node.rested before Finish. The creator sets it in Register, and then whoever has
// the node in hand: who took it from a Flow, or the one that grants it its objects.
const (
	exclWants = -1 // Acquire is to be called before the task may start
	exclHolds = -2 // the node has its objects
)

// maxKept is the largest number of accesses for which a node keeps memory for its next task
// (guess).
const maxKept = 64

// restsForGood is the Node.rested of a node that is retired for good. It is written before the last
// of refs that are the caller's are given up, and read by who gives up the last of all.
const restsForGood = -3

// access is one task's use of one object, a link in the object's chain. It is what other tasks
// write in passing, and no more, so that all accesses of a stencil's task, with the counters of its
// node, are one cache line (README.md, "Where things lie"). What else belongs to an access is in
// two other lines, each as far from it as from any other: see succ and ref.
type access struct {
	state  xatomic.Uint32
	given  bool   // given up by Release; owned by the body
	place  uint8  // in its group: see owner; and four bits of the size
	sizeLo uint16 // bytes that the chain covers (extent.go)
}

// groupLen is how many accesses have one group: those of a stencil.
const groupLen = 5

// A group is memory for accesses. A Node begins with a group, for its first accesses, with its own
// fields in the gaps; tasks with more accesses have more groups.
type group struct {
	accs  [groupLen]access
	owner *Node // constant once registered
	_     [2]uint64
	succs [groupLen]*access
	_     [3]uint64
	refs  [groupLen]object
	_     [3]uint64 // to a whole number of cache lines, so that two tasks' groups share none
}

// How far succ and ref of an access are from it.
const (
	toSucc = unsafe.Offsetof(group{}.succs)
	toRef  = unsafe.Offsetof(group{}.refs)
)

// Fails to compile when a Node does not begin as a group does, or what belongs to the accesses of a
// group is not as far apart as they are.
const (
	_ = -(toSucc ^ unsafe.Offsetof(Node{}.succs))
	_ = -(toRef ^ unsafe.Offsetof(Node{}.objs))
	_ = -unsafe.Offsetof(Node{}.accs)
	_ = -(unsafe.Sizeof(access{}) ^ unsafe.Sizeof(uintptr(0)))
)

// Bits of access.place.
const (
	placeIn   = 7      // index in the group
	elsewhere = 1 << 3 // the group is not the node's own
	placeBits = 4      // above them: the highest bits of the size
)

// at returns n's access i.
func (n *Node) at(i int32) *access {
	if i < groupLen {
		return &n.accs[i]
	}
	i -= groupLen
	return &(*n.more)[i/groupLen].accs[i%groupLen]
}

// placeOf is the place of access i of a node.
func placeOf(i int32) uint8 {
	if i < groupLen {
		return uint8(i)
	}
	return uint8(i%groupLen) | elsewhere
}

// owner returns the node of a; nil if it is a bridge. It is constant once registered.
func (a *access) owner() *Node {
	first := unsafe.Add(unsafe.Pointer(a), -int(a.place&placeIn)*int(unsafe.Sizeof(*a)))
	if a.place&elsewhere == 0 {
		return (*Node)(first)
	}
	return (*group)(first).owner
}

// succ returns the next access in the chain, or the parent's access. It is written before hasNext.
func (a *access) succ() *access        { return *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) }
func (a *access) setSucc(next *access) { *(**access)(unsafe.Add(unsafe.Pointer(a), toSucc)) = next }

// ref returns the object, which it keeps alive, until a child's access is linked; from then on, by
// hasChild, it is the first of those, and the object is in the table of the domain. A bridge has
// the bridge there.
func (a *access) ref() object            { return *(*object)(unsafe.Add(unsafe.Pointer(a), toRef)) }
func (a *access) setRef(o object)        { *(*object)(unsafe.Add(unsafe.Pointer(a), toRef)) = o }
func (a *access) setChild(first *access) { a.setRef(object(unsafe.Pointer(first))) }

// These are no methods: the type access is not to name what has parts that are instances of generic
// types (see rangesRef).

func setBridge(a *access, b *bridge) { a.setRef(object(unsafe.Pointer(b))) }

func bridgeOf(a *access) *bridge { return (*bridge)(unsafe.Pointer(a.ref())) }

// succLate is succ for who has a message, perhaps late.
func (a *access) succLate() *access { return (*access)(atomic.LoadPointer(a.word(toSucc))) }

// childLate is the same for the first access of a child. Precondition: hasChild.
func (a *access) childLate() *access { return (*access)(atomic.LoadPointer(a.word(toRef))) }
func (a *access) cutSucc()           { atomic.StorePointer(a.word(toSucc), nil) }
func (a *access) cutChild()          { atomic.StorePointer(a.word(toRef), nil) }

func (a *access) word(at uintptr) *unsafe.Pointer {
	return (*unsafe.Pointer)(unsafe.Add(unsafe.Pointer(a), at))
}

// A domain is the table of the objects that the children of one task have
// named so far: for each the last access of its chain. It is owned by the body of
// the parent and needs no lock: only that body adds children, and the end of the
// body closes it.
//
// An access that is in a table never comes to rest, because rest needs a
// successor or the closed bit, and both are the owner's to give.
type domain struct {
	tab []entry // open addressing, linear probing, a power of two long
	// by index in tab: the parent's own access to the object, if it has one; nil if it has none to
	// any
	ups   []upper
	mul   uint64 // see home
	shift uint8  // 64 - log2(len(tab))
	n     int    // keys in use

	dropped     memory // what sweeps have dropped
	added, back int    // keys since the table had its size, and how many of them had been dropped

	// For Release, while the table is empty.
	released int32   // where it has found the parent's access last; a hint
	own      *domain // table of the parent's accesses; nil if it is not needed

	ranges rangesRef           // none until a range is named; then the table is empty
	big    map[uintptr]uintptr // sizes of large objects (extent.go); nil if there are none
}

// An entry is a quarter of a cache line, and never in two. Large tables are mostly not in the first
// cache.
//
// The key is a number: the table keeps no object alive. The accesses of a chain do, until their
// tasks are over, so an address that serves a new object finds a chain that is over, and orders
// nothing.
type entry struct {
	key  uintptr
	last *access // end of the chain: a child's access, or the parent's own
}

// upper is the parent's own access to an object. It keeps the object alive: the access itself
// cannot, once it has a child.
type upper struct {
	a   *access
	obj object
}

// A Flow carries tokens: it is the work list of one goroutine, reused from call to
// call. What a call made ready, and what it set free, is taken from the Flow
// afterwards. The zero value is ready for use.
//
// A Flow belongs to one goroutine at a time and is not reentrant.
type Flow struct {
	// Join, if not nil, is called for each Reduce access that Register meets, before anybody else
	// can reach the child. If it says why the child cannot take part, Register panics with that.
	// Register may also panic afterwards.
	Join func(parent, child *Node, x Access) (why string)

	work  []step // deliveries whose effects are still to be carried out
	ready queue
	free  queue

	// The node that is being finished: its accesses that come to rest
	// meanwhile are counted here instead of in its shared counter.
	cur     *Node
	curRest int32

	// The same for domains of ranges: messages to records, and from sinks to accesses.
	msgs []message
	outs []out

	locks locks // what a call takes and gives back of the exclusion
}

// step is an access with effects that became true and are not carried out yet.
type step struct {
	a   *access
	s   uint32 // state that made them true
	old uint32 // state before
	eff uint32
}

// queue is a list of nodes, first in, first out. It is not linked through the nodes, most of whose
// lines are in another processor's cache.
type queue struct {
	nodes []*Node
	head  int // nodes that are taken out
}

func (q *queue) push(n *Node) {
	if len(q.nodes) == cap(q.nodes) && q.head > len(q.nodes)/2 {
		// one that is never empty does not grow for that
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

// message is bits for some bytes of a record.
type message struct {
	to     recordRef
	lo, hi uintptr
	bits   uint32
}

// out is a message from a sink to an access.
type out struct {
	a    *access
	bits uint32
}

type extent struct{ lo, hi uintptr }

// locks is the part of a Flow that deals with exclusion. Objects and bytes have lists of their own:
// a task that has objects only pays nothing for ranges.
type locks struct {
	keys    []object   // scratch of Acquire
	dropped []drop     // holds on objects that have ended in this call
	bytes   []byteDrop // the same for bytes
	free    []uintptr  // scratch of giveBack: where pieces begin that somebody waits for
}

// drop is a hold that has ended. It names no access, whose memory may serve another task before the
// hold is given back.
type drop struct {
	key   object
	owner *Node // only compared
}

func (l *locks) drop(key object, owner *Node) { l.dropped = append(l.dropped, drop{key, owner}) }

// byteDrop is drop for bytes.
type byteDrop struct {
	owner *Node
	extent
}

// Nodes and Flows are parts of other packages' types, and name what ranges are made of without its
// type: these types have parts that are instances of generic ones, whose code the compiler would
// put into every package that uses a Node, and the linker into the program from any of them. A
// build that leaves this package out of the race detector (package task's lint mode) would get it
// back in by that door.

// rangesRef is a *ranges.
type rangesRef struct{ p unsafe.Pointer }

// recordRef is a *record.
type recordRef struct{ p unsafe.Pointer }

func inRanges(d *domain) *ranges     { return (*ranges)(d.ranges.p) }
func setRanges(d *domain, r *ranges) { d.ranges.p = unsafe.Pointer(r) }

func refer(r *record) recordRef  { return recordRef{unsafe.Pointer(r)} }
func target(r recordRef) *record { return (*record)(r.p) }

// rangesOf returns what the domain of n's children has for ranges; nil if there is none, or no
// domain.
func rangesOf(n *Node) *ranges {
	if n.dom == nil {
		return nil
	}
	return inRanges(n.dom)
}
