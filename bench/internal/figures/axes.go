// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"fmt"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// A logarithmic axis is a linear axis of logarithms: the points of curves are logarithms, and so
// are the values of ticks. gonum's own logarithmic scale leaves too much room for the label of an
// axis.

// logarithmic gives an axis of logarithms its ticks, and room on both sides.
func logarithmic(a *plot.Axis, t plot.Ticker) {
	a.Tick.Marker = logTicks{t}
	a.Min, a.Max = a.Min-0.08, a.Max+0.08
}

// logTicks are the ticks of values on an axis of their logarithms.
type logTicks struct{ of plot.Ticker }

// Ticks implements plot.Ticker.
func (t logTicks) Ticks(low, high float64) []plot.Tick {
	ticks := t.of.Ticks(math.Pow(10, low), math.Pow(10, high))
	for i := range ticks {
		ticks[i].Value = math.Log10(ticks[i].Value)
	}
	return ticks
}

// decades labels the powers of ten, and the steps 2 and 5 if the axis has few powers of ten.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) (ticks []plot.Tick) {
	few := high/low < 300
	for e := int(math.Floor(math.Log10(low))); math.Pow10(e) <= high; e++ {
		for k := 1.; k < 10; k++ {
			v := k * math.Pow10(e)
			if v < low || v > high {
				continue
			}
			label := ""
			if k == 1 || few && (k == 2 || k == 5) {
				label = strconv.FormatFloat(v, 'f', max(0, -e), 64)
			}
			ticks = append(ticks, plot.Tick{Value: v, Label: label})
		}
	}
	return ticks
}

// wholes labels whole numbers from 0 on, at steps of 1, 2 or 5 times a power of ten.
type wholes struct{}

// Ticks implements plot.Ticker.
func (wholes) Ticks(_, high float64) (ticks []plot.Tick) {
	step := math.Pow10(int(math.Floor(math.Log10(max(high, 4) / 4))))
	for _, times := range []float64{5, 2} {
		if 4*times*step <= high {
			step *= times
			break
		}
	}
	for v := 0.; v <= high; v += step {
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', 0, 64)})
	}
	return ticks
}

// byteSizes labels 8 bytes, and each size that is times the size before.
type byteSizes struct{ times float64 }

// Ticks implements plot.Ticker.
func (b byteSizes) Ticks(low, high float64) (ticks []plot.Tick) {
	for v := 8.; v <= high; v *= b.times {
		if v >= low {
			ticks = append(ticks, plot.Tick{Value: v, Label: bytesText(int64(v))})
		}
	}
	return ticks
}

// bytesText prints a number of bytes with a unit, without a fraction.
func bytesText(n int64) string {
	for _, u := range []struct {
		unit string
		n    int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.n && n%u.n == 0 {
			return fmt.Sprintf("%d %s", n/u.n, u.unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// grid draws a thin line at each tick with a label.
type grid struct{ across, up bool } // for the ticks of Y, for those of X

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	style := draw.LineStyle{Color: pale, Width: gridWidth}
	if g.up {
		for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
			if v := x(t.Value); !t.IsMinor() && c.ContainsX(v) {
				c.StrokeLine2(style, v, c.Min.Y, v, c.Max.Y)
			}
		}
	}
	if g.across {
		for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
			if v := y(t.Value); !t.IsMinor() && c.ContainsY(v) {
				c.StrokeLine2(style, c.Min.X, v, c.Max.X, v)
			}
		}
	}
}
