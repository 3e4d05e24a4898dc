// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Sizes of text, lines and marks.
const (
	titleSize  = 11 * vg.Inch / 72
	labelSize  = 9 * vg.Inch / 72
	tickSize   = 8 * vg.Inch / 72
	noteSize   = 7 * vg.Inch / 72
	lineWidth  = 1.4 * vg.Inch / 72
	thinWidth  = 0.7 * vg.Inch / 72
	gridWidth  = 0.4 * vg.Inch / 72
	markRadius = 2.2 * vg.Inch / 72
)

// Colours that are distinct for readers with a colour vision deficiency (Okabe and Ito).
var (
	blue   = color.RGBA{0, 114, 178, 255}
	orange = color.RGBA{230, 159, 0, 255}
	green  = color.RGBA{0, 158, 115, 255}
	red    = color.RGBA{213, 94, 0, 255}
	pink   = color.RGBA{204, 121, 167, 255}
	sky    = color.RGBA{86, 180, 233, 255}
	grey   = color.RGBA{140, 140, 140, 255}
	pale   = color.RGBA{220, 220, 220, 255}
	ink    = color.RGBA{40, 40, 40, 255}
)

// appearance is the style of a peer, the same in every plot.
type appearance struct {
	label string
	color color.Color
	dash  []vg.Length
	mark  draw.GlyphDrawer
}

// fabrics are the fabrics of the message benchmarks.
var fabrics = map[string]struct {
	label string
	dash  []vg.Length
	mark  draw.GlyphDrawer
}{
	"inproc": {"one process", []vg.Length{1, 2}, draw.TriangleGlyph{}},
	"shm":    {"shared memory", nil, draw.CircleGlyph{}},
	"tcp":    {"TCP", []vg.Length{5, 3}, draw.SquareGlyph{}},
}

// appearances are those of the known peers.
var appearances = map[string]appearance{
	"weft":       {label: "weft", color: blue},
	"goroutines": {label: "goroutines", color: orange},
	"channels":   {label: "channels", color: orange, dash: []vg.Length{5, 3}, mark: draw.SquareGlyph{}},
	"ants":       {label: "ants", color: sky},
	"errgroup":   {label: "errgroup", color: grey},
	"libgomp":    {label: "libgomp (gcc)", color: green},
	"libomp":     {label: "libomp (clang)", color: pink},
	"tbb":        {label: "oneTBB", color: red},
	"sequential": {label: "sequential", color: grey},
	"openmpi":    {label: "Open MPI", color: red},
	"mpich":      {label: "MPICH", color: green},
}

// appearanceOf returns the appearance of a peer: NAME, or NAME-FABRIC of a message benchmark. An
// unknown peer is grey.
func appearanceOf(peer string) appearance {
	library, fabric, _ := strings.Cut(peer, "-")
	l, known := appearances[library]
	f, connected := fabrics[fabric]
	switch {
	case !known || fabric != "" && !connected:
		return appearance{label: peer, color: grey, mark: draw.CrossGlyph{}}
	case connected:
		l.label += ", " + f.label
		l.dash, l.mark = f.dash, f.mark
	case l.mark == nil:
		l.mark = draw.CircleGlyph{}
	}
	return l
}

// textStyle returns a style of a size, without serifs.
func textStyle(size vg.Length, c color.Color) text.Style {
	s := text.Style{Color: c, Handler: plot.DefaultTextHandler}
	s.Font.Typeface, s.Font.Variant, s.Font.Size = "Liberation", "Sans", size
	return s
}

// newPanel returns an empty plot with fonts and colours, a title and the labels of the axes.
func newPanel(title, x, y string) *plot.Plot {
	p := plot.New()
	style := func(to *text.Style, size vg.Length) {
		s := textStyle(size, ink)
		s.XAlign, s.YAlign, s.Rotation = to.XAlign, to.YAlign, to.Rotation
		*to = s
	}
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	style(&p.Title.TextStyle, titleSize)
	p.Title.Padding = 4
	p.BackgroundColor = nil // the sheet has one
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		style(&a.Label.TextStyle, labelSize)
		style(&a.Tick.Label, tickSize)
		a.Label.Padding = 3
		a.LineStyle.Color, a.Tick.LineStyle.Color = grey, grey
		a.Padding = 0
	}
	return p
}
