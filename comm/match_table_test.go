// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package comm

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever waits is found when the table has grown, and when it has shrunk again: receives, probes
// and messages, with wildcards and without. The table is as large as what waits needs.
func TestMatchTableGrowsAndShrinks(t *testing.T) {
	for _, row := range []struct{ live, buckets int }{{1, 64}, {30, 64}, {31, 64}, {32, 128}, {62, 128}, {63, 128}, {64, 256}, {127, 256}, {128, 512}} {
		var m matcher
		m.post(&posted{key: matchKey{9, 0, 0}}) // so that no other one is solo
		var recvs, probes []*posted
		var msgs []*arrival
		for i := int32(1); int(i) < row.live; i++ {
			switch k := (matchKey{1, i % 5, i}); i % 3 {
			case 0:
				recvs = append(recvs, &posted{key: k})
				require.Nil(t, m.post(recvs[len(recvs)-1]))
			case 1:
				probes = append(probes, &posted{key: k, isScan: true})
				require.Nil(t, m.post(probes[len(probes)-1]))
			default:
				msgs = append(msgs, &arrival{key: k})
				require.Nil(t, m.add(msgs[len(msgs)-1]))
			}
		}
		m.queueUp()
		for i := int32(0); m.queues < len(m.buckets); i++ {
			m.demand(matchKey{7, 0, i}) // which stays empty
		}
		m.demand(matchKey{8, 0, 0})
		require.Len(t, m.buckets, row.buckets, "%d queues with something", row.live)
		require.Equal(t, row.live+1, m.queues, "empty ones are gone")
		n := 0
		for _, q := range m.buckets {
			for ; q != nil; q = q.chain {
				n++
			}
		}
		require.Equal(t, m.queues, n)
		spares := 0
		for q := m.spare; q != nil; q = q.chain {
			require.True(t, q.empty())
			spares++
		}
		require.LessOrEqual(t, spares, 64, "of the empty ones few are kept")
		if row.live > 1 && row.live < 60 {
			require.Positive(t, spares)
			spare := m.spare
			m.demand(matchKey{8, 0, 1})
			require.NotSame(t, spare, m.spare, "they are used again")
			require.Same(t, spare, m.last)
		}
		for _, p := range recvs {
			require.Same(t, p, m.take(p.key))
		}
		for _, p := range probes {
			require.Same(t, p, m.add(&arrival{key: p.key}))
		}
		for _, a := range msgs {
			require.Same(t, a, m.peek(a.key))
		}
	}
}

// The queues of keys that programs have, whose contexts, sources or tags differ by little, lie in
// different buckets, mostly.
func TestMatchKeysSpread(t *testing.T) {
	for name, key := range map[string]func(i int) matchKey{
		"tags":                func(i int) matchKey { return matchKey{0, 0, int32(i)} },
		"sources":             func(i int) matchKey { return matchKey{0, int32(i), 3} },
		"sources of any tag":  func(i int) matchKey { return matchKey{0, int32(i), wild} },
		"tags of any source":  func(i int) matchKey { return matchKey{0, wild, int32(i)} },
		"sources and tags":    func(i int) matchKey { return matchKey{2, int32(i % 32), int32(i / 32)} },
		"communicators":       func(i int) matchKey { return matchKey{1<<32 | uint64(i)<<1, 1, 1} },
		"makers":              func(i int) matchKey { return matchKey{uint64(i+1)<<32 | 2, 1, 1} },
		"collectives":         func(i int) matchKey { return matchKey{1, int32(i % 4), int32(i / 4)} },
		"communicators, tags": func(i int) matchKey { return matchKey{1<<32 | uint64(i%32)<<1, 1, int32(i / 32)} },
	} {
		var m matcher
		const n = 1000
		for i := range n {
			m.post(&posted{key: key(i)})
		}
		longest := 0
		for _, q := range m.buckets {
			length := 0
			for ; q != nil; q = q.chain {
				length++
			}
			longest = max(longest, length)
		}
		require.LessOrEqual(t, longest, 8, "%s: the longest chain of %d queues in %d buckets", name, n, len(m.buckets))
	}
}

