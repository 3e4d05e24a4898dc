// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// Row sweeps row by row like Naive, but keeps the western value in a variable, as an optimizing
// compiler would: one addition and one multiplication per cell are on the chain, and no memory
// access.
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
