// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/internal/event"
)

// View selects the part of a timeline that a picture shows.
type View struct {
	From, To time.Duration // since the beginning or, if negative, before the end; To 0 is the end
	Width    int           // in pixels; 0 means 1200
}

// ErrView is the error for a view that cannot be drawn.
var ErrView = errors.New("timeline: nothing to show")

const (
	pictureLabel  = 190     // pixels for the names of threads
	mostWidth     = 1 << 15 // the largest width that viewers draw
	pictureRow    = 20
	pictureHead   = 24
	pictureLetter = 6.2 // about the width of a letter
	leastBox      = 0.5 // least width in pixels: shorter slices are drawn with it
)

type thread struct{ pid, tid int }

// box is a slice or a mark.
type box struct {
	name      string
	time, dur float64
	on        thread
	mark      bool
}

// line is an arrow.
type line struct {
	from, to thread
	begin    float64
	end      float64
	message  bool
}

// Picture draws a part of the timeline of the recordings of one run as SVG: threads as rows, slices
// as boxes, marks, and the arrows with both ends in the part. Asynchronous slices are left out. If
// a recording is cut, Picture draws its records, and returns an error that says so.
//
// The recordings are read twice, first for their length. Only elements that are drawn are kept in
// memory: if several slices, marks or arrows fall on the same pixels, only the first is.
func Picture(w io.Writer, v View, names ...string) error {
	var cut error
	err := draw(w, v, func(take func(*entry)) (err error) {
		_, cut, err = walk(&emitter{take: take}, names)
		return err
	})
	return cmp.Or(err, cut)
}

// draw is Picture for the elements that a function emits. It calls the function twice.
func draw(w io.Writer, v View, elements func(func(*entry)) error) error {
	end := 0.0
	if err := elements(func(e *entry) { end = max(end, e.begin()+e.length()) }); err != nil {
		return err
	}
	from, to := micro(v.From), micro(v.To)
	if from < 0 {
		from += end
	}
	if to <= 0 {
		to += end
	}
	v.Width = cmp.Or(v.Width, 1200)
	if from < 0 || to <= from || from >= end || v.Width < 2*pictureLabel || v.Width > mostWidth {
		return fmt.Errorf("%w: from %v to %v, %d pixels wide; legal are times from 0 to %v, the second larger than the first, and widths from %d to %d", ErrView, length(from), length(to), v.Width, length(end), 2*pictureLabel, mostWidth)
	}
	p := &picture{w: bufio.NewWriter(w), from: from, to: to, scale: float64(v.Width-pictureLabel) / (to - from),
		processes: map[int]string{}, threads: map[thread]string{}, rows: map[thread]int{}, order: map[int]int{},
		open: map[string]*entry{}, seen: map[spot]bool{}}
	if err := elements(p.take); err != nil {
		return err
	}
	p.arrange()
	if len(p.rows) == 0 {
		return fmt.Errorf("%w: there is no slice from %v to %v", ErrView, length(from), length(to))
	}
	p.draw(v.Width)
	return p.w.Flush()
}

// begin is the start time of an element, and length its duration, in microseconds.
func (e *entry) begin() float64 { return float64(e.Time) / 1e3 }

