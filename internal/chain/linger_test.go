// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node that lingers is left to the collector. None of its accesses keeps another node alive,
// whichever of them is over last: otherwise a reference to one node would keep a list of such nodes
// alive.
func TestWhatLingersKeepsNothing(t *testing.T) {
	x, y := new(int), new(int)
	more := make([]int, 3*blockLen)
	for name, c := range map[string]struct {
		list  []Access
		first *int // the object whose reader is over first
	}{
		"it lingers last":       {[]Access{In(x).Weak(), In(y)}, y},
		"it lingers first":      {[]Access{In(x).Weak(), In(y)}, x},
		"all linger":            {[]Access{In(x).Weak(), InOut(y).Weak()}, x},
		"a writer":              {[]Access{InOut(x).Weak(), In(y)}, x},
		"in another block":      {append(eachOf(more), In(x).Weak(), In(y)), x},
		"in another block last": {append(eachOf(more), In(x).Weak(), In(y)), y},
	} {
		t.Run(name, func(t *testing.T) {
			var f Flow
			p := new(Node)
			end := func(n *Node) {
				for ; n != nil; n = f.NextReady() {
					n.Finish(&f)
					n.Retire()
				}
			}
			spawn := func(list ...Access) (n *Node, ready bool) {
				n = new(Node)
				return n, p.Register(n, list, &f)
			}
			readers := map[*int]*Node{}
			readers[x], _ = spawn(In(x))
			readers[y], _ = spawn(In(y))
			var chain []*Node
			for range 4 {
				n, ready := spawn(c.list...)
				if chain = append(chain, n); ready {
					end(n)
				}
			}
			_, ready := spawn(append(eachOf(more), InOut(x), InOut(y))...)
			require.False(t, ready)
			end(readers[c.first])
			delete(readers, c.first)
			for _, r := range readers {
				end(r)
			}
			lingering := 0
			for _, n := range chain {
				if n.refs.Load() == 0 {
					continue
				}
				lingering++
				for i := range n.count {
					require.Nil(t, n.at(i).succ(), "access %d", i)
					require.Nil(t, n.at(i).ref(), "access %d", i)
				}
			}
			require.NotZero(t, lingering)
		})
	}
}

func eachOf(xs []int) (list []Access) {
	for i := range xs {
		list = append(list, In(&xs[i]))
	}
	return list
}
