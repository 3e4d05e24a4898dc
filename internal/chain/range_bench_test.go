// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package chain

import (
	"fmt"
	"testing"
)

// Each benchmark registers and finishes one task per iteration, as BenchmarkChain and BenchmarkFive
// do for objects.

func benchPair(b *testing.B, list func(i int) []Access, chained bool) {
	var root Node
	var f Flow
	nodes := [2]*Node{new(Node), new(Node)}
	b.ReportAllocs()
	root.Register(nodes[0], list(0), &f)
	for i := 1; b.Loop(); i++ {
		n, p := nodes[i&1], nodes[(i-1)&1]
		if root.Register(n, list(i), &f) == chained {
			b.Fatal("order")
		}
		p.Finish(&f)
		Retire(p, &f)
		if chained && f.NextReady() != n || f.NextFree() != p {
			b.Fatal("lost")
		}
	}
}

// BenchmarkRangeChain is a chain on one unchanging range.
func BenchmarkRangeChain(b *testing.B) {
	x := make([]int, 100)
	acc := []Access{Slice(x).InOut()}
	benchPair(b, func(int) []Access { return acc }, true)
}

// BenchmarkRangeObject is a chain on one object in a domain of ranges.
func BenchmarkRangeObject(b *testing.B) {
	x := make([]int, 100)
	y := make([]int, 1)
	acc := []Access{InOut(&x[0])}
	first := []Access{InOut(&x[0]), Slice(y).In()}
	benchPair(b, func(i int) []Access {
		if i == 0 {
			return first
		}
		return acc
	}, true)
}

// BenchmarkRangeShift is a chain of ranges that overlap by half.
func BenchmarkRangeShift(b *testing.B) {
	x := make([]int, 1000)
	var acc [1]Access
	benchPair(b, func(i int) []Access {
		lo := i % 900
		if i%900 == 0 {
			acc[0] = Slice(x).InOut()
		} else {
			acc[0] = Slice(x[lo : lo+100]).InOut()
		}
		return acc[:]
	}, true)
}

// BenchmarkRangeFive is BenchmarkFive with ranges.
func BenchmarkRangeFive(b *testing.B) {
	x := make([]int, 100)
	acc := []Access{Slice(x[:10]).InOut(), Slice(x[20:30]).In(), Slice(x[40:50]).In(), Slice(x[60:70]).In(), Slice(x[80:90]).In()}
	benchPair(b, func(int) []Access { return acc }, true)
}

// BenchmarkRangeTable names one of many ranges in use: the cost must grow with the logarithm of
// their number.
func BenchmarkRangeTable(b *testing.B) {
	for _, n := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			x := make([]int, 2*n)
			var root Node
			var f Flow
			nodes := make([]Node, n)
			for i := range nodes {
				root.Register(&nodes[i], []Access{Slice(x[2*i : 2*i+1]).InOut()}, &f)
			}
			var acc [1]Access
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i * 7919 % n
				acc[0] = Slice(x[2*k : 2*k+1]).InOut()
				p := &nodes[k]
				p.Finish(&f)
				Retire(p, &f)
				f.NextFree()
				if !root.Register(p, acc[:], &f) {
					b.Fatal("waits")
				}
			}
		})
	}
}
