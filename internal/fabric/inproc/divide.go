// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package inproc

import (
	"context"

	"weft/internal/fabric"
)

type divisionKey struct{}

// Divide returns a context under which a run in this process behaves as if its ranks were in processes of these
// sizes, in the order of ranks: memory of another part is out of reach. It is for tests of what is built on
// messages between processes. Ranks beyond the sum are in processes of their own.
func Divide(ctx context.Context, sizes ...int) context.Context {
	return context.WithValue(ctx, divisionKey{}, sizes)
}

// Division returns where each part of a divided run of n ranks begins, and n; nil if the run is not divided.
func Division(ctx context.Context, n int) []int {
	sizes, ok := ctx.Value(divisionKey{}).([]int)
	if !ok {
		return nil
	}
	bounds := []int{0}
	for at := 0; at < n; {
		size := 1
		if len(bounds) <= len(sizes) {
			size = sizes[len(bounds)-1]
		}
		at = min(at+max(size, 1), n)
		bounds = append(bounds, at)
	}
	return bounds
}

// Part returns the endpoints lo up to hi, which then do not know that the others are in the same process.
func Part(eps []fabric.Endpoint, lo, hi int) []fabric.Endpoint {
	var part []fabric.Endpoint
	for _, ep := range eps[lo:hi] {
		part = append(part, partial{ep, lo, hi})
	}
	return part
}

// partial hides the peers outside of its part.
type partial struct {
	fabric.Endpoint
	lo, hi int
}

func (p partial) Local(peer int) fabric.Handler {
	if peer < p.lo || peer >= p.hi {
		return nil
	}
	return p.Endpoint.Local(peer)
}
