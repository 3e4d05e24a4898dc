// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import "slices"

// The matching engine of one rank, without locks, memory or protocol: the caller guards it and acts on what it
// returns. Posted receives and unexpected messages are kept in queues found by hashing, so that
// the cost of a message does not depend on how many of either there are.
//
// A receive has one of four classes, by its wildcards: exact, any source, any tag, both. A posted receive
// is in one queue, that of its class and its given values. An arriving message looks at the head of the
// (at most four) queues that could want it and takes the oldest. An unexpected message is in the
// queue of each class for which it could be wanted, so that a receive (or probe) of any class finds the oldest
// in its own queue's head. Wildcard classes that no receive ever used are not kept; the first
// use of a class files what is there already, once.
//
// An exact receive that is posted when nothing is queued, as most are, waits outside the queues
// (solo). So does a message that comes when nothing is queued (lone). What comes next and does not
// match files it first.
//
// Invariant: in no queue are there both posted receives and unexpected messages.

const (
	anySourceBit = 1
	anyTagBit    = 2
	classes      = 4
	wild         = -1 // stands for the wildcard in a key
)

// matchKey names a queue: a context and given or wild values. Sources and tags of messages are never negative.
type matchKey struct {
	ctx uint64
	src int32
	tag int32
}

func (k matchKey) class() int {
	c := 0
	if k.src < 0 {
		c |= anySourceBit
	}
	if k.tag < 0 {
		c |= anyTagBit
	}
	return c
}

// in returns the key of the queue in which a message with this key is filed for a class of receives.
func (k matchKey) in(class int) matchKey {
	if class&anySourceBit != 0 {
		k.src = wild
	}
	if class&anyTagBit != 0 {
		k.tag = wild
	}
	return k
}

// wants reports whether a receive with key k takes a message with key o.
func (k matchKey) wants(o matchKey) bool {
	return k.ctx == o.ctx && (k.src < 0 || k.src == o.src) && (k.tag < 0 || k.tag == o.tag)
}

func (k matchKey) hash() uint64 {
	h := k.ctx*0x9E3779B97F4A7C15 ^ uint64(uint32(k.src))*0xC2B2AE3D27D4EB4F ^ uint64(uint32(k.tag))*0x165667B19E3779F9
	return h ^ h>>29
}

// posted is a receive, or a waiting probe, in the engine: the entry of a recvOp, which the engine
// does not look at.
type posted struct {
	key    matchKey
	seq    uint64
	prev   *posted
	next   *posted
	q      *queue // where it is queued; nil when it is not
	class  uint8  // of the key, while it is queued
	isScan bool   // a waiting probe: it is told of a message and does not take it
}

// arrival is an unexpected message in the engine: the entry of a message, which the engine does not
// look at.
type arrival struct {
	key   matchKey
	seq   uint64
	links [classes]link
}

type link struct {
	prev, next *arrival
	q          *queue
}

// queue has the receives posted, the probes waiting, and the messages unexpected, for one key.
type queue struct {
	key        matchKey
	chain      *queue // next in the hash bucket
	posted     postedList
	probes     postedList
	head, tail *arrival
}

type postedList struct{ head, tail *posted }

func (q *queue) empty() bool { return q.posted.head == nil && q.probes.head == nil && q.head == nil }

type matcher struct {
	// A message for the only receive, and a receive of the only message, need no more than these.
	solo    *posted  // an exact receive that is in no queue, since it came when nothing else was here; or nil
	soloKey matchKey // its key
	lone    *arrival // a message that is in no queue, likewise; or nil
	exact   int32    // posted receives without wildcards
	wilds   int32    // posted receives with them
	probes  int32    // waiting probes
	waiting int32    // unexpected messages
	seq     uint64

	buckets []*queue       // length a power of two
	queues  int            // in the buckets, empty ones included
	last    *queue         // the one found last: often the next one wanted
	spare   *queue         // unused queues
	counts  [classes]int32 // wilds by class
	filed   [classes]bool
}

// idle reports whether nothing is queued: no receive, no probe, no message.
func (m *matcher) idle() bool { return m.exact|m.wilds|m.probes|m.waiting == 0 }

// count counts a posted receive in, or out.
func (m *matcher) count(class int, n int32) {
	if class == 0 {
		m.exact += n
		return
	}
	m.wilds += n
	m.counts[class] += n
}

