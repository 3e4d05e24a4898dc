// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bytes that are over are in the same state, by whatever way the tokens came and whichever tasks
// accessed them: they become one fragment again.
func TestFragmentsJoinAgain(t *testing.T) {
	x := make([]byte, 64)
	var f Flow
	var root, w, r, p, after Node
	end := func(n *Node) {
		n.Finish(&f)
		n.Retire()
		for n := f.NextReady(); n != nil; n = f.NextReady() {
			n.Finish(&f)
			n.Retire()
		}
	}
	require.True(t, root.Register(&w, []Access{Slice(x).InOut()}, &f))
	require.False(t, root.Register(&r, []Access{Slice(x[:32]).In()}, &f))
	require.True(t, root.Register(&p, []Access{Slice(x).InOut().Weak()}, &f))
	own := &inRanges(p.dom).own
	kids := make([]Node, 6)
	for i, a := range []Access{Slice(x[4:8]).In(), Slice(x[12:16]).InOut(), Slice(x[20:36]).Concurrent(), Slice(x[40:44]).In().Weak(), Slice(x[6:14]).InOut(), Slice(x[50:51]).In()} {
		ready := p.Register(&kids[i], []Access{a}, &f)
		require.Equal(t, i == 3, ready)
	}
	require.False(t, root.Register(&after, []Access{Slice(x[8:60]).InOut()}, &f))
	require.Greater(t, own.count(), 6)
	for _, n := range []*Node{&kids[3], &w} {
		end(n)
	}
	p.Finish(&f)
	for n := f.NextReady(); n != nil; n = f.NextReady() {
		end(n)
	}
	states := map[uint32]bool{}
	own.frags.walk(0, ^uintptr(0), func(_, _ uintptr, v *frag) {
		if v != nil && finished(v.state) {
			states[v.state&^(through|outR|outW)] = true
			require.True(t, v.child == nil && (v.succ == nil || v.state&hasNext != 0))
		}
	})
	require.Len(t, states, 1, "%v", states)
	all := 0
	own.frags.tidy(func(*span[frag]) bool { all++; return true }, func(a, b *frag) bool {
		return a.state|outR|outW|through == b.state|outR|outW|through && a.succ == b.succ
	})
	require.LessOrEqual(t, own.frags.n, 3, "of %d: bytes with a successor, and bytes without", all)
}

// Memory that is given up piece by piece needs few entries.
func TestReleasedBytesJoin(t *testing.T) {
	x := make([]byte, 512)
	var f Flow
	var root, p Node
	require.True(t, root.Register(&p, []Access{Slice(x).InOut()}, &f))
	for i := range x {
		require.NoError(t, p.Release(Slice(x[i:i+1]).InOut(), &f))
	}
	require.LessOrEqual(t, inRanges(p.dom).released.n, tidyMin+1)
	for i := range x {
		require.ErrorContains(t, p.Release(Slice(x[i:i+1]).InOut(), &f), "before")
	}
	p.Finish(&f)
}

// A list with a range at its end leaves none of its earlier accesses in the table of objects.
func TestObjectsBeforeARange(t *testing.T) {
	var x int
	s := make([]byte, 4)
	var f Flow
	var root, n Node
	d := root.domain(&f)
	n.reserve(2)
	n.count = 2
	require.EqualValues(t, -1, n.enter(&root, d, []Access{InOut(&x), Slice(s).In()}, &f))
	require.Nil(t, n.objs[0], "an object is kept alive")
	for i := range d.tab {
		require.Nil(t, d.tab[i].last)
	}
	require.True(t, root.Register(&n, []Access{InOut(&x), Slice(s).In()}, &f))
	require.Equal(t, 2, n.Accesses())
}

// The error of Release names the declaration, and the first fault of the released access.
func TestReleaseOfParts(t *testing.T) {
	x := make([]byte, 8)
	var f Flow
	var root, p Node
	require.True(t, root.Register(&p, []Access{Slice(x[:4]).In().Weak(), Slice(x[4:]).InOut()}, &f))
	refuse := func(want string, a Access) {
		t.Helper()
		require.EqualError(t, p.Release(a, &f), fmt.Sprintf("deps: Release of %v: the task has %s", a, want))
	}
	refuse("declared In().Weak() for bytes 0 to 2 of it", Slice(x[1:3]).In())
	refuse("declared InOut() for bytes 0 to 4 of it", Slice(x[4:]).InOut().Weak())
	require.NoError(t, p.Release(Slice(x[:2]).In().Weak(), &f))
	refuse("given it up before, or a part of it", Slice(x[:4]).In().Weak())
	refuse("declared In().Weak() for bytes 0 to 2 of it", Slice(x[:4]).InOut())
	require.NoError(t, p.Release(Slice(x[2:2]).InOut(), &f), "nothing")
	p.Finish(&f)
}

// Below two levels of ranges, a task that takes a part of an object which a task above has declared
// weak Commutative excludes the holder of the object.
func TestSharedObjectsBelow(t *testing.T) {
	var x [8]byte
	var f Flow
	var root Node
	spawn := func(p *Node, runs bool, list ...Access) *Node {
		t.Helper()
		n := new(Node)
		require.True(t, p.Register(n, list, &f))
		require.Equal(t, runs, !n.Exclusive() || n.Acquire(&f))
		return n
	}
	p := spawn(&root, true, Commutative(&x).Weak())
	q := spawn(&root, true, Commutative(&x).Weak())
	a := spawn(p, true, Slice(x[1:7]).Commutative().Weak())
	b := spawn(a, true, Slice(x[2:4]).Commutative())
	c := spawn(q, false, Commutative(&x))
	d := spawn(a, false, Slice(x[5:6]).Commutative())
	b.Finish(&f)
	require.Same(t, c, f.NextReady())
	require.Nil(t, f.NextReady())
	c.Finish(&f)
	require.Same(t, d, f.NextReady())
	d.Finish(&f)
	for _, n := range []*Node{a, p, q} {
		n.Finish(&f)
	}
	require.Zero(t, Resources())
}
