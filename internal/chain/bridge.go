// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

// ranges is the part of a domain that exists when a range of memory is named in it, or in the
// parent's own domain. From then on all accesses in the domain are records. It is owned by the body
// of the parent, as the domain is; the records have locks.
type ranges struct {
	// own has the parent's declarations, if the parent's own domain is one of ranges. The parent
	// has no accesses then. own has fragments if and only if the parent has declared something.
	own  record
	keep object // keeps own's memory alive until the parent's body ends, as more does
	more []object

	// last has the last record of each byte that the children have named: own if no child has yet,
	// releasedMark if the parent has given the byte up. A byte that is not in last is free: a task
	// that names it need not wait.
	last  *spans[*record] // nil until the first child or Release
	cover []extent        // the bytes of own; set with last

	// The parent's objects, if its own domain is one of objects.
	sink *sink
	tops []*top // by address

	released *spans[none] // bytes that children may not name any more; nil if none
	held     *spans[none] // bytes that the parent, or a task above it, holds; nil if none

	// objects that the parent, or a task above it, holds; constant once the parent's body runs, and
	// before the first range
	heldKeys []object

	// shared has the objects that tasks above have declared weak Commutative in a domain of
	// objects. Cousins there take these objects, so a task that takes a part of one here takes the
	// object too. Constant as heldKeys.
	shared []sharedObject
}

// A gate continues the chains of a domain whose children have named objects only, and now name a
// range. For the ranges it is a record like any other, the last one of all bytes that the chains
// cover. It is transparent (weak, given up, and in a run), so every message that comes in goes out.
//
// The messages come in by bridges, one for each chain: a bridge is an access at the end of the
// chain of objects. Bytes that several chains cover have a token when all of these chains have
// brought it.
type gate struct {
	record
	feeds spans[feed] // the bytes of the chains; guarded by mu of the record
}

// feed counts the bridges that have not brought a message yet, for each kind: read token, write
// token, opening.
type feed struct{ r, w, open int32 }

// bridge ends a chain of objects in a gate. To the chain it is a weak access whose child is the
// gate: it takes all messages for its in-port, and never gives anything up.
type bridge struct {
	accessBlock // with one access
	gate        *gate
	lo, hi      uintptr
}

const gateState = inRun | isWeak | through

// cover adds a bridge for [lo, hi).
func (g *gate) cover(lo, hi uintptr) *bridge {
	b := &bridge{gate: g, lo: lo, hi: hi}
	a := b.access()
	a.pos = inExtraBlock
	a.state.Init(inRun | isWeak | isBridge)
	setBridge(a, b)
	g.frags.fill(lo, hi, func(s *span[frag], _ bool) { s.v.state = gateState })
	g.feeds.fill(lo, hi, func(s *span[feed], _ bool) {
		s.v.r++
		s.v.w++
		s.v.open++
	})
	return b
}

// access returns the bridge as the chain sees it.
func (b *bridge) access() *access { return &b.accs[0] }

// cross passes the effects e of the bridge a to its gate.
func (f *Flow) cross(a *access, e uint32) {
	b := bridgeOf(a)
	g := b.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := g.feeds.search(b.lo); g.feeds.has(p) && g.feeds.at(p).lo < b.hi; p = g.feeds.next(p) {
		s := g.feeds.at(p)
		if bits := count(&s.v.r, e&childR)*hasR | count(&s.v.w, e&childW)*hasW | count(&s.v.open, e&childOpen)*hasOpen; bits != 0 {
			g.add(s.lo, s.hi, bits, f)
		}
	}
}

// count subtracts one from n if is is not zero, and returns 1 if n became zero by that, else 0.
func count(n *int32, is uint32) uint32 {
	if is != 0 {
		if *n--; *n == 0 {
			return 1
		}
	}
	return 0
}

// A sink is the successor of the last children's records on the bytes of the objects that the
// parent has declared, if the parent's own domain is one of objects. It gathers the tokens of all
// bytes of an object for the parent's access.
type sink struct {
	record
	tops spans[[]*top] // by byte; constant once the first range is registered
}

// top is an access of the parent. Its counters are guarded by mu of the sink.
type top struct {
	a      *access
	lo, hi uintptr
	r, w   uintptr // bytes whose token has not come, plus one until the access is given up
	sentR  bool
}

// sinkState makes every message that comes in an effect for pass.
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
		s.v = append(s.v[:len(s.v):len(s.v)], t) // copies: a cut lets two spans share a list
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

// take counts the tokens of n bytes and puts messages that are complete by that on the work list.
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
			// The read token may still be under way to the access (README.md, "Gate and sink", step
			// 4).
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

// give is called when the parent has given up t's access: then every byte has its last successor.
func (k *sink) give(t *top, f *Flow) {
	k.mu.Lock()
	t.take(1, childR|childW, f)
	k.mu.Unlock()
	f.tell()
}