func (e *entry) length() float64 {
	if e.Dur == nil {
		return 0
	}
	return float64(*e.Dur) / 1e3
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

type picture struct {
	w         *bufio.Writer
	from, to  float64
	scale     float64
	processes map[int]string
	threads   map[thread]string
	rows      map[thread]int
	order     map[int]int // sort index by process

	boxes []box
	lines []line
	open  map[string]*entry // begins of arrows without an end yet, by ID
	seen  map[spot]bool     // spots with an element that is smaller than a pixel
}

// spot is a position in the picture, at the resolution of pixels.
type spot struct {
	on, to     thread
	x1, x2     int
	mark, line bool
}

// length converts a time of the timeline.
func length(micros float64) time.Duration { return time.Duration(micros * 1e3) }

func (p *picture) x(t float64) float64 {
	return pictureLabel + (min(max(t, p.from), p.to)-p.from)*p.scale
}
func (p *picture) y(t thread) float64 { return pictureHead + float64(p.rows[t])*pictureRow }

// take stores an element if it is in the picture.
func (p *picture) take(e *entry) {
	on := thread{e.Pid, e.Tid}
	switch e.Phase {
	case "M":
		switch e.Name {
		case "process_name":
			p.processes[e.Pid], _ = e.Args["name"].(string)
		case "process_sort_index":
			p.order[e.Pid], _ = e.Args["sort_index"].(int)
		case "thread_name":
			p.threads[on], _ = e.Args["name"].(string)
		}
	case "X", "i":
		b := box{e.Name, e.begin(), e.length(), on, e.Phase == "i"}
		if !p.shown(b.time, b.dur) {
			return
		}
		if !b.mark {
			p.rows[on] = 0
		}
		if !b.mark && b.dur*p.scale >= leastBox || p.first(spot{on: on, x1: int(p.x(b.time) / leastBox), mark: b.mark}) {
			p.boxes = append(p.boxes, b)
		}
	case "s":
		p.open[e.ID] = e
	case "f":
		s := p.open[e.ID]
		delete(p.open, e.ID)
		if s == nil || !p.shown(s.begin(), 0) || !p.shown(e.begin(), 0) {
			return
		}
		l := line{thread{s.Pid, s.Tid}, on, s.begin(), e.begin(), s.Cat == "message"}
		if l.from != l.to && p.first(spot{on: l.from, to: l.to, x1: int(p.x(l.begin)), x2: int(p.x(l.end)), line: true}) {
			p.lines = append(p.lines, l)
		}
	}
}

// first reports whether nothing is at a spot yet, and marks the spot.
func (p *picture) first(s spot) bool {
	if p.seen[s] {
		return false
	}
	p.seen[s] = true
	return true
}

// shown reports whether a part of a time range is in the picture.
func (p *picture) shown(begin, length float64) bool { return begin+length >= p.from && begin <= p.to }

// arrange assigns rows to the threads that have slices.
func (p *picture) arrange() {
	order := slices.SortedFunc(maps.Keys(p.rows), func(a, b thread) int {
		return cmp.Or(p.order[a.pid]-p.order[b.pid], a.pid-b.pid, a.tid-b.tid)
	})
	for i, t := range order {
		p.rows[t] = i
	}
}

func (p *picture) draw(width int) {
	height := pictureHead + len(p.rows)*pictureRow + 6
	fmt.Fprintf(p.w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	fmt.Fprintf(p.w, `<defs><marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z" fill="#444"/></marker></defs>`+
		`<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	p.ruler(height)
	for _, t := range slices.SortedFunc(maps.Keys(p.rows), func(a, b thread) int { return p.rows[a] - p.rows[b] }) {
		row := p.rows[t]
		name := strings.TrimSpace(p.processes[t.pid] + ", " + p.threads[t])
		fmt.Fprintf(p.w, `<text x="4" y="%d">%s</text><line x1="0" x2="%d" y1="%d" y2="%d" stroke="#ddd"/>`+"\n",
			pictureHead+row*pictureRow+14, event.XML(cut(name, pictureLabel-8)), width, pictureHead+(row+1)*pictureRow, pictureHead+(row+1)*pictureRow)
	}
	// A slice on top of another one is drawn later: it begins later, or at the same time and is
	// shorter.
	slices.SortStableFunc(p.boxes, func(a, b box) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(b.dur, a.dur))
	})
	for i := range p.boxes {
		b := &p.boxes[i]
		if _, ok := p.rows[b.on]; !ok {
			continue
		}
		if b.mark {
			fmt.Fprintf(p.w, `<path d="M%.1f %.1fl-3 5h6z" fill="#b00"><title>%s</title></path>`+"\n", p.x(b.time), p.y(b.on)+1, event.XML(b.name))
		} else {
			p.box(b)
		}
	}
	p.arrows()
	fmt.Fprintln(p.w, "</svg>")
}

// ruler draws about ten time marks.
func (p *picture) ruler(height int) {
	step := 1.0
	for i := 0; (p.to-p.from)/step > 10; i++ {
		step *= []float64{2, 2.5, 2}[i%3]
	}
	for t := float64(int(p.from/step)) * step; t <= p.to; t += step {
		if t >= p.from {
			fmt.Fprintf(p.w, `<line x1="%.1f" x2="%.1f" y1="16" y2="%d" stroke="#eee"/><text x="%.1f" y="12" fill="#666">%g ms</text>`+"\n", p.x(t), p.x(t), height, p.x(t)+2, t/1000)
		}
	}
}

func (p *picture) box(b *box) {
	x := p.x(b.time)
	wide := max(p.x(b.time+b.dur)-x, leastBox)
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.name)) // never fails
	fill := fmt.Sprintf("hsl(%d 60%% 75%%)", h.Sum32()%360)
	if b.name == "parked" {
		fill = "#f4f4f4"
	}
	y := p.y(b.on)
	fmt.Fprintf(p.w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s" stroke="#999" stroke-width="0.3"><title>%s, %.1f µs</title></rect>`,
		x, y+1, wide, pictureRow-2, fill, event.XML(b.name), b.dur)
	if text := cut(b.name, wide-4); text != "" {
		fmt.Fprintf(p.w, `<text x="%.1f" y="%.1f">%s</text>`, x+2, y+14, event.XML(text))
	}
	fmt.Fprintln(p.w)
}

// cut returns as much of a text as fits; nothing if fewer than three letters fit.
func cut(text string, pixels float64) string {
	n := int(pixels / pictureLetter)
	r := []rune(text)
	switch {
	case n >= len(r):
		return text
	case n < 3:
		return ""
	}
	return string(r[:n-1]) + "…"
}

// arrows draws the arrows.
func (p *picture) arrows() {
	for _, l := range p.lines {
		_, a := p.rows[l.from]
		_, b := p.rows[l.to]
		if !a || !b {
			continue
		}
		color := "#444"
		if l.message {
			color = "#06c"
		}
		fmt.Fprintf(p.w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="0.7" marker-end="url(#a)"/>`+"\n",
			p.x(l.begin), p.y(l.from)+pictureRow/2, p.x(l.end), p.y(l.to)+pictureRow/2, color)
	}
}
