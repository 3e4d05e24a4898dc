// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// commutativeRanges is a domain whose tasks take their objects and bytes as soon as they may.
type commutativeRanges struct {
	t    *testing.T
	f    chain.Flow
	root chain.Node
	name map[*chain.Node]string
}

func newCommutativeRanges(t *testing.T) *commutativeRanges {
	return &commutativeRanges{t: t, name: map[*chain.Node]string{}}
}

// spawn makes a child of p, which starts now if yes is true.
func (w *commutativeRanges) spawn(p *chain.Node, name string, yes bool, accs ...chain.Access) *chain.Node {
	w.t.Helper()
	n := new(chain.Node)
	w.name[n] = name
	ready := p.Register(n, accs, &w.f)
	require.Equal(w.t, yes, ready && (!n.Exclusive() || n.Acquire(&w.f)), name)
	return n
}

// started checks which tasks have started since its last call.
func (w *commutativeRanges) started(names ...string) {
	w.t.Helper()
	var got []string
	for n := w.f.NextReady(); n != nil; n = w.f.NextReady() {
		if !n.Exclusive() || n.Acquire(&w.f) {
			got = append(got, w.name[n])
		}
	}
	require.ElementsMatch(w.t, names, got)
}

// end ends tasks.
func (w *commutativeRanges) end(list ...*chain.Node) {
	for _, n := range list {
		n.Finish(&w.f)
	}
}

// Commutative ranges exclude each other where they overlap, in any order, and form a run that is a
// writer to the accesses before and after it.
func TestCommutativeRanges(t *testing.T) {
	w := newCommutativeRanges(t)
	var x [10]int64
	part := func(lo, hi int) chain.Access { return chain.Slice(x[lo:hi]).Commutative() }
	first := w.spawn(&w.root, "first", true, chain.Slice(x[:]).InOut())
	a := w.spawn(&w.root, "a", false, part(0, 4))
	b := w.spawn(&w.root, "b", false, part(3, 6))
	c := w.spawn(&w.root, "c", false, part(4, 8))
	d := w.spawn(&w.root, "d", false, chain.Commutative(&x[8]), part(9, 10))
	last := w.spawn(&w.root, "last", false, chain.Slice(x[2:9]).In())
	w.end(first)
	w.started("a", "c", "d") // b overlaps a, and c
	w.end(c)
	w.started()
	require.NoError(t, a.Release(part(3, 4), &w.f))
	w.started("b") // a has the rest
	require.Error(t, a.Release(part(3, 4), &w.f))
	w.end(b, a)
	w.started()
	w.end(d)
	w.started("last")
	w.end(last)
	require.Zero(t, chain.Resources())
}

// A task takes all its objects and ranges in one step, also several kinds, and also when others
// take them in other domains; its children then have them.
func TestCommutativeRangesTogether(t *testing.T) {
	w := newCommutativeRanges(t)
	var x, y [8]byte
	var z int
	part := func(lo, hi int) chain.Access { return chain.Slice(x[lo:hi]).Commutative() }
	a := w.spawn(&w.root, "a", true, part(0, 3), chain.Commutative(&z))
	b := w.spawn(&w.root, "b", false, part(2, 5), chain.Slice(y[:2]).Commutative())
	// b waits for a and has nothing yet
	c := w.spawn(&w.root, "c", true, chain.Slice(y[1:]).Commutative(), part(6, 8))
	// in another domain, which has no ranges
	var other commuter
	require.False(t, other.start(&w.f, chain.Commutative(&z)))
	w.name[&other.node] = "other"

	// Children of a holder have its objects and bytes, in their order, and may name parts of them.
	first := w.spawn(a, "first child", true, part(0, 2))
	second := w.spawn(a, "second child", false, part(1, 3), chain.Commutative(&z))
	require.False(t, first.Exclusive() || second.Exclusive())
	w.end(a)
	w.started()
	w.end(first)
	w.started("second child")
	w.end(second)
	w.started("other") // b waits for c now
	w.end(c)
	w.started("b")
	other.node.Finish(&w.f)
	w.end(b)
	require.Zero(t, chain.Resources())
}

