// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func BenchmarkChain(b *testing.B) {
	var root Node
	var f Flow
	var x int
	nodes := [2]*Node{new(Node), new(Node)}
	b.ReportAllocs()
	acc := []Access{InOut(&x)}
	root.Register(nodes[0], acc, &f)
	for i := 1; b.Loop(); i++ {
		n := nodes[i&1]
		if root.Register(n, acc, &f) {
			b.Fatal("ready")
		}
		p := nodes[(i-1)&1]
		p.Finish(&f)
		Retire(p, &f)
		if f.NextReady() != n || f.NextFree() != p {
			b.Fatal("lost")
		}
	}
}

func BenchmarkFive(b *testing.B) {
	var root Node
	var f Flow
	var x [5]int
	nodes := [2]*Node{new(Node), new(Node)}
	b.ReportAllocs()
	acc := []Access{InOut(&x[0]), In(&x[1]), In(&x[2]), In(&x[3]), In(&x[4])}
	root.Register(nodes[0], acc, &f)
	for i := 1; b.Loop(); i++ {
		n := nodes[i&1]
		if root.Register(n, acc, &f) {
			b.Fatal("ready")
		}
		p := nodes[(i-1)&1]
		p.Finish(&f)
		Retire(p, &f)
		if f.NextReady() != n || f.NextFree() != p {
			b.Fatal("lost")
		}
	}
}

// An object is known by its address, whatever its type.
func TestObjectsByAddress(t *testing.T) {
	var s struct{ first, second int }
	var root, a, b, c Node
	var f Flow
	require.True(t, root.Register(&a, []Access{InOut(&s)}, &f))
	require.False(t, root.Register(&b, []Access{In(&s.first)}, &f))
	require.True(t, root.Register(&c, []Access{InOut(&s.second)}, &f))
	require.Equal(t, 1, b.Accesses())
}

// NextReady returns nodes in the order in which they became ready.
func TestNextReadyOrder(t *testing.T) {
	var x int
	var root Node
	var f Flow
	nodes := make([]Node, 100)
	root.Register(&nodes[0], []Access{InOut(&x)}, &f)
	for i := 1; i < len(nodes); i++ {
		require.False(t, root.Register(&nodes[i], []Access{In(&x)}, &f))
	}
	nodes[0].Finish(&f)
	for i := 1; i < len(nodes); i++ {
		require.True(t, f.NextReady() == &nodes[i])
	}
	require.Nil(t, f.NextReady())
	require.Nil(t, f.NextFree())
}
