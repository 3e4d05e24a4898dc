// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import "slices"

const (
	anySourceBit = 1
	anyTagBit    = 2
	// Classes is the number of classes of receives.
	Classes = 4
	// Wild stands for the wildcard in a key.
	Wild = -1
)

// Key names a queue: a context, and a source and a tag, each of which may be Wild. Sources and tags
// of messages are never negative.
type Key struct {
	Ctx uint64
	Src int32
	Tag int32
}

func (k Key) class() int {
	c := 0
	if k.Src < 0 {
		c |= anySourceBit
	}
	if k.Tag < 0 {
		c |= anyTagBit
	}
	return c
}

// In returns the key of the queue in which a message with this key is filed for a class of
// receives.
func (k Key) In(class int) Key {
	if class&anySourceBit != 0 {
		k.Src = Wild
	}
	if class&anyTagBit != 0 {
		k.Tag = Wild
	}
	return k
}

// wants reports whether a receive with key k takes a message with key o.
func (k Key) wants(o Key) bool {
	return k.Ctx == o.Ctx && (k.Src < 0 || k.Src == o.Src) && (k.Tag < 0 || k.Tag == o.Tag)
}

func (k Key) hash() uint64 {
	h := k.Ctx*0x9E3779B97F4A7C15 ^ uint64(uint32(k.Src))*0xC2B2AE3D27D4EB4F ^ uint64(uint32(k.Tag))*0x165667B19E3779F9
	return h ^ h>>29
}

// Posted is a receive, or a waiting probe, in the engine. It is part of a recvOp, which the engine
// does not know.
type Posted struct {
	Key    Key
	seq    uint64
	prev   *Posted
	Next   *Posted
	q      *queue // where it is queued; nil when it is not
	class  uint8  // of the key, while it is queued
	IsScan bool   // a waiting probe: a message wakes it and stays
}

// Arrival is an unexpected message in the engine. It is part of a message, which the engine does
// not know.
type Arrival struct {
	Key   Key
	seq   uint64
	links [Classes]link
}

type link struct {
	prev, next *Arrival
	q          *queue
}

// queue has the posted receives, the waiting probes and the unexpected messages of one key.
type queue struct {
	key        Key
	chain      *queue // next in the hash bucket
	posted     postedList
	probes     postedList
	head, tail *Arrival
}

type postedList struct{ head, tail *Posted }

func (q *queue) empty() bool { return q.posted.head == nil && q.probes.head == nil && q.head == nil }

// Matcher is the matching engine of one rank. The zero Matcher is empty.
type Matcher struct {
	// Matching the only receive with a message, or the only message with a receive, reads no more
	// than these fields.

	// An exact receive that is in no queue, since nothing was queued when it was posted; or nil.
	solo    *Posted
	soloKey Key      // the key of solo
	lone    *Arrival // a message that is in no queue for the same reason; or nil
	exact   int32    // posted receives without wildcards
	wilds   int32    // posted receives with them
	probes  int32    // waiting probes
	waiting int32    // unexpected messages
	Seq     uint64   // grows with each receive, probe or message that has to wait

	buckets []*queue       // length a power of two
	queues  int            // in the buckets, empty ones included
	last    *queue         // the queue found last: often the next one needed
	spare   *queue         // unused queues
	counts  [Classes]int32 // wilds by class
	filed   [Classes]bool
}

// Idle reports whether nothing is queued: no receive, no probe, no message.
func (m *Matcher) Idle() bool { return m.exact|m.wilds|m.probes|m.waiting == 0 }

// count adds n to the number of posted receives of a class.
func (m *Matcher) count(class int, n int32) {
	if class == 0 {
		m.exact += n
		return
	}
	m.wilds += n
	m.counts[class] += n
}

// queueUp moves solo or lone to its queues. These have nothing that matches it.
func (m *Matcher) queueUp() {
	if p := m.solo; p != nil {
		m.solo = nil
		p.class = 0
		p.q = m.demand(p.Key)
		p.q.posted = postedList{p, p}
	}
	if a := m.lone; a != nil {
		m.lone = nil
		m.fileIn(a)
	}
}

