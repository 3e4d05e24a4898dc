// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Size of a picture, and the space around its panels.
const (
	width   = 18.5 * vg.Centimeter
	height  = 9.5 * vg.Centimeter
	margin  = 0.25 * vg.Centimeter
	between = 0.5 * vg.Centimeter
)

// A sheet is the content of a file: panels side by side, the legend to their right, notes below.
type sheet struct {
	panels  []*plot.Plot
	legend  plot.Legend
	notes   string // how to read the panels
	caption string // the machine and the commit
}

func newSheet(notes string, panels ...*plot.Plot) *sheet {
	s := &sheet{panels: panels, legend: plot.NewLegend(), notes: notes}
	s.legend.TextStyle = textStyle(tickSize, ink)
	s.legend.Top, s.legend.Left = true, true
	s.legend.Padding = 4
	s.legend.YPosition = draw.PosCenter
	return s
}

// svg returns the sheet as SVG.
func (s *sheet) svg() []byte {
	out := vgsvg.NewWith(vgsvg.UseWH(width, height))
	s.draw(draw.New(out))
	var b bytes.Buffer
	if _, err := out.WriteTo(&b); err != nil {
		panic(err) // a buffer never fails
	}
	// The letters of Arial have the same widths.
	return bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
}

func (s *sheet) draw(c draw.Canvas) {
	c.FillPolygon(color.White, rectangle(c.Min.X, c.Min.Y, c.Max.X, c.Max.Y))
	c = draw.Crop(c, margin, -margin, margin, -margin)

	note := textStyle(noteSize, grey)
	for _, line := range []string{s.caption, s.notes} { // from below
		if line != "" {
			c.FillText(note, c.Min, line)
			c.Min.Y += note.Height(line) + 3
		}
	}
	c.Min.Y += 4

	box := s.legend.Rectangle(c)
	// a reader without these fonts gets another one, which may be a sixth wider
	wide := (box.Max.X - box.Min.X) * 7 / 6
	s.legend.Draw(draw.Crop(c, c.Max.X-wide-c.Min.X, 0, 0, -titleSize-8))
	c.Max.X -= wide + between

	tiles := draw.Tiles{Rows: 1, Cols: len(s.panels), PadX: between}
	for i, on := range plot.Align([][]*plot.Plot{s.panels}, tiles, c)[0] {
		s.panels[i].Draw(on)
	}
}
