// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package deps

import "testing"

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
