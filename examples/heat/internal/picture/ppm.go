// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
)

// ppmColours is the length of the ramp of images.
const ppmColours = 1024

// EncodePPM writes a matrix as an image in the text form of PPM (P3), with a pixel per cell,
// coloured from the coldest to the warmest cell. row returns the cells of a row; EncodePPM calls it
// twice for each row, in order.
func EncodePPM(w io.Writer, rows, cols int, row func(r int) []float64) error {
	s := emptyRange(ppmColours)
	for r := range rows {
		for _, x := range row(r) {
			s.widen(x)
		}
	}
	var text [ppmColours]string
	for i, c := range ramp(ppmColours) {
		text[i] = fmt.Sprintf("%d %d %d\n", c.R, c.G, c.B)
	}
	buf := bufio.NewWriter(w)
	// A bufio.Writer keeps the first error, and Flush returns it.
	_, _ = buf.WriteString("P3\n" + strconv.Itoa(cols) + " " + strconv.Itoa(rows) + "\n255\n")
	for r := range rows {
		for _, x := range row(r) {
			_, _ = buf.WriteString(text[s.index(x)])
		}
	}
	return buf.Flush()
}
