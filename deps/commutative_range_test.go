// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/deps"
)

// In a domain of ranges Commutative is ordered as InOut, and a part of the object named as a range is ordered with it.
func TestCommutativeAmongRanges(t *testing.T) {
	var f deps.Flow
	var root deps.Node
	var x [4]int64
	spawn := func(accs ...deps.Access) (*deps.Node, bool) {
		n := new(deps.Node)
		ready := root.Register(n, accs, &f)
		return n, ready && (!n.Exclusive() || n.Acquire(&f))
	}
	next := func() *deps.Node {
		n := f.NextReady()
		if n != nil && n.Exclusive() && !n.Acquire(&f) {
			return nil
		}
		return n
	}
	a, ok := spawn(deps.Commutative(&x)) // in a domain of objects yet
	require.True(t, ok)
	b, ok := spawn(deps.Slice(x[1:3]).InOut())
	require.False(t, ok)
	c, ok := spawn(deps.Commutative(&x))
	require.False(t, ok)
	d, ok := spawn(deps.Commutative(&x))
	require.False(t, ok)
	require.NoError(t, a.Release(deps.Commutative(&x), &f))
	require.True(t, next() == b)
	b.Finish(&f)
	require.True(t, next() == c)
	require.Equal(t, 1, deps.Claims())

	var other commuter // of another domain
	require.False(t, other.start(&f, deps.Commutative(&x)))
	var child deps.Node // has the object by its parent
	require.True(t, c.Register(&child, []deps.Access{deps.Slice(x[:2]).InOut(), deps.Commutative(&x)}, &f))
	require.False(t, child.Exclusive())
	c.Finish(&f)
	require.Nil(t, next(), "the child has the object")
	child.Finish(&f)
	first, second := next(), next()
	require.True(t, first == &other.node && second == nil || first == nil && second == &other.node)
	other.node.Finish(&f)
	require.True(t, next() == d)
	require.Error(t, d.Release(deps.InOut(&x), &f))
	require.NoError(t, d.Release(deps.Commutative(&x), &f))
	require.Zero(t, deps.Claims())
	a.Finish(&f)
	d.Finish(&f)
}

// A task that takes an object has no weak accesses in a domain of ranges either, and Release knows what was said.
func TestCommutativeRangesStrong(t *testing.T) {
	var f deps.Flow
	var root, w, n deps.Node
	var x int
	var s [8]byte
	require.True(t, root.Register(&w, []deps.Access{deps.Slice(s[2:4]).InOut()}, &f))
	require.False(t, root.Register(&n, []deps.Access{deps.Commutative(&x), deps.Slice(s[:]).In().Weak()}, &f))
	w.Finish(&f)
	require.True(t, f.NextReady() == &n)
	require.True(t, n.Acquire(&f))
	require.Error(t, n.Release(deps.Slice(s[:]).In(), &f))
	require.NoError(t, n.Release(deps.Slice(s[:]).In().Weak(), &f))
	n.Finish(&f)
	require.Zero(t, deps.Claims())
}

// TestHammerCommutativeRanges is TestHammerRanges with Commutative variables.
func TestHammerCommutativeRanges(t *testing.T) {
	count := 200
	if testing.Short() {
		count = 40
	}
	p := rprofile{name: "commutative", modes: rangeModes, cells: 12, tasks: 80, depth: 3, list: 3, objects: .7, late: 30, commut: .6, weak: .4, release: .1, eager: .35}
	base := rand.Uint64() >> 16
	if *seedFlag != 0 {
		base, count = *seedFlag, 1
	}
	for k := range count {
		seed := base + uint64(k)
		r := rand.New(rand.NewPCG(seed, 12))
		c, pr, root := newRCrew(&p, r)
		c.run(root, 2+r.IntN(7), seed)
		c.verify(t, &profile{nofree: true}, &pr.planner, seed)
	}
}
