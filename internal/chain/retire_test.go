// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// keepsNothing fails if n has links to other nodes, or further memory.
func keepsNothing(t *testing.T, n *Node) {
	t.Helper()
	require.True(t, n.more == nil && n.dom == nil && !n.hasDom)
	require.Equal(t, [blockLen]*access{}, n.succs)
	require.Equal(t, [blockLen]object{}, n.objs)
}

// A node that is retired for good comes out of no list. It keeps nothing alive from when nothing
// refers to it: at once, or when its last successor is linked.
func TestRetireForGood(t *testing.T) {
	for _, k := range []int{0, 1, blockLen, blockLen + 1, maxRested + 5} {
		x := make([]int, k+1)
		for _, followed := range []bool{false, true} {
			var f Flow
			var root, n, kid, next Node
			require.True(t, root.Register(&n, objects(x[:k]), &f))
			require.True(t, n.Register(&kid, []Access{InOut(&x[k])}, &f))
			if followed {
				require.Equal(t, k == 0, root.Register(&next, objects(x[:k]), &f))
			}
			kid.Finish(&f)
			n.Finish(&f)
			kid.RetireForGood()
			keepsNothing(t, &kid)
			n.RetireForGood()
			if !followed && k > 0 {
				require.NotZero(t, n.refs.Load())
				for i := range n.count {
					require.Nil(t, n.at(i).ref(), "an object is kept alive")
				}
				require.True(t, root.Register(&next, objects(x[:k]), &f))
			}
			keepsNothing(t, &n)
			require.Nil(t, f.NextFree())
		}
	}
}

// A task that is over keeps no object alive, though its node may be the last of chains. An access
// with a child refers to the child's access.
func TestRetiredKeepsNoObjects(t *testing.T) {
	for _, k := range []int{1, blockLen, blockLen + 2, 3 * blockLen} {
		x := make([]int, k)
		var f Flow
		var root, n, next Node
		require.True(t, root.Register(&n, objects(x), &f))
		n.Finish(&f)
		require.False(t, n.Retire(), "others may follow")
		for i := range n.count {
			require.Nil(t, n.at(i).ref())
		}
		require.True(t, root.Register(&next, objects(x), &f))
		require.Same(t, &n, f.NextFree())
		require.Nil(t, f.NextFree())
	}
}

// A node that lingers keeps no child alive either.
func TestWhatLingersKeepsNoChild(t *testing.T) {
	var x int
	var f Flow
	var root, r, w, p, kid, after Node
	end := func(n *Node) { n.Finish(&f); n.Retire() }
	require.True(t, root.Register(&r, []Access{In(&x)}, &f))
	require.True(t, root.Register(&w, []Access{InOut(&x).Weak()}, &f))
	end(&w)
	require.True(t, root.Register(&p, []Access{InOut(&x).Weak()}, &f))
	require.True(t, p.Register(&kid, []Access{In(&x)}, &f))
	p.Finish(&f)
	require.False(t, root.Register(&after, []Access{InOut(&x)}, &f))
	require.NotNil(t, p.at(0).ref())
	end(&r)
	require.Nil(t, p.at(0).ref(), "the write token was the last for the child")
	end(&kid)
	p.Retire()
	require.Same(t, &after, f.NextReady())
	require.Nil(t, p.at(0).succ())
	require.Equal(t, int32(leftToGC), p.refs.Load())
	end(&after)
}

// The lists of a Flow keep nothing alive that was taken out.
func TestFlowKeepsNothing(t *testing.T) {
	var x [8]byte
	var y int
	var f Flow
	var root, w, v, p, kid, n Node
	require.True(t, root.Register(&w, []Access{InOut(&x), InOut(&y)}, &f))
	require.False(t, root.Register(&v, []Access{In(&x)}, &f))
	require.True(t, root.Register(&p, []Access{InOut(&x).Weak(), InOut(&y).Weak()}, &f))
	require.False(t, p.Register(&kid, []Access{Slice(x[1:3]).In(), Slice(x[5:6]).InOut()}, &f))
	require.False(t, root.Register(&n, []Access{InOut(&x), In(&y)}, &f))
	p.Finish(&f)
	for m := &w; m != nil; m = f.NextReady() {
		m.Finish(&f)
		m.Retire()
	}
	p.Retire()
	for f.NextFree() != nil {
	}
	require.True(t, cap(f.work) > 0 && cap(f.msgs) > 0 && cap(f.outs) > 0)
	for _, s := range f.work[:cap(f.work)] {
		require.Equal(t, step{}, s)
	}
	for _, m := range f.msgs[:cap(f.msgs)] {
		require.Equal(t, message{}, m)
	}
	for _, o := range f.outs[:cap(f.outs)] {
		require.Equal(t, out{}, o)
	}
}

// A node without accesses has a number for the runtime's use.
func TestNumber(t *testing.T) {
	var root, n Node
	require.True(t, root.Register(&n, nil, new(Flow)))
	n.SetNumber(7)
	require.EqualValues(t, 7, n.Number())
	n.SetNumber(-1)
	require.EqualValues(t, -1, n.Number())
	require.Zero(t, n.Accesses())
}
