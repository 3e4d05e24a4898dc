// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

const (
	// inFlight is the number of rows that Rows8 updates at once. Measured: the speed grows from
	// four rows (which do not hide the latency of the additions) to seven. With eight it is at the
	// limit of two additions per cycle. More rows do not fit into the registers.
	inFlight = 8
	// lag is the number of columns by which a row stays behind the row above. One would be correct.
	// With two, the northern value was computed two steps ago and is off the critical path.
	lag = 2
	// edge is the width of the triangles at both ends of a strip.
	edge = lag * (inFlight - 1)
)

// The two ends of a strip of eight rows, where not all rows have a cell to update. The cells are
// written out step by step as in middle8: in such short loops, mispredicted loop ends would cost
// more than the work.

// leftEdge8 updates the first 14-2i cells of row i; at is the index of the strip's first cell.
func leftEdge8(m []float64, stride, at int) {
	// Index: column. Array pointers, because constant indices need no bounds checks.
	north := (*[edge + 1]float64)(m[at-stride:])
	r0 := (*[edge + 1]float64)(m[at+0*stride:])
	r1 := (*[edge + 1]float64)(m[at+1*stride:])
	r2 := (*[edge + 1]float64)(m[at+2*stride:])
	r3 := (*[edge + 1]float64)(m[at+3*stride:])
	r4 := (*[edge + 1]float64)(m[at+4*stride:])
	r5 := (*[edge + 1]float64)(m[at+5*stride:])
	r6 := (*[edge + 1]float64)(m[at+6*stride:])
	r7 := (*[edge + 1]float64)(m[at+7*stride:])
	w0, w1, w2, w3 := m[at+0*stride-1], m[at+1*stride-1], m[at+2*stride-1], m[at+3*stride-1]
	w4, w5, w6 := m[at+4*stride-1], m[at+5*stride-1], m[at+6*stride-1]

	w0 = update(&r0[0], north[0], r1[0], r0[1], w0)

	w0 = update(&r0[1], north[1], r1[1], r0[2], w0)

	w1 = update(&r1[0], r0[0], r2[0], r1[1], w1)
	w0 = update(&r0[2], north[2], r1[2], r0[3], w0)

	w1 = update(&r1[1], r0[1], r2[1], r1[2], w1)
	w0 = update(&r0[3], north[3], r1[3], r0[4], w0)

	w2 = update(&r2[0], r1[0], r3[0], r2[1], w2)
	w1 = update(&r1[2], r0[2], r2[2], r1[3], w1)
	w0 = update(&r0[4], north[4], r1[4], r0[5], w0)

	w2 = update(&r2[1], r1[1], r3[1], r2[2], w2)
	w1 = update(&r1[3], r0[3], r2[3], r1[4], w1)
	w0 = update(&r0[5], north[5], r1[5], r0[6], w0)

	w3 = update(&r3[0], r2[0], r4[0], r3[1], w3)
	w2 = update(&r2[2], r1[2], r3[2], r2[3], w2)
	w1 = update(&r1[4], r0[4], r2[4], r1[5], w1)
	w0 = update(&r0[6], north[6], r1[6], r0[7], w0)

	w3 = update(&r3[1], r2[1], r4[1], r3[2], w3)
	w2 = update(&r2[3], r1[3], r3[3], r2[4], w2)
	w1 = update(&r1[5], r0[5], r2[5], r1[6], w1)
	w0 = update(&r0[7], north[7], r1[7], r0[8], w0)

	w4 = update(&r4[0], r3[0], r5[0], r4[1], w4)
	w3 = update(&r3[2], r2[2], r4[2], r3[3], w3)
	w2 = update(&r2[4], r1[4], r3[4], r2[5], w2)
	w1 = update(&r1[6], r0[6], r2[6], r1[7], w1)
	w0 = update(&r0[8], north[8], r1[8], r0[9], w0)

	w4 = update(&r4[1], r3[1], r5[1], r4[2], w4)
	w3 = update(&r3[3], r2[3], r4[3], r3[4], w3)
	w2 = update(&r2[5], r1[5], r3[5], r2[6], w2)
	w1 = update(&r1[7], r0[7], r2[7], r1[8], w1)
	w0 = update(&r0[9], north[9], r1[9], r0[10], w0)

	w5 = update(&r5[0], r4[0], r6[0], r5[1], w5)
	w4 = update(&r4[2], r3[2], r5[2], r4[3], w4)
	w3 = update(&r3[4], r2[4], r4[4], r3[5], w3)
	w2 = update(&r2[6], r1[6], r3[6], r2[7], w2)
	w1 = update(&r1[8], r0[8], r2[8], r1[9], w1)
	w0 = update(&r0[10], north[10], r1[10], r0[11], w0)

	w5 = update(&r5[1], r4[1], r6[1], r5[2], w5)
	w4 = update(&r4[3], r3[3], r5[3], r4[4], w4)
	w3 = update(&r3[5], r2[5], r4[5], r3[6], w3)
	w2 = update(&r2[7], r1[7], r3[7], r2[8], w2)
	w1 = update(&r1[9], r0[9], r2[9], r1[10], w1)
	w0 = update(&r0[11], north[11], r1[11], r0[12], w0)

	w6 = update(&r6[0], r5[0], r7[0], r6[1], w6)
	w5 = update(&r5[2], r4[2], r6[2], r5[3], w5)
	w4 = update(&r4[4], r3[4], r5[4], r4[5], w4)
	w3 = update(&r3[6], r2[6], r4[6], r3[7], w3)
	w2 = update(&r2[8], r1[8], r3[8], r2[9], w2)
	w1 = update(&r1[10], r0[10], r2[10], r1[11], w1)
	w0 = update(&r0[12], north[12], r1[12], r0[13], w0)

	update(&r6[1], r5[1], r7[1], r6[2], w6)
	update(&r5[3], r4[3], r6[3], r5[4], w5)
	update(&r4[5], r3[5], r5[5], r4[6], w4)
	update(&r3[7], r2[7], r4[7], r3[8], w3)
	update(&r2[9], r1[9], r3[9], r2[10], w2)
	update(&r1[11], r0[11], r2[11], r1[12], w1)
	update(&r0[13], north[13], r1[13], r0[14], w0)
}

