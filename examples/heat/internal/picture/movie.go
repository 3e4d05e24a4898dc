// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package picture

import (
	"bufio"
	"image"
	"image/color"
	"image/gif"
	"io"
)

const (
	// maxSide is the largest width and height of the pictures in a movie.
	maxSide = 512
	// movieColours is what a GIF palette holds.
	movieColours = 256
	// Display times in hundredths of a second.
	frameDelay = 15
	firstDelay = 60
	lastDelay  = 250
)

// Movie collects the frames of an animation. If the matrix is larger than the picture, cells are
// averaged over the area of a pixel. In a small matrix, a cell is a square of pixels.
type Movie struct {
	rows, cols    int // of the matrix
	height, width int // size of the array of sums: at most one sum per cell
	zoom          int // pixels per sum, in both directions
	frames        [][]float64
	weight        []float64 // cells per sum, the same for all frames
	scale         scale     // range of all cells of all frames, not of averages
}

// NewMovie returns an empty movie of a matrix.
func NewMovie(rows, cols, frames int) *Movie {
	m := &Movie{rows: rows, cols: cols, height: rows, width: cols, scale: emptyRange(movieColours)}
	if side := max(rows, cols); side > maxSide {
		// Keep the aspect ratio, but no side below one pixel.
		m.height = max(1, rows*maxSide/side)
		m.width = max(1, cols*maxSide/side)
	}
	m.zoom = maxSide / max(m.height, m.width)
	m.frames = make([][]float64, frames)
	for i := range m.frames {
		m.frames[i] = make([]float64, m.height*m.width)
	}
	m.weight = make([]float64, m.height*m.width)
	for r := range rows {
		y := r * m.height / rows
		for c := range cols {
			m.weight[y*m.width+c*m.width/cols]++
		}
	}
	return m
}

// Add adds cells to a frame: a part of a row that starts at column col.
func (m *Movie) Add(frame, row, col int, cells []float64) {
	sums := m.frames[frame][row*m.height/m.rows*m.width:][:m.width]
	for i, x := range cells {
		m.scale.widen(x)
		sums[(col+i)*m.width/m.cols] += x
	}
}

// Encode writes the movie as an animated GIF that repeats forever. All frames have the same colour
// scale, from the coldest to the warmest cell of the whole movie.
func (m *Movie) Encode(w io.Writer) error {
	palette := make(color.Palette, movieColours)
	for i, c := range ramp(movieColours) {
		palette[i] = c
	}
	out := gif.GIF{LoopCount: 0, Config: image.Config{
		ColorModel: palette, Width: m.width * m.zoom, Height: m.height * m.zoom,
	}}
	for i, sums := range m.frames {
		out.Image = append(out.Image, m.draw(sums, palette))
		delay := frameDelay
		switch i {
		case len(m.frames) - 1:
			delay = lastDelay
		case 0:
			delay = firstDelay
		}
		out.Delay = append(out.Delay, delay)
	}
	buf := bufio.NewWriter(w)
	if err := gif.EncodeAll(buf, &out); err != nil {
		return err
	}
	return buf.Flush()
}

// draw returns the picture of a frame.
func (m *Movie) draw(sums []float64, palette color.Palette) *image.Paletted {
	img := image.NewPaletted(image.Rect(0, 0, m.width*m.zoom, m.height*m.zoom), palette)
	for y := range img.Rect.Dy() {
		line := img.Pix[y*img.Stride:][:img.Rect.Dx()]
		at := y / m.zoom * m.width
		for x := range line {
			i := at + x/m.zoom
			line[x] = uint8(m.scale.index(sums[i] / m.weight[i]))
		}
	}
	return img
}