// queueUp files what waits alone in its queue, where others may join it. The queue has nothing that
// would have matched it.
func (m *matcher) queueUp() {
	if p := m.solo; p != nil {
		m.solo = nil
		p.class = 0
		p.q = m.demand(p.key)
		p.q.posted = postedList{p, p}
	}
	if a := m.lone; a != nil {
		m.lone = nil
		m.fileIn(a)
	}
}

// find returns the queue of a key, or nil. The callers that matter look at m.last first.
func (m *matcher) find(k matchKey) *queue {
	if m.buckets == nil {
		return nil
	}
	q := m.buckets[k.hash()&uint64(len(m.buckets)-1)]
	for q != nil && q.key != k {
		q = q.chain
	}
	if q != nil {
		m.last = q
	}
	return q
}

// demand returns the queue of a key and makes it if need be.
func (m *matcher) demand(k matchKey) *queue {
	if q := m.find(k); q != nil {
		return q
	}
	if m.queues >= len(m.buckets) {
		m.resize()
	}
	q := m.spare
	if q != nil {
		m.spare, q.chain = q.chain, nil
	} else {
		q = new(queue)
	}
	q.key = k
	b := &m.buckets[k.hash()&uint64(len(m.buckets)-1)]
	q.chain, *b = *b, q
	m.queues++
	m.last = q
	return q
}

// resize drops empty queues and makes the table as large as what is left needs. It runs once per as many
// new queues as it looks at, so its cost per message is constant.
func (m *matcher) resize() {
	old := m.buckets
	live := 0
	for _, q := range old {
		for ; q != nil; q = q.chain {
			if !q.empty() {
				live++
			}
		}
	}
	size := 64
	for size < 2*live+2 {
		size *= 2
	}
	m.buckets = make([]*queue, size)
	m.last = nil
	m.queues = live
	spares := 0
	for _, q := range old {
		for q != nil {
			next := q.chain
			switch {
			case !q.empty():
				b := &m.buckets[q.key.hash()&uint64(size-1)]
				q.chain, *b = *b, q
			case spares < 64:
				q.chain, m.spare = m.spare, q
				spares++
			}
			q = next
		}
	}
}

// take finds the receive for a message that arrives, the oldest that wants it, and removes it. It returns nil if there is
// none.
func (m *matcher) take(k matchKey) *posted {
	if p := m.solo; p != nil { // there is no other
		if m.soloKey != k {
			return nil
		}
		m.solo = nil
		m.exact--
		return p
	}
	var q *queue
	if m.exact != 0 {
		if q = m.last; q == nil || q.key != k {
			q = m.find(k)
		}
	}
	if m.wilds != 0 {
		return m.takeAny(k, q)
	}
	if q == nil || q.posted.head == nil {
		return nil
	}
	p := q.posted.head
	m.exact--
	if q.posted.head = p.next; p.next == nil {
		q.posted.tail = nil
	} else {
		p.next.prev = nil
	}
	p.q, p.next = nil, nil
	return p
}

// takeAny is take where there are receives with wildcards. q is the queue of the exact key, if it is there.
func (m *matcher) takeAny(k matchKey, q *queue) *posted {
	var best *posted
	if q != nil {
		best = q.posted.head
	}
	for class := 1; class < classes; class++ {
		if m.counts[class] == 0 {
			continue
		}
		if q := m.find(k.in(class)); q != nil && q.posted.head != nil && (best == nil || q.posted.head.seq < best.seq) {
			best = q.posted.head
		}
	}
	if best != nil {
		m.unpost(best)
	}
	return best
}

// add files a message that take has found no receive for, and returns the waiting probes that it satisfies,
// removed, as a list.
func (m *matcher) add(a *arrival) *posted {
	m.seq++
	a.seq = m.seq
	if m.idle() {
		m.waiting++
		m.lone = a
		return nil
	}
	m.queueUp()
	m.waiting++
	m.fileIn(a)
	if m.probes == 0 {
		return nil
	}
	var woken *posted
	for class := range classes {
		q := m.find(a.key.in(class))
		for q != nil && q.probes.head != nil {
			p := q.probes.head
			m.unpost(p)
			p.next, woken = woken, p
		}
	}
	return woken
}

// fileIn files a message in the queues of all classes that are kept.
func (m *matcher) fileIn(a *arrival) {
	m.filed[0] = true
	for class := range classes {
		if m.filed[class] {
			m.file(a, class)
		}
	}
}

