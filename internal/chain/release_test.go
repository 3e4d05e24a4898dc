// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weft/internal/chain"
)

// A task with hundreds of accesses gives them up one by one, with children or without, in a domain
// of objects and in one that has become one of ranges. Each release lets exactly its successor
// start; illegal releases are refused.
func TestReleaseOfMany(t *testing.T) {
	const n = 300
	for _, with := range []string{"nothing", "a child before", "a child after the first", "a range before"} {
		t.Run(with, func(t *testing.T) {
			var m nodes
			var root chain.Node
			x, other := make([]int64, n), make([]int64, 8)
			list := make([]chain.Access, n)
			for i := range list {
				list[i] = chain.InOut(&x[i])
				if i%3 == 0 {
					list[i] = chain.Concurrent(&x[i])
				}
			}
			// started returns the nodes that have become ready since the last call.
			started := func() []*chain.Node {
				run := m.run
				m.run = nil
				return run
			}
			p := m.spawn(&root, list...)
			require.Equal(t, []*chain.Node{p}, started())
			next := make([]*chain.Node, n)
			for i := range next {
				next[i] = m.spawn(&root, chain.In(&x[i]))
			}
			require.Empty(t, started())
			var children []*chain.Node
			child := func(a chain.Access) {
				children = append(children, m.spawn(p, a))
				require.Equal(t, children[len(children)-1:], started())
			}
			release := func(a chain.Access) error {
				defer m.collect()
				return p.Release(a, &m.flow)
			}
			order := rand.New(rand.NewPCG(1, 2)).Perm(n)
			switch with {
			case "a child before":
				child(chain.InOut(&other[0]))
			case "a range before":
				child(chain.Slice(other).InOut())
			}
			require.ErrorContains(t, release(chain.InOut(&other[3])), "has not declared")
			for k, i := range order[:n/2] {
				wrong := chain.In(&x[i])
				require.ErrorContains(t, release(wrong), "the task has declared")
				require.ErrorContains(t, release(list[i].Weak()), "the task has declared")
				require.Empty(t, started())
				require.NoError(t, release(list[i]))
				require.Equal(t, []*chain.Node{next[i]}, started())
				require.ErrorContains(t, release(list[i]), "before")
				if k == 0 && with == "a child after the first" {
					child(chain.InOut(&other[0]))
				}
			}
			child(list[order[n-1]])
			require.Panics(t, func() { p.Register(new(chain.Node), []chain.Access{list[order[0]]}, &m.flow) })
			held := children[len(children)-1]
			p.Finish(&m.flow)
			m.collect()
			var rest []*chain.Node
			for _, i := range order[n/2 : n-1] {
				rest = append(rest, next[i])
			}
			require.ElementsMatch(t, rest, started(), "all but what a child has")
			m.end(held)
			require.Equal(t, []*chain.Node{next[order[n-1]]}, started())
			for _, c := range children[:len(children)-1] {
				m.end(c)
			}
			chain.Retire(p, &m.flow)
			for _, s := range next {
				m.end(s)
			}
			root.Finish(&m.flow)
			chain.Retire(&root, &m.flow)
		})
	}
}

// A node serves several tasks with many accesses, each given up in random order. The hint and the
// index of one task are not used for the next.
func TestReleaseOfManyAgain(t *testing.T) {
	const n = 300
	var m nodes
	var root, node chain.Node
	for round := range uint64(5) {
		x := make([]int64, n)
		list := make([]chain.Access, n)
		for i := range list {
			list[i] = chain.InOut(&x[i])
		}
		require.True(t, root.Register(&node, list, &m.flow))
		next := make([]*chain.Node, n)
		for i := range next {
			next[i] = m.spawn(&root, chain.In(&x[i]))
		}
		for _, i := range rand.New(rand.NewPCG(round, 3)).Perm(n)[:n-n/3] {
			require.NoError(t, node.Release(list[i], &m.flow))
			require.ErrorContains(t, node.Release(list[i], &m.flow), "before")
			m.collect()
			require.Equal(t, []*chain.Node{next[i]}, m.run)
			m.run = nil
		}
		node.Finish(&m.flow)
		m.collect()
		require.Len(t, m.run, n/3)
		m.run = nil
		require.True(t, node.Retire())
		for _, s := range next {
			m.end(s)
		}
	}
	root.Finish(&m.flow)
	chain.Retire(&root, &m.flow)
}
