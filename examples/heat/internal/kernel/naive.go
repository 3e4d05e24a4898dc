// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Naive sweeps row by row, exactly as in the formula. The other kernels are tested against it.
func Naive(m []float64, stride int, r Rect) {
	if r.Cols <= 0 {
		return
	}
	for i := range r.Rows {
		at := (r.Row+i)*stride + r.Col
		north := m[at-stride:][:r.Cols]
		south := m[at+stride:][:r.Cols]
		row := m[at-1:][:r.Cols+2] // row[c+1] is the cell of north[c]
		for c := range north {
			// The conversions forbid fused multiply-add where an architecture has it.
			row[c+1] = float64(0.25 * float64(float64(float64(north[c]+south[c])+row[c+2])+row[c]))
		}
	}
}