// find returns the queue of a key, or nil. Callers on fast paths compare m.last first.
func (m *Matcher) find(k Key) *queue {
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

// demand returns the queue of a key, and makes it if it does not exist.
func (m *Matcher) demand(k Key) *queue {
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

// resize drops empty queues and makes the table as large as the others need. It visits as many
// queues as were made since the last resize, or a constant factor more, so its cost per message is
// constant.
func (m *Matcher) resize() {
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

// Take removes and returns the receive for a message that arrives: the oldest that matches it. It
// returns nil if there is none.
func (m *Matcher) Take(k Key) *Posted {
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
	if q.posted.head = p.Next; p.Next == nil {
		q.posted.tail = nil
	} else {
		p.Next.prev = nil
	}
	p.q, p.Next = nil, nil
	return p
}

// takeAny is Take when there are receives with wildcards. q is the queue of the exact key, or nil.
func (m *Matcher) takeAny(k Key, q *queue) *Posted {
	var best *Posted
	if q != nil {
		best = q.posted.head
	}
	for class := 1; class < Classes; class++ {
		if m.counts[class] == 0 {
			continue
		}
		if q := m.find(k.In(class)); q != nil && q.posted.head != nil && (best == nil || q.posted.head.seq < best.seq) {
			best = q.posted.head
		}
	}
	if best != nil {
		m.Unpost(best)
	}
	return best
}

// Add files a message for which Take has found no receive. It removes the waiting probes that match
// it, and returns them as a list.
func (m *Matcher) Add(a *Arrival) *Posted {
	m.Seq++
	a.seq = m.Seq
	if m.Idle() {
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
	var woken *Posted
	for class := range Classes {
		q := m.find(a.Key.In(class))
		for q != nil && q.probes.head != nil {
			p := q.probes.head
			m.Unpost(p)
			p.Next, woken = woken, p
		}
	}
	return woken
}

// fileIn files a message in the queues of all classes that are kept.
func (m *Matcher) fileIn(a *Arrival) {
	m.filed[0] = true
	for class := range Classes {
		if m.filed[class] {
			m.file(a, class)
		}
	}
}

func (m *Matcher) file(a *Arrival, class int) {
	q := m.demand(a.Key.In(class))
	l := &a.links[class]
	l.q, l.prev, l.next = q, q.tail, nil
	if q.tail == nil {
		q.head = a
	} else {
		q.tail.links[class].next = a
	}
	q.tail = a
}

// Peek returns the oldest unexpected message for a receive's key, or nil. It stays.
func (m *Matcher) Peek(k Key) *Arrival {
	if a := m.lone; a != nil {
		if !k.wants(a.Key) {
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

// fileAll begins to keep a wildcard class: it files all unexpected messages in the class's queues.
func (m *Matcher) fileAll(class int) {
	m.filed[class] = true
	all := m.arrivals()
	for _, a := range all {
		m.file(a, class)
	}
}

// arrivals returns all unexpected messages, oldest first.
func (m *Matcher) arrivals() []*Arrival {
	var all []*Arrival
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
	slices.SortFunc(all, func(a, b *Arrival) int { return int(a.seq) - int(b.seq) })
	return all
}

// Remove takes an unexpected message out of all queues.
func (m *Matcher) Remove(a *Arrival) {
	m.waiting--
	if a == m.lone {
		m.lone = nil
		return
	}
	for class := range Classes {
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

// Post returns the oldest unexpected message that matches a receive or probe; the message stays. If
// there is none, Post files the receive or probe and returns nil.
func (m *Matcher) Post(p *Posted) *Arrival {
	class := p.Key.class()
	if class == 0 && !p.IsScan && m.Idle() {
		m.Seq++
		p.seq = m.Seq
		m.exact++
		m.solo, m.soloKey = p, p.Key
		return nil
	}
	if a := m.lone; a != nil && p.Key.wants(a.Key) {
		return a
	}
	m.queueUp()
	if !m.filed[class] {
		m.fileAll(class)
	}
	q := m.last
	if q == nil || q.key != p.Key {
		q = m.demand(p.Key)
	}
	if q.head != nil {
		return q.head
	}
	m.Seq++
	p.seq = m.Seq
	l := &q.posted
	if p.IsScan {
		l = &q.probes
		m.probes++
	} else {
		m.count(class, 1)
	}
	p.class = uint8(class)
	p.q, p.prev, p.Next = q, l.tail, nil
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.Next = p
	}
	l.tail = p
	return nil
}

// Unpost removes a receive or probe, and returns false if it is not in the engine.
func (m *Matcher) Unpost(p *Posted) bool {
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
	if p.IsScan {
		l = &q.probes
		m.probes--
	} else {
		m.count(int(p.class), -1)
	}
	if p.prev == nil {
		l.head = p.Next
	} else {
		p.prev.Next = p.Next
	}
	if p.Next == nil {
		l.tail = p.prev
	} else {
		p.Next.prev = p.prev
	}
	p.q, p.prev, p.Next = nil, nil, nil
	return true
}

// Drain empties the engine and returns what was in it, oldest first.
func (m *Matcher) Drain() (ps []*Posted, as []*Arrival) {
	return m.Extract(func(*Posted) bool { return true }, func(*Arrival) bool { return true })
}

// Each calls posted with each receive in the engine, and arrival with each message, oldest first.
// The functions must not change the engine.
func (m *Matcher) Each(posted func(*Posted), arrival func(*Arrival)) {
	m.Extract(func(p *Posted) bool {
		posted(p)
		return false
	}, func(a *Arrival) bool {
		arrival(a)
		return false
	})
}

// Extract removes and returns the receives and probes for which wantPosted returns true, and the
// messages for which wantArrival does. The functions are called once for each, oldest first.
func (m *Matcher) Extract(wantPosted func(*Posted) bool, wantArrival func(*Arrival) bool) (ps []*Posted, as []*Arrival) {
	m.queueUp()
	as = slices.DeleteFunc(m.arrivals(), func(a *Arrival) bool { return !wantArrival(a) })
	for _, q := range m.buckets {
		for ; q != nil; q = q.chain {
			for _, l := range []postedList{q.posted, q.probes} {
				for p := l.head; p != nil; p = p.Next {
					ps = append(ps, p)
				}
			}
		}
	}
	slices.SortFunc(ps, func(a, b *Posted) int { return int(a.seq) - int(b.seq) })
	ps = slices.DeleteFunc(ps, func(p *Posted) bool { return !wantPosted(p) })
	for _, p := range ps {
		m.Unpost(p)
	}
	for _, a := range as {
		m.Remove(a)
	}
	return ps, as
}
