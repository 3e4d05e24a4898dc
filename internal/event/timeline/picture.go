// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"time"

	"weft/internal/event"
)

// View says what a picture shows of a timeline.
type View struct {
	From, To time.Duration // since its beginning or, if negative, before its end; To zero: its end
	Width    int           // in pixels; zero: 1200
}

// ErrView is the error of a view of which there is no picture.
var ErrView = errors.New("timeline: nothing to be shown")

const (
	pictureLabel  = 190     // pixels for the names of threads
	mostWidth     = 1 << 15 // what viewers draw
	pictureRow    = 20
	pictureHead   = 24
	pictureLetter = 6.2 // how wide one is, about
)

// drawn is an element as it is read again.
type drawn struct {
	Name  string
	Cat   string
	Phase string  `json:"ph"`
	Time  float64 `json:"ts"`
	Dur   float64
	Pid   int
	Tid   int
	ID    string
	Args  map[string]any
}

type thread struct{ pid, tid int }

// Picture draws a part of a timeline as SVG: threads as rows, slices as boxes, marks, and the arrows of which both ends are in it. What is
// asynchronous is left out; viewers have that.
func Picture(w io.Writer, timeline io.Reader, v View) error {
	var all struct{ TraceEvents []drawn }
	if err := json.NewDecoder(timeline).Decode(&all); err != nil {
		return fmt.Errorf("timeline: %w", err)
	}
	end := 0.0
	for _, e := range all.TraceEvents {
		end = max(end, e.Time+e.Dur)
	}
	from, to := micro(v.From), micro(v.To)
	if from < 0 {
		from += end
	}
	if to <= 0 {
		to += end
	}
	if v.Width == 0 {
		v.Width = 1200
	}
	if from < 0 || to <= from || from >= end || v.Width < 2*pictureLabel || v.Width > mostWidth {
		return fmt.Errorf("%w: from %v to %v, %d pixels wide; times are from 0 to %v, the second is larger, and widths from %d to %d", ErrView, length(from), length(to), v.Width, length(end), 2*pictureLabel, mostWidth)
	}
	p := &picture{w: bufio.NewWriter(w), from: from, to: to, scale: float64(v.Width-pictureLabel) / (to - from), processes: map[int]string{}, threads: map[thread]string{}, rows: map[thread]int{}, order: map[int]float64{}}
	p.arrange(all.TraceEvents)
	if len(p.rows) == 0 {
		return fmt.Errorf("%w: there is no slice from %v to %v", ErrView, length(from), length(to))
	}
	p.draw(all.TraceEvents, v.Width)
	return p.w.Flush()
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

type picture struct {
	w         *bufio.Writer
	from, to  float64
	scale     float64
	processes map[int]string
	threads   map[thread]string
	rows      map[thread]int
	order     map[int]float64 // of processes
}

// length is a time of the timeline.
func length(micros float64) time.Duration { return time.Duration(micros * 1e3) }

func (p *picture) x(t float64) float64 {
	return pictureLabel + (min(max(t, p.from), p.to)-p.from)*p.scale
}
func (p *picture) y(t thread) float64 { return pictureHead + float64(p.rows[t])*pictureRow }

// shown reports whether some of an element is in the picture.
func (p *picture) shown(e *drawn) bool { return e.Time+e.Dur >= p.from && e.Time <= p.to }

// arrange gives the threads that have slices their rows.
func (p *picture) arrange(all []drawn) {
	var order []thread
	for i := range all {
		e := &all[i]
		t := thread{e.Pid, e.Tid}
		switch {
		case e.Phase == "M" && e.Name == "process_name":
			p.processes[e.Pid], _ = e.Args["name"].(string)
		case e.Phase == "M" && e.Name == "process_sort_index":
			p.order[e.Pid], _ = e.Args["sort_index"].(float64)
		case e.Phase == "M" && e.Name == "thread_name":
			p.threads[t], _ = e.Args["name"].(string)
		case e.Phase == "X" && p.shown(e) && !slices.Contains(order, t):
			order = append(order, t)
		}
	}
	slices.SortFunc(order, func(a, b thread) int {
		return cmp.Or(cmp.Compare(p.order[a.pid], p.order[b.pid]), a.pid-b.pid, a.tid-b.tid)
	})
	for i, t := range order {
		p.rows[t] = i
	}
}

func (p *picture) draw(all []drawn, width int) {
	height := pictureHead + len(p.rows)*pictureRow + 6
	fmt.Fprintf(p.w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	fmt.Fprintf(p.w, `<defs><marker id="a" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="5" markerHeight="5" orient="auto"><path d="M0 0L6 3L0 6z" fill="#444"/></marker></defs>`+
		`<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	p.ruler(height)
	for t, row := range p.rows {
		name := strings.TrimSpace(p.processes[t.pid] + ", " + p.threads[t])
		fmt.Fprintf(p.w, `<text x="4" y="%d">%s</text><line x1="0" x2="%d" y1="%d" y2="%d" stroke="#ddd"/>`+"\n",
			pictureHead+row*pictureRow+14, event.XML(cut(name, pictureLabel-8)), width, pictureHead+(row+1)*pictureRow, pictureHead+(row+1)*pictureRow)
	}
	// Slices that lie on others come later: they begin later, or as late and are shorter.
	boxes := slices.Clone(all)
	slices.SortStableFunc(boxes, func(a, b drawn) int {
		switch {
		case a.Time < b.Time, a.Time == b.Time && a.Dur > b.Dur:
			return -1
		case a.Time == b.Time && a.Dur == b.Dur:
			return 0
		}
		return 1
	})
	for i := range boxes {
		e := &boxes[i]
		if _, ok := p.rows[thread{e.Pid, e.Tid}]; !ok || !p.shown(e) {
			continue
		}
		switch e.Phase {
		case "X":
			p.box(e)
		case "i":
			fmt.Fprintf(p.w, `<path d="M%.1f %.1fl-3 5h6z" fill="#b00"><title>%s</title></path>`+"\n", p.x(e.Time), p.y(thread{e.Pid, e.Tid})+1, event.XML(e.Name))
		}
	}
	p.arrows(all)
	fmt.Fprintln(p.w, "</svg>")
}

// ruler draws about ten times.
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

func (p *picture) box(e *drawn) {
	x := p.x(e.Time)
	wide := max(p.x(e.Time+e.Dur)-x, 0.5)
	h := fnv.New32a()
	_, _ = h.Write([]byte(e.Name)) // never fails
	fill := fmt.Sprintf("hsl(%d 60%% 75%%)", h.Sum32()%360)
	if e.Name == "parked" {
		fill = "#f4f4f4"
	}
	y := p.y(thread{e.Pid, e.Tid})
	fmt.Fprintf(p.w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="%s" stroke="#999" stroke-width="0.3"><title>%s, %.1f µs</title></rect>`,
		x, y+1, wide, pictureRow-2, fill, event.XML(e.Name), e.Dur)
	if text := cut(e.Name, wide-4); text != "" {
		fmt.Fprintf(p.w, `<text x="%.1f" y="%.1f">%s</text>`, x+2, y+14, event.XML(text))
	}
	fmt.Fprintln(p.w)
}

// cut returns as much of a text as has room; nothing if that is too little to tell it.
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

// arrows draws those that begin and end in the picture, between different rows.
func (p *picture) arrows(all []drawn) {
	begin := map[string]*drawn{}
	for i := range all {
		e := &all[i]
		t := thread{e.Pid, e.Tid}
		switch e.Phase {
		case "s":
			begin[e.ID] = e
		case "f":
			s := begin[e.ID]
			delete(begin, e.ID)
			if s == nil || !p.shown(s) || !p.shown(e) {
				continue
			}
			from := thread{s.Pid, s.Tid}
			_, a := p.rows[from]
			_, b := p.rows[t]
			if !a || !b || from == t {
				continue
			}
			color := "#444"
			if s.Cat == "message" {
				color = "#06c"
			}
			fmt.Fprintf(p.w, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="0.7" marker-end="url(#a)"/>`+"\n",
				p.x(s.Time), p.y(from)+pictureRow/2, p.x(e.Time), p.y(t)+pictureRow/2, color)
		}
	}
}
