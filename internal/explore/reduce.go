//go:build explore

// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"fmt"
	"math/bits"
	"runtime"
	"strings"

	"weft/internal/xatomic"
)

// record adds a step to the run, and adds to the search the orders that must be explored because of
// it.
func (e *engine) record(p *proc, k xatomic.Kind, x any, v int64, wrote bool) {
	i := len(e.trace)
	if wrote && e.searching() && i < len(e.nodes) {
		// no replay, and not the rest of a redundant run
		e.nodes[i].wrote.add(p.id)
	}
	for _, q := range e.procs {
		if q != p {
			q.paused = false
		}
	}
	p.clock[p.id]++
	e.trace = append(e.trace, event{proc: p.id, kind: k, x: x, val: v, wrote: wrote, time: p.clock[p.id]})
	ev := &e.trace[i]
	if e.cfg.sites {
		e.sites = append(e.sites, site())
	}
	if x == nil {
		ev.clock = p.clock
		return
	}
	o := e.object(x)
	if o.freed {
		e.failed(fmt.Sprintf("%s uses memory that is free: %v", p.name, k), "")
	}
	var rivals []int
	if e.reducing() {
		rivals = e.races(p, o, k, wrote)
	}
	p.clock.join(&o.written)
	if wrote {
		p.clock.join(&o.read)
	}
	ev.clock = p.clock
	o.ops[p.id] = ev.time
	for _, j := range rivals {
		e.reverse(j, i, ev)
	}
	o.note(i, ev)
}

func (e *engine) searching() bool { return e.script == nil && e.random == nil }
func (e *engine) reducing() bool  { return e.searching() && !e.dead && !e.cfg.Full && e.cfg.Bound < 0 }

// races returns the steps on o that are in a race with p's step of kind k: they conflict with it,
// and are ordered before it only by chance.
func (e *engine) races(p *proc, o *object, k xatomic.Kind, wrote bool) []int {
	e.rivals = o.rivals(e.rivals[:0], k, wrote)
	out := e.rivals[:0]
	for _, j := range e.rivals {
		if c := &e.trace[j]; c.proc != p.id && p.clock[c.proc] < c.time {
			out = append(out, j)
		}
	}
	return out
}

// waiting finds, at the end of a run, the races of goroutines that wait.
func (e *engine) waiting() {
	if !e.reducing() {
		return
	}
	for _, p := range e.procs {
		if p.done || p.x == nil {
			continue
		}
		rivals := e.races(p, e.object(p.x), p.kind, p.kind != xatomic.Load)
		ev := event{proc: p.id, time: p.clock[p.id] + 1, clock: p.clock}
		ev.clock[p.id]++
		for _, j := range rivals {
			e.reverse(j, len(e.trace), &ev)
		}
	}
}

// reverse ensures that, from the state before step j, an order is explored in which ev, step i,
// comes before j. All steps that follow j without depending on it have to come before ev. Any of
// these that depends on none before it can be the first, and one of them is enough.
func (e *engine) reverse(j, i int, ev *event) {
	n := &e.nodes[j]
	c := &e.trace[j]
	var seen, first set
	var v []*event
	take := func(f *event) {
		if seen.has(f.proc) {
			return
		}
		seen.add(f.proc)
		for _, g := range v {
			if g.before(f) {
				return
			}
		}
		first.add(f.proc)
	}
	for k := j + 1; k < i; k++ {
		f := &e.trace[k]
		if c.before(f) {
			continue
		}
		take(f)
		v = append(v, f)
	}
	take(ev)
	if first&(n.todo|n.sleep) != 0 {
		return
	}
	switch {
	case first&n.enabled == 0:
		n.todo |= n.enabled
	case (first & n.enabled).has(ev.proc):
		n.todo.add(ev.proc)
	default:
		n.todo.add(bits.TrailingZeros32(uint32(first & n.enabled)))
	}
}

// site returns the source line of the operation that is being recorded.
func site() string {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "internal/xatomic.") && !strings.Contains(f.Function, "internal/explore.(*engine)") {
			return fmt.Sprintf("%s:%d", f.File[strings.LastIndexByte(f.File, '/')+1:], f.Line)
		}
		if !more {
			return ""
		}
	}
}