// rightEdge8 updates the last 2i cells of row i; at is the index of the cell 14 columns from the
// strip's end in its first row.
func rightEdge8(m []float64, stride, at int) {
	// Index: column, counted from at.
	r0 := (*[edge + 1]float64)(m[at+0*stride:])
	r1 := (*[edge + 1]float64)(m[at+1*stride:])
	r2 := (*[edge + 1]float64)(m[at+2*stride:])
	r3 := (*[edge + 1]float64)(m[at+3*stride:])
	r4 := (*[edge + 1]float64)(m[at+4*stride:])
	r5 := (*[edge + 1]float64)(m[at+5*stride:])
	r6 := (*[edge + 1]float64)(m[at+6*stride:])
	r7 := (*[edge + 1]float64)(m[at+7*stride:])
	r8 := (*[edge + 1]float64)(m[at+8*stride:])
	w1, w2, w3 := r1[11], r2[9], r3[7]
	w4, w5, w6 := r4[5], r5[3], r6[1]
	w7 := m[at+7*stride-1]

	w7 = update(&r7[0], r6[0], r8[0], r7[1], w7)
	w6 = update(&r6[2], r5[2], r7[2], r6[3], w6)
	w5 = update(&r5[4], r4[4], r6[4], r5[5], w5)
	w4 = update(&r4[6], r3[6], r5[6], r4[7], w4)
	w3 = update(&r3[8], r2[8], r4[8], r3[9], w3)
	w2 = update(&r2[10], r1[10], r3[10], r2[11], w2)
	w1 = update(&r1[12], r0[12], r2[12], r1[13], w1)

	w7 = update(&r7[1], r6[1], r8[1], r7[2], w7)
	w6 = update(&r6[3], r5[3], r7[3], r6[4], w6)
	w5 = update(&r5[5], r4[5], r6[5], r5[6], w5)
	w4 = update(&r4[7], r3[7], r5[7], r4[8], w4)
	w3 = update(&r3[9], r2[9], r4[9], r3[10], w3)
	w2 = update(&r2[11], r1[11], r3[11], r2[12], w2)
	update(&r1[13], r0[13], r2[13], r1[14], w1)

	w7 = update(&r7[2], r6[2], r8[2], r7[3], w7)
	w6 = update(&r6[4], r5[4], r7[4], r6[5], w6)
	w5 = update(&r5[6], r4[6], r6[6], r5[7], w5)
	w4 = update(&r4[8], r3[8], r5[8], r4[9], w4)
	w3 = update(&r3[10], r2[10], r4[10], r3[11], w3)
	w2 = update(&r2[12], r1[12], r3[12], r2[13], w2)

	w7 = update(&r7[3], r6[3], r8[3], r7[4], w7)
	w6 = update(&r6[5], r5[5], r7[5], r6[6], w6)
	w5 = update(&r5[7], r4[7], r6[7], r5[8], w5)
	w4 = update(&r4[9], r3[9], r5[9], r4[10], w4)
	w3 = update(&r3[11], r2[11], r4[11], r3[12], w3)
	update(&r2[13], r1[13], r3[13], r2[14], w2)

	w7 = update(&r7[4], r6[4], r8[4], r7[5], w7)
	w6 = update(&r6[6], r5[6], r7[6], r6[7], w6)
	w5 = update(&r5[8], r4[8], r6[8], r5[9], w5)
	w4 = update(&r4[10], r3[10], r5[10], r4[11], w4)
	w3 = update(&r3[12], r2[12], r4[12], r3[13], w3)

	w7 = update(&r7[5], r6[5], r8[5], r7[6], w7)
	w6 = update(&r6[7], r5[7], r7[7], r6[8], w6)
	w5 = update(&r5[9], r4[9], r6[9], r5[10], w5)
	w4 = update(&r4[11], r3[11], r5[11], r4[12], w4)
	update(&r3[13], r2[13], r4[13], r3[14], w3)

	w7 = update(&r7[6], r6[6], r8[6], r7[7], w7)
	w6 = update(&r6[8], r5[8], r7[8], r6[9], w6)
	w5 = update(&r5[10], r4[10], r6[10], r5[11], w5)
	w4 = update(&r4[12], r3[12], r5[12], r4[13], w4)

	w7 = update(&r7[7], r6[7], r8[7], r7[8], w7)
	w6 = update(&r6[9], r5[9], r7[9], r6[10], w6)
	w5 = update(&r5[11], r4[11], r6[11], r5[12], w5)
	update(&r4[13], r3[13], r5[13], r4[14], w4)

	w7 = update(&r7[8], r6[8], r8[8], r7[9], w7)
	w6 = update(&r6[10], r5[10], r7[10], r6[11], w6)
	w5 = update(&r5[12], r4[12], r6[12], r5[13], w5)

	w7 = update(&r7[9], r6[9], r8[9], r7[10], w7)
	w6 = update(&r6[11], r5[11], r7[11], r6[12], w6)
	update(&r5[13], r4[13], r6[13], r5[14], w5)

	w7 = update(&r7[10], r6[10], r8[10], r7[11], w7)
	w6 = update(&r6[12], r5[12], r7[12], r6[13], w6)

	w7 = update(&r7[11], r6[11], r8[11], r7[12], w7)
	update(&r6[13], r5[13], r7[13], r6[14], w6)

	w7 = update(&r7[12], r6[12], r8[12], r7[13], w7)

	update(&r7[13], r6[13], r8[13], r7[14], w7)
}

// update writes the new value of a cell and returns it: it is the next cell's western neighbour.
// The conversions forbid fused multiply-add where an architecture has it.
func update(cell *float64, n, s, e, w float64) float64 {
	w = float64(0.25 * float64(float64(float64(n+s)+e)+w))
	*cell = w
	return w
}
