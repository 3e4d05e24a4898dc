// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Rows8 sweeps strips of eight rows. Row sweeps the remaining rows.
func Rows8(m []float64, stride int, r Rect) {
	row := r.Row
	if r.Cols >= edge {
		for end := r.Row + r.Rows; end-row >= inFlight; row += inFlight {
			at := row*stride + r.Col
			leftEdge8(m, stride, at)
			middle8(m, stride, at, r.Cols-edge)
			rightEdge8(m, stride, at+r.Cols-edge)
		}
	}
	Row(m, stride, Rect{row, r.Col, r.Row + r.Rows - row, r.Cols})
}

// middle8 sweeps the middle of a strip whose first cell has index at, in n steps: in each, row i
// updates its column 14-2i+step. The columns before that are up to date.
//
// w is a row's latest value, the western neighbour of its next cell; v is the value before it, the
// northern neighbour of the next row's next cell.
func middle8(m []float64, stride, at, n int) {
	w0, w1, w2, w3 := m[at+0*stride+13], m[at+1*stride+11], m[at+2*stride+9], m[at+3*stride+7]
	w4, w5, w6, w7 := m[at+4*stride+5], m[at+5*stride+3], m[at+6*stride+1], m[at+7*stride+-1]
	v0, v1, v2, v3 := m[at+0*stride+12], m[at+1*stride+10], m[at+2*stride+8], m[at+3*stride+6]
	v4, v5, v6 := m[at+4*stride+4], m[at+5*stride+2], m[at+6*stride+0]

	// Slice xi starts at the first cell that row i updates, so one index serves all rows. All
	// slices have the same length, so the loop's comparison proves every index in bounds. For row
	// i, x[k-2] is the cell, x[k-1] its eastern neighbour, and x[k] is south of the cell of row
	// i-1.
	n2 := n + 2
	north := m[at-stride+12:][:n2]
	x0 := m[at+0*stride+14:][:n2]
	x1 := m[at+1*stride+12:][:n2]
	x2 := m[at+2*stride+10:][:n2]
	x3 := m[at+3*stride+8:][:n2]
	x4 := m[at+4*stride+6:][:n2]
	x5 := m[at+5*stride+4:][:n2]
	x6 := m[at+6*stride+2:][:n2]
	x7 := m[at+7*stride+0:][:n2]
	south := m[at+8*stride-2:][:n2]
	for k := 2; k < n2; k++ {
		w7 = float64(0.25 * float64(float64(float64(v6+south[k])+x7[k-1])+w7))
		x7[k-2] = w7
		v6 = w6
		w6 = float64(0.25 * float64(float64(float64(v5+x7[k])+x6[k-1])+w6))
		x6[k-2] = w6
		v5 = w5
		w5 = float64(0.25 * float64(float64(float64(v4+x6[k])+x5[k-1])+w5))
		x5[k-2] = w5
		v4 = w4
		w4 = float64(0.25 * float64(float64(float64(v3+x5[k])+x4[k-1])+w4))
		x4[k-2] = w4
		v3 = w3
		w3 = float64(0.25 * float64(float64(float64(v2+x4[k])+x3[k-1])+w3))
		x3[k-2] = w3
		v2 = w2
		w2 = float64(0.25 * float64(float64(float64(v1+x3[k])+x2[k-1])+w2))
		x2[k-2] = w2
		v1 = w1
		w1 = float64(0.25 * float64(float64(float64(v0+x2[k])+x1[k-1])+w1))
		x1[k-2] = w1
		v0 = w0
		w0 = float64(0.25 * float64(float64(float64(north[k]+x1[k])+x0[k-1])+w0))
		x0[k-2] = w0
	}
}
