// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGrowth(t *testing.T) {
	series := func(n int, at func(i int) Sample) (l Series) {
		for i := range n {
			l = append(l, at(i))
		}
		return l
	}
	for name, c := range map[string]struct {
		l    Series
		want string
	}{
		"few":        {series(7, func(i int) Sample { return Sample{uint64(i) << 30, 10, 10} }), ""},
		"constant":   {series(100, func(int) Sample { return Sample{50 << 20, 10, 10} }), ""},
		"noise":      {series(100, func(i int) Sample { return Sample{uint64(5+i%3) << 20, 10 + i%7, 10 + i%3} }), ""},
		"start":      {series(100, func(i int) Sample { return Sample{uint64(min(i, 20)) << 20, 10, 10} }), ""},
		"heap":       {series(100, func(i int) Sample { return Sample{uint64(i) << 18, 10, 10} }), "live heap"},
		"goroutines": {series(100, func(i int) Sample { return Sample{1, i, 10} }), "goroutines"},
		"files":      {series(100, func(i int) Sample { return Sample{1, 10, i} }), "descriptors"},
	} {
		if got := c.l.Growth(); c.want == "" {
			require.Empty(t, got, name)
		} else {
			require.Contains(t, got, c.want, name)
		}
	}
}

var kept [][]byte

// A program that keeps ever more is found, and one that does not is not.
func TestEvery(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		kept = nil
		stop := Every(time.Microsecond)
		for range 400 {
			b := make([]byte, 64<<10)
			if keeps {
				kept = append(kept, b)
			}
			time.Sleep(100 * time.Microsecond) // samples are to fall in between
		}
		if got := stop().Growth(); keeps {
			require.Contains(t, got, "live heap")
		} else {
			require.Empty(t, got)
		}
	}
	kept = nil
}
