// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

func nodes(n int) []*chain.Node {
	list := make([]*chain.Node, n)
	for i := range list {
		list[i] = new(chain.Node)
	}
	return list
}

// state returns how many tasks p has, and whether its timer runs.
func (p *Pool) state() (n int, armed bool) {
	p.Inspect(func(list []*chain.Node, a bool) { n, armed = len(list), a })
	return n, armed
}

// A batch moves whole or not at all, the warmest tasks first, and no reference to it is left.
func TestBatches(t *testing.T) {
	var p Pool
	p.Init(func() {})
	defer p.Close()
	given := nodes(Batch + 1)
	mine := append([]*chain.Node(nil), given...)
	p.Put(mine[:Batch-1])
	require.Empty(t, p.Get(nil), "not a batch yet")
	p.Put(mine[Batch-1:])
	for _, n := range mine {
		require.Nil(t, n, "the list is cleared")
	}
	before := nodes(2)
	got := p.Get(before)
	require.Len(t, got, 2+Batch)
	require.Same(t, before[1], got[1])
	for i := range Batch {
		require.Same(t, given[Batch-i], got[2+i])
	}
	n, armed := p.state()
	require.Equal(t, 1, n)
	require.False(t, armed)
	require.Nil(t, p.list[:2][1], "a reference to a task that was taken")
}

// Tasks that were not needed between two checks are dropped, except Kept of them. Tasks that were
// needed stay. The timer runs while there are more than Kept.
func TestCheck(t *testing.T) {
	checked := 0
	var p Pool
	p.Init(func() { checked++ })
	p.Put(nodes(Kept))
	_, armed := p.state()
	require.False(t, armed)
	p.Put(nodes(2 * Batch))
	_, armed = p.state()
	require.True(t, armed)
	p.Check() // least is zero: all have come since the last check
	n, armed := p.state()
	require.Equal(t, Kept+2*Batch, n)
	require.True(t, armed)

	var got []*chain.Node
	for range Kept/Batch + 1 {
		got = p.Get(got)
	}
	p.Put(got)
	p.Check() // all but a batch have been needed
	n, armed = p.state()
	require.Equal(t, Kept+Batch, n)
	require.True(t, armed)
	require.Equal(t, 2, checked)
	require.EqualValues(t, 2, p.Checks())

	p.Check()
	n, _ = p.state()
	require.Equal(t, Kept, n)
	p.Close()
	p.Put(nodes(Batch))
	require.True(t, p.armed, "after Close no timer starts")
}