// What is taken out is asked for once, oldest first, whatever stays.
func TestMatchExtractAsksInOrder(t *testing.T) {
	var m matcher
	var ps []*posted
	var as []*arrival
	for i := range int32(40) {
		p := &posted{key: matchKey{1, i * 7 % 5, 1000 + i}.in(int(i) % classes), isScan: i%3 == 0}
		p.key.ctx = uint64(1 + i%2)
		a := &arrival{key: matchKey{3, i * 11 % 7, i}}
		require.Nil(t, m.post(p))
		require.Nil(t, m.add(a))
		ps, as = append(ps, p), append(as, a)
	}
	var askedP []*posted
	var askedA []*arrival
	gotP, gotA := m.extract(func(p *posted) bool {
		askedP = append(askedP, p)
		return len(askedP)%2 == 0
	}, func(a *arrival) bool {
		askedA = append(askedA, a)
		return len(askedA)%2 == 0
	})
	require.True(t, slices.Equal(ps, askedP))
	require.True(t, slices.Equal(as, askedA))
	require.Len(t, gotP, len(ps)/2)
	require.Len(t, gotA, len(as)/2)
	for i := range gotP {
		require.Same(t, ps[2*i+1], gotP[i])
		require.Same(t, as[2*i+1], gotA[i])
	}
}

// Entries are pooled by all ranks: one that was in another engine, which kept more classes, has
// nothing to do with that one any more.
func TestMatchEntriesGoFromEngineToEngine(t *testing.T) {
	k := matchKey{1, 0, 0}
	var wide, narrow matcher
	for class := range classes {
		require.Nil(t, wide.peek(k.in(class))) // from now on it keeps the class
	}
	a, stays := &arrival{key: k}, &arrival{key: k}
	wide.add(a)
	wide.add(stays)
	wide.remove(a)
	narrow.add(a)
	narrow.add(&arrival{key: matchKey{1, 5, 5}})
	narrow.remove(a)
	for class := range classes {
		require.Same(t, stays, wide.peek(k.in(class)))
	}
	require.Nil(t, narrow.peek(k))

	p := &posted{key: k.in(3)}
	wide.remove(stays)
	require.Nil(t, wide.post(p))
	require.Same(t, p, wide.take(k))
	require.False(t, narrow.unpost(p))
	require.False(t, wide.unpost(p))
}

// The number of the engine grows with all that is queued, also with what is alone there: who looks
// for deadlocks sees by it that something has happened.
func TestMatchNumberGrows(t *testing.T) {
	var m matcher
	last := m.seq
	grown := func(what string) {
		require.Greater(t, m.seq, last, what)
		last = m.seq
	}
	k := matchKey{1, 0, 0}
	p := &posted{key: k}
	require.Nil(t, m.post(p))
	grown("the only receive")
	require.Nil(t, m.post(&posted{key: k}))
	grown("a receive")
	require.Nil(t, m.post(&posted{key: matchKey{1, 0, 1}, isScan: true}))
	grown("a probe")
	require.Nil(t, m.add(&arrival{key: matchKey{2, 0, 0}}))
	grown("a message")
	m.drain()
	require.Nil(t, m.add(&arrival{key: k}))
	grown("the only message")
}

// The queue that was found last is looked at first, and a message does not look for receives with
// wildcards that nobody has posted.
func TestMatchLooksWhereItFoundLast(t *testing.T) {
	var m matcher
	k, other := matchKey{1, 0, 0}, matchKey{1, 0, 1}
	m.post(&posted{key: k})
	m.post(&posted{key: other})
	require.Equal(t, other, m.last.key)
	m.post(&posted{key: k})
	require.Equal(t, k, m.last.key)
	m.take(other)
	require.Equal(t, other, m.last.key)
	m.peek(k)
	require.Equal(t, k, m.last.key)

	for class := 1; class < classes; class++ {
		var m matcher
		for c := range classes { // each class has a queue
			p := &posted{key: k.in(c)}
			m.post(p)
			m.unpost(p)
		}
		m.post(&posted{key: matchKey{5, 0, 0}})
		p := &posted{key: k.in(class)}
		m.post(p)
		m.demand(matchKey{6, 0, 0})
		require.Same(t, p, m.take(k))
		require.Equal(t, k.in(class), m.last.key)
	}
}
