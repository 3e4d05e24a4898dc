// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Row sweeps row after row like Naive, but carries the western value in a variable, which is what
// an optimising compiler makes of Naive: one addition and one multiplication per cell on the chain,
// no memory.
func Row(m []float64, stride int, r Rect) {
	if r.Cols <= 0 {
		return
	}
	for i := range r.Rows {
		at := (r.Row+i)*stride + r.Col
		north := m[at-stride:][:r.Cols]
		south := m[at+stride:][:r.Cols]
		east := m[at+1:][:r.Cols]
		row := m[at:][:r.Cols]
		w := m[at-1]
		for c := range row {
			w = float64(0.25 * float64(float64(float64(north[c]+south[c])+east[c])+w))
			row[c] = w
		}
	}
}
