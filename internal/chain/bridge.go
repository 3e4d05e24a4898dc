// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// ranges is what a domain has besides its table when a range of memory is named in it, or in the
// parent's own domain. From then on all accesses in the domain are records.
// It is owned by the body of the parent, as the domain is; the records have locks.
type ranges struct {
	// own is what the parent has declared, if its own domain is one of ranges. The
	// parent has no accesses then. It has fragments if and only if there is something.
	own  record
	keep object // keeps what own names alive until the parent's body ends
	more []object

	// last is the last record of each byte that the children have named; own where no child has
	// yet; gone where the parent has given the byte up. A byte that is not there is free: whoever
	// names it needs not wait.
	last  *spans[*record] // nil until the first child or Release
	cover []extent        // what own covers; set with last

	// The parent's objects, if its own domain is one of objects.
	sink *sink
	tops []*top // by address

	given *spans[none] // bytes that no child may name any more; nil if none
	held  *spans[none] // bytes that the parent, or a task above it, holds; nil if none

	// the objects of these; constant once the parent's body runs, and before the first range
	heldKeys []object

	// shared are the objects that tasks above have declared weak Commutative in a domain of
	// objects: their cousins there take the object, so whoever takes a part of it here takes the
	// object too. Constant as heldKeys.
	shared []sharedObject
}

// A domain whose children have named objects only, and now name a range, has chains of objects. A
// gate continues them: for the ranges it is a record like any other, the last one of all bytes that
// the chains cover. It is transparent: weak, given up, and of a group, so that what comes in goes
// out.
//
// What comes in is brought by bridges, one for each chain: a bridge is an access at the end of the
// chain of objects. Bytes that several chains cover have a token when all of these chains have
// brought it.
type gate struct {
	record
	feeds spans[feed] // the bytes; guarded by mu of the record
}

// feed is how many bridges have not brought a token yet.
type feed struct{ r, w, g int32 }

// bridge ends a chain of objects in a gate. For the chain it is a weak access which has the gate as
// its child: it takes what comes to its in-port, and never gives anything up.
type bridge struct {
	group  // of one access
	gate   *gate
	lo, hi uintptr
}

const gateState = isGroup | isWeak | through

// cover adds a bridge for [lo, hi).
func (g *gate) cover(lo, hi uintptr) *bridge {
	b := &bridge{gate: g, lo: lo, hi: hi}
	a := b.access()
	a.place = elsewhere
	a.state.Init(isGroup | isWeak | isBridge)
	setBridge(a, b)
	g.frags.fill(lo, hi, func(s *span[frag], _ bool) { s.v.state = gateState })
	g.feeds.fill(lo, hi, func(s *span[feed], _ bool) {
		s.v.r++
		s.v.w++
		s.v.g++
	})
	return b
}

// access returns the bridge as the chain sees it.
func (b *bridge) access() *access { return &b.accs[0] }

// cross brings what became true for the bridge a to its gate.
func (f *Flow) cross(a *access, e uint32) {
	b := bridgeOf(a)
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := g.feeds.seek(b.lo); g.feeds.has(p) && g.feeds.at(p).lo < b.hi; p = g.feeds.next(p) {
		s := g.feeds.at(p)
		if bits := count(&s.v.r, e&childR)*hasR | count(&s.v.w, e&childW)*hasW | count(&s.v.g, e&childG)*hasG; bits != 0 {
			g.add(s.lo, s.hi, bits, f)
		}
	}
}

// count takes one from n if is is not zero, and returns 1 if that makes n zero, else 0.
func count(n *int32, is uint32) uint32 {
	if is != 0 {
		if *n--; *n == 0 {
			return 1
		}
	}
	return 0
}

// A sink is the successor of the last children's records on the bytes of the objects that the
// parent has declared, where the parent's own domain is one of objects. It gathers the tokens of
// all bytes of an object for the parent's access.
type sink struct {
	record
	tops spans[[]*top] // by byte; constant once the sink is made
}

// top is an access of the parent. Its counters are guarded by mu of the sink.
type top struct {
	a      *access
	lo, hi uintptr
	r, w   uintptr // bytes whose token has not come, plus one until the access is given up
	sentR  bool
}

// sinkState: whatever comes in goes to pass.
const sinkState = isWeak | hasChild

func newSink() *sink {
	k := new(sink)
	k.record.sink = k
	return k
}

// cover adds the parent's access a to [lo, hi).
func (k *sink) cover(a *access, lo, hi uintptr) *top {
	t := &top{a: a, lo: lo, hi: hi, r: hi - lo + 1, w: hi - lo + 1}
	k.frags.fill(lo, hi, func(s *span[frag], _ bool) { s.v.state = sinkState })
	k.tops.fill(lo, hi, func(s *span[[]*top], _ bool) {
		s.v = append(s.v[:len(s.v):len(s.v)], t) // a cut has made two of one list
	})
	return t
}

// pass counts tokens that have come for [lo, hi).
//
// +checklocks:k.mu
func (k *sink) pass(lo, hi uintptr, e uint32, f *Flow) {
	k.tops.walk(lo, hi, func(lo, hi uintptr, list *[]*top) {
		for _, t := range *list {
			t.take(hi-lo, e, f)
		}
	})
}

// take counts the tokens of n bytes and puts what is complete by that on the work list.
//
// +checklocks:sink.mu
func (t *top) take(n uintptr, e uint32, f *Flow) {
	if e&childR != 0 {
		t.r -= n
	}
	if e&childW != 0 {
		t.w -= n
	}
	var b uint32
	switch {
	case e&childW != 0 && t.w == 0:
		b = outW
		if t.sentR { //bug:read-before-write
			// The read token may still be under way to the access (README.md, "Late messages").
			b |= lingerUp
		}
	case e&childR != 0 && t.r == 0:
		b = outR
		t.sentR = true //bug:has-sent
	default:
		return
	}
	f.outs = append(f.outs, out{t.a, b})
}

// give says that the parent has given up t's access: every byte has its last successor.
func (k *sink) give(t *top, f *Flow) {
	k.mu.Lock()
	t.take(1, childR|childW, f)
	k.mu.Unlock()
	f.tell()
}
