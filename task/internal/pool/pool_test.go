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

// A batch comes whole or not at all, the warmest tasks first, and leaves nothing of itself behind.
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
		require.Nil(t, n, "the giver keeps nothing")
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
	require.Nil(t, p.list[:2][1], "what is gone is not referred to")
}

// What was not needed between two looks goes, but for Kept tasks; the timer runs as long as there
// are more than these. What was needed stays.
func TestCheck(t *testing.T) {
	looked := 0
	var p Pool
	p.Init(func() { looked++ })
	p.Put(nodes(Kept))
	_, armed := p.state()
	require.False(t, armed)
	p.Put(nodes(2 * Batch))
	_, armed = p.state()
	require.True(t, armed)
	p.Check() // least is zero: all have come since the look before
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
	require.Equal(t, 2, looked)
	require.EqualValues(t, 2, p.Checks())

	p.Check()
	n, _ = p.state()
	require.Equal(t, Kept, n)
	p.Close()
	p.Put(nodes(Batch))
	require.True(t, p.armed, "after Close no timer starts")
}
