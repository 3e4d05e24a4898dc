// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Waiting receives, probes and messages are found after the table has grown, and after it has
// shrunk again. The table is as large as their queues need.
func TestMatchTableGrowsAndShrinks(t *testing.T) {
	for _, row := range []struct{ live, buckets int }{{1, 64}, {30, 64}, {31, 64}, {32, 128}, {62, 128}, {63, 128}, {64, 256}, {127, 256}, {128, 512}} {
		var m Matcher
		m.Post(&Posted{Key: Key{9, 0, 0}}) // so that no other one is solo
		var recvs, probes []*Posted
		var msgs []*Arrival
		for i := int32(1); int(i) < row.live; i++ {
			switch k := (Key{1, i % 5, i}); i % 3 {
			case 0:
				recvs = append(recvs, &Posted{Key: k})
				require.Nil(t, m.Post(recvs[len(recvs)-1]))
			case 1:
				probes = append(probes, &Posted{Key: k, IsScan: true})
				require.Nil(t, m.Post(probes[len(probes)-1]))
			default:
				msgs = append(msgs, &Arrival{Key: k})
				require.Nil(t, m.Add(msgs[len(msgs)-1]))
			}
		}
		m.queueUp()
		for i := int32(0); m.queues < len(m.buckets); i++ {
			m.demand(Key{7, 0, i}) // which stays empty
		}
		m.demand(Key{8, 0, 0})
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
			m.demand(Key{8, 0, 1})
			require.NotSame(t, spare, m.spare, "they are used again")
			require.Same(t, spare, m.last)
		}
		for _, p := range recvs {
			require.Same(t, p, m.Take(p.Key))
		}
		for _, p := range probes {
			require.Same(t, p, m.Add(&Arrival{Key: p.Key}))
		}
		for _, a := range msgs {
			require.Same(t, a, m.Peek(a.Key))
		}
	}
}

// Programs use keys whose contexts, sources or tags differ by little. Their queues are mostly in
// different buckets.
func TestMatchKeysSpread(t *testing.T) {
	for name, key := range map[string]func(i int) Key{
		"tags":                func(i int) Key { return Key{0, 0, int32(i)} },
		"sources":             func(i int) Key { return Key{0, int32(i), 3} },
		"sources of any tag":  func(i int) Key { return Key{0, int32(i), Wild} },
		"tags of any source":  func(i int) Key { return Key{0, Wild, int32(i)} },
		"sources and tags":    func(i int) Key { return Key{2, int32(i % 32), int32(i / 32)} },
		"communicators":       func(i int) Key { return Key{1<<32 | uint64(i)<<1, 1, 1} },
		"makers":              func(i int) Key { return Key{uint64(i+1)<<32 | 2, 1, 1} },
		"collectives":         func(i int) Key { return Key{1, int32(i % 4), int32(i / 4)} },
		"communicators, tags": func(i int) Key { return Key{1<<32 | uint64(i%32)<<1, 1, int32(i / 32)} },
	} {
		var m Matcher
		const n = 1000
		for i := range n {
			m.Post(&Posted{Key: key(i)})
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

// Extract calls its functions once for each entry, oldest first, whichever entries stay.
func TestMatchExtractCallsInOrder(t *testing.T) {
	var m Matcher
	var ps []*Posted
	var as []*Arrival
	for i := range int32(40) {
		p := &Posted{Key: Key{1, i * 7 % 5, 1000 + i}.In(int(i) % Classes), IsScan: i%3 == 0}
		p.Key.Ctx = uint64(1 + i%2)
		a := &Arrival{Key: Key{3, i * 11 % 7, i}}
		require.Nil(t, m.Post(p))
		require.Nil(t, m.Add(a))
		ps, as = append(ps, p), append(as, a)
	}
	var askedP []*Posted
	var askedA []*Arrival
	gotP, gotA := m.Extract(func(p *Posted) bool {
		askedP = append(askedP, p)
		return len(askedP)%2 == 0
	}, func(a *Arrival) bool {
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

// Entries are pooled by all ranks. One that was in another engine, which kept more classes, has no
// links to that engine any more.
func TestMatchEntriesAreReused(t *testing.T) {
	k := Key{1, 0, 0}
	var wide, narrow Matcher
	for class := range Classes {
		require.Nil(t, wide.Peek(k.In(class))) // from now on it keeps the class
	}
	a, stays := &Arrival{Key: k}, &Arrival{Key: k}
	wide.Add(a)
	wide.Add(stays)
	wide.Remove(a)
	narrow.Add(a)
	narrow.Add(&Arrival{Key: Key{1, 5, 5}})
	narrow.Remove(a)
	for class := range Classes {
		require.Same(t, stays, wide.Peek(k.In(class)))
	}
	require.Nil(t, narrow.Peek(k))

	p := &Posted{Key: k.In(3)}
	wide.Remove(stays)
	require.Nil(t, wide.Post(p))
	require.Same(t, p, wide.Take(k))
	require.False(t, narrow.Unpost(p))
	require.False(t, wide.Unpost(p))
}

// Seq grows with each entry that waits, solo and lone ones too: the deadlock detector sees by it
// that there was activity.
func TestMatchSeqGrows(t *testing.T) {
	var m Matcher
	last := m.Seq
	grown := func(what string) {
		require.Greater(t, m.Seq, last, what)
		last = m.Seq
	}
	k := Key{1, 0, 0}
	p := &Posted{Key: k}
	require.Nil(t, m.Post(p))
	grown("the only receive")
	require.Nil(t, m.Post(&Posted{Key: k}))
	grown("a receive")
	require.Nil(t, m.Post(&Posted{Key: Key{1, 0, 1}, IsScan: true}))
	grown("a probe")
	require.Nil(t, m.Add(&Arrival{Key: Key{2, 0, 0}}))
	grown("a message")
	m.Drain()
	require.Nil(t, m.Add(&Arrival{Key: k}))
	grown("the only message")
}

// The queue that was found last is compared first. Take does not search queues of wildcard classes
// without receives.
func TestMatchUsesTheLastQueue(t *testing.T) {
	var m Matcher
	k, other := Key{1, 0, 0}, Key{1, 0, 1}
	m.Post(&Posted{Key: k})
	m.Post(&Posted{Key: other})
	require.Equal(t, other, m.last.key)
	m.Post(&Posted{Key: k})
	require.Equal(t, k, m.last.key)
	m.Take(other)
	require.Equal(t, other, m.last.key)
	m.Peek(k)
	require.Equal(t, k, m.last.key)

	for class := 1; class < Classes; class++ {
		var m Matcher
		for c := range Classes { // each class has a queue
			p := &Posted{Key: k.In(c)}
			m.Post(p)
			m.Unpost(p)
		}
		m.Post(&Posted{Key: Key{5, 0, 0}})
		p := &Posted{Key: k.In(class)}
		m.Post(p)
		m.demand(Key{6, 0, 0})
		require.Same(t, p, m.Take(k))
		require.Equal(t, k.In(class), m.last.key)
	}
}
