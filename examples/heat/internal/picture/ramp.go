// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"image/color"
	"math"
)

// ramp returns the heat palette in n steps: blue, cyan, green, yellow, red, at equal distances.
func ramp(n int) []color.RGBA {
	stops := [][3]float64{{0, 0, 255}, {0, 255, 255}, {0, 255, 0}, {255, 255, 0}, {255, 0, 0}}
	colours := make([]color.RGBA, n)
	for i := range colours {
		p := float64(i) / float64(n-1) * float64(len(stops)-1)
		s := min(int(p), len(stops)-2)
		p -= float64(s)
		mix := func(k int) uint8 { return uint8(math.Round(stops[s][k]*(1-p) + stops[s+1][k]*p)) }
		colours[i] = color.RGBA{mix(0), mix(1), mix(2), 255}
	}
	return colours
}

// scale maps temperatures from a range to n indices.
type scale struct {
	low, high float64
	n         int
}

// emptyRange returns an empty scale, for widen.
func emptyRange(n int) scale { return scale{math.Inf(1), math.Inf(-1), n} }

func (s *scale) widen(x float64) {
	s.low, s.high = min(s.low, x), max(s.high, x)
}

// index returns 0 to n-1. It is 0 if the range is empty or a single value.
func (s *scale) index(x float64) int {
	if !(s.high > s.low) {
		return 0
	}
	i := int((x - s.low) / (s.high - s.low) * float64(s.n))
	return max(0, min(i, s.n-1))
}