func (m *matcher) file(a *arrival, class int) {
	q := m.demand(a.key.in(class))
	l := &a.links[class]
	l.q, l.prev, l.next = q, q.tail, nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.links[class].next = a
	}
	q.tail = a
}

// peek returns the oldest unexpected message for a receive's key, or nil. It stays.
func (m *matcher) peek(k matchKey) *arrival {
	if a := m.lone; a != nil {
		if !k.wants(a.key) {
			return nil
		}
		return a
	}
	if class := k.class(); !m.filed[class] {
		m.fileAll(class)
	}
	if q := m.find(k); q != nil {
		return q.head
	}
	return nil
}

// fileAll starts to keep a wildcard class.
func (m *matcher) fileAll(class int) {
	m.filed[class] = true
	all := m.arrivals()
	for _, a := range all {
		m.file(a, class)
	}
}

// arrivals returns all unexpected messages, oldest first.
func (m *matcher) arrivals() []*arrival {
	var all []*arrival
	for _, q := range m.buckets {
		for ; q != nil; q = q.chain {
			if q.key.class() != 0 {
				continue
			}
			for a := q.head; a != nil; a = a.links[0].next {
				all = append(all, a)
			}
		}
	}
	slices.SortFunc(all, func(a, b *arrival) int { return int(a.seq) - int(b.seq) })
	return all
}

// remove takes an unexpected message out of all queues.
func (m *matcher) remove(a *arrival) {
	m.waiting--
	if a == m.lone {
		m.lone = nil
		return
	}
	for class := range classes {
		l := &a.links[class]
		q := l.q
		if q == nil {
			continue
		}
		if l.prev == nil {
			q.head = l.next
		} else {
			l.prev.links[class].next = l.next
		}
		if l.next == nil {
			q.tail = l.prev
		} else {
			l.next.links[class].prev = l.prev
		}
		*l = link{}
	}
}

// post returns the oldest unexpected message for a receive or probe, which stays, or else files the receive or probe.
func (m *matcher) post(p *posted) *arrival {
	class := p.key.class()
	if class == 0 && !p.isScan && m.idle() {
		m.seq++
		p.seq = m.seq
		m.exact++
		m.solo, m.soloKey = p, p.key
		return nil
	}
	if a := m.lone; a != nil && p.key.wants(a.key) {
		return a
	}
	m.queueUp()
	if !m.filed[class] {
		m.fileAll(class)
	}
	q := m.last
	if q == nil || q.key != p.key {
		q = m.demand(p.key)
	}
	if q.head != nil {
		return q.head
	}
	m.seq++
	p.seq = m.seq
	l := &q.posted
	if p.isScan {
		l = &q.probes
		m.probes++
	} else {
		m.count(class, 1)
	}
	p.class = uint8(class)
	p.q, p.prev, p.next = q, l.tail, nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.next = p
	}
	l.tail = p
	return nil
}

// unpost removes a receive or probe, and returns false if it is not there.
func (m *matcher) unpost(p *posted) bool {
	if p == m.solo {
		m.solo = nil
		m.exact--
		return true
	}
	q := p.q
	if q == nil {
		return false
	}
	l := &q.posted
	if p.isScan {
		l = &q.probes
		m.probes--
	} else {
		m.count(int(p.class), -1)
	}
	if p.prev == nil {
		l.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.q, p.prev, p.next = nil, nil, nil
	return true
}

// drain empties the engine and returns what was in it, oldest first.
func (m *matcher) drain() (ps []*posted, as []*arrival) {
	return m.extract(func(*posted) bool { return true }, func(*arrival) bool { return true })
}

// extract removes some of what is in the engine and returns it. Each is asked for once, oldest first.
func (m *matcher) extract(wantPosted func(*posted) bool, wantArrival func(*arrival) bool) (ps []*posted, as []*arrival) {
	m.queueUp()
	as = slices.DeleteFunc(m.arrivals(), func(a *arrival) bool { return !wantArrival(a) })
	for _, q := range m.buckets {
		for ; q != nil; q = q.chain {
			for _, l := range []postedList{q.posted, q.probes} {
				for p := l.head; p != nil; p = p.next {
					ps = append(ps, p)
				}
			}
		}
	}
	slices.SortFunc(ps, func(a, b *posted) int { return int(a.seq) - int(b.seq) })
	ps = slices.DeleteFunc(ps, func(p *posted) bool { return !wantPosted(p) })
	for _, p := range ps {
		m.unpost(p)
	}
	for _, a := range as {
		m.remove(a)
	}
	return ps, as
}