// A weak Commutative range takes nothing; the task's children exclude each other and their cousins
// byte by byte.
func TestCommutativeRangesWeak(t *testing.T) {
	w := newCommutativeRanges(t)
	var x [8]byte
	part := func(lo, hi int) chain.Access { return chain.Slice(x[lo:hi]).Commutative() }
	p := w.spawn(&w.root, "p", true, part(0, 8).Weak())
	q := w.spawn(&w.root, "q", true, part(0, 8).Weak())
	a := w.spawn(p, "a", true, part(0, 4))
	b := w.spawn(q, "b", false, part(2, 6))
	c := w.spawn(q, "c", true, part(6, 8))
	d := w.spawn(p, "d", false, part(0, 8))
	last := w.spawn(&w.root, "last", false, part(0, 8))
	after := w.spawn(&w.root, "after", false, chain.Slice(x[:]).In())
	w.end(p, q)
	w.started()
	w.end(a)
	w.started("b")
	w.end(c)
	w.started()
	w.end(b)
	w.started("d") // the oldest
	w.end(d)
	w.started("last")
	w.end(last)
	w.started("after")
	w.end(after)
	require.Zero(t, chain.Resources())
}

// Below a task that has declared an object, parts of the object and the object itself exclude each
// other, and also exclude the cousins in a domain of objects.
func TestCommutativeRangesOfAnObject(t *testing.T) {
	w := newCommutativeRanges(t)
	var x [8]byte
	p := w.spawn(&w.root, "p", true, chain.Commutative(&x).Weak())
	q := w.spawn(&w.root, "q", true, chain.Commutative(&x).Weak())
	a := w.spawn(p, "a", true, chain.Slice(x[2:4]).Commutative())
	b := w.spawn(q, "b", false, chain.Commutative(&x))
	w.end(a)
	w.started("b")
	c := w.spawn(p, "c", false, chain.Slice(x[4:6]).Commutative())
	w.end(b)
	w.started("c")
	w.end(c)

	// Several parts of one object, in any order, are one hold on the object, which ends with the
	// last of them.
	part := func(lo, hi int) chain.Access { return chain.Slice(x[lo:hi]).Commutative() }
	for _, parts := range [][]chain.Access{{part(0, 2), part(4, 6)}, {part(4, 6), part(0, 2)}, {part(4, 6), part(0, 2), part(2, 3)}} {
		d := w.spawn(p, "d", true, parts...)
		e := w.spawn(q, "e", false, chain.Commutative(&x))
		for _, part := range parts[1:] {
			require.NoError(t, d.Release(part, &w.f))
			w.started()
		}
		require.NoError(t, d.Release(parts[0], &w.f))
		w.started("e")
		w.end(d, e)
	}
	w.end(p, q)
	require.Zero(t, chain.Resources())
}

// A task that needs a large range is not overtaken for ever by tasks that need parts of it.
func TestCommutativeRangesAreFair(t *testing.T) {
	w := newCommutativeRanges(t)
	var x [16]byte
	part := func(lo, hi int) chain.Access { return chain.Slice(x[lo:hi]).Commutative() }
	var running []*chain.Node
	for i := range 4 {
		running = append(running, w.spawn(&w.root, "part", true, part(4*i, 4*i+4)))
	}
	all := w.spawn(&w.root, "all", false, part(0, 16))
	for k := 0; ; k++ {
		require.Less(t, k, 100)
		n := new(chain.Node)
		w.name[n] = "late"
		if i := k % 4; w.root.Register(n, []chain.Access{part(4*i, 4*i+4)}, &w.f) && n.Acquire(&w.f) {
			t.Fatal("two at a time")
		} else {
			w.end(running[i])
			if running[i] = w.f.NextReady(); running[i] == nil {
				break
			}
		}
		require.NotSame(t, all, running[k%4])
	}
	for i := range running {
		if running[i] != nil {
			w.end(running[i])
		}
	}
	require.True(t, w.f.NextReady() == all)
	w.end(all)
	for n := w.f.NextReady(); n != nil; n = w.f.NextReady() {
		w.end(n)
	}
	require.Zero(t, chain.Resources())
}

// In a domain of ranges, too, a task that takes an object has no weak accesses, and Release knows
// which strength was declared.
func TestCommutativeRangesStrong(t *testing.T) {
	var f chain.Flow
	var root, w, n chain.Node
	var x int
	var s [8]byte
	require.True(t, root.Register(&w, []chain.Access{chain.Slice(s[2:4]).InOut()}, &f))
	require.False(t, root.Register(&n, []chain.Access{chain.Commutative(&x), chain.Slice(s[:]).In().Weak()}, &f))
	w.Finish(&f)
	require.True(t, f.NextReady() == &n)
	require.True(t, n.Acquire(&f))
	require.Error(t, n.Release(chain.Slice(s[:]).In(), &f))
	require.NoError(t, n.Release(chain.Slice(s[:]).In().Weak(), &f))
	n.Finish(&f)
	require.Zero(t, chain.Resources())
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
