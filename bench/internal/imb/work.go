// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package imb

// order of the matrix: 8 KiB, so that the work stays in the nearest cache.
const order = 32

// work is computation that calls no library.
type work struct {
	matrix [order][order]float64
	field  [order]float64
	unit   float64 // seconds that a unit takes
}

func newWork() *work {
	w := new(work)
	for i := range order {
		w.field[i] = float64(i)
		for j := range order {
			w.matrix[i][j] = 1 / float64(1+i*order+j)
		}
	}
	for n := int64(100); ; n *= 2 {
		began := now()
		w.do(n)
		took := now() - began
		w.unit = took / float64(n)
		if took > 5e-3 {
			return w
		}
	}
}

// units returns the number of units that take a time.
func (w *work) units(seconds float64) int64 { return int64(seconds/w.unit) + 1 }

func (w *work) do(units int64) {
	for range units {
		for i := range order {
			row := &w.matrix[i]
			s := 0.
			for j, f := range w.field {
				s += row[j] * f
			}
			w.field[i] = s * 1e-3
		}
	}
}
