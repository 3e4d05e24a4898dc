// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// parsed is an element as Verify decodes it. A nil pointer is a missing field.
type parsed struct {
	Name  *string  `json:"name"`
	Cat   string   `json:"cat"`
	Phase string   `json:"ph"`
	Time  *float64 `json:"ts"`
	Dur   *float64 `json:"dur"`
	Pid   *int     `json:"pid"`
	Tid   *int     `json:"tid"`
	ID    any      `json:"id"`
	Bind  string   `json:"bp"`
	Scope string   `json:"s"`
}

func (p *parsed) nanos() int64 { return int64(math.Round(*p.Time * 1000)) }

type span struct {
	from, to int64
	name     string
}

// Verify checks a timeline:
//
//   - it is an object with an array traceEvents, and each element has what its phase needs;
//   - slices of one thread lie in one another or apart, so that they are a stack;
//   - asynchronous slices begin and end, once, in this order, under one category and number;
//   - each arrow has a beginning and an end, not before it, and both are in slices of their
//     threads;
//   - every other element is on a named thread of a named process.
//
// The error says which element, counted from zero, is wrong.
func Verify(r io.Reader) error {
	var doc struct {
		TraceEvents []parsed `json:"traceEvents"`
	}
	if err := json.NewDecoder(r).Decode(&doc); err != nil {
		return fmt.Errorf("not a JSON object with traceEvents: %w", err)
	}
	if doc.TraceEvents == nil {
		return errors.New("there is no array traceEvents")
	}
	v := &verifier{slices: map[thread][]span{}, open: map[string]int64{}, flows: map[string]*flow{}, threads: map[thread]bool{}, processes: map[int]bool{}}
	for i := range doc.TraceEvents {
		if err := v.element(&doc.TraceEvents[i]); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	return v.end()
}

type verifier struct {
	slices    map[thread][]span
	open      map[string]int64
	flows     map[string]*flow
	threads   map[thread]bool
	processes map[int]bool
}

// flow is an arrow: its two ends.
type flow struct{ from, to *parsed }

func (v *verifier) element(p *parsed) error {
	if p.Name == nil || p.Pid == nil || p.Tid == nil {
		return errors.New("it lacks name, pid or tid")
	}
	at := thread{*p.Pid, *p.Tid}
	if p.Phase == "M" {
		switch *p.Name {
		case "process_name":
			v.processes[*p.Pid] = true
		case "thread_name":
			v.threads[at] = true
		}
		return nil
	}
	if p.Time == nil || *p.Time < 0 {
		return fmt.Errorf("%q has no time, or one before the beginning", *p.Name)
	}
	if !v.processes[*p.Pid] || !v.threads[at] {
		return fmt.Errorf("%q is on thread %d of process %d, which has no name", *p.Name, *p.Tid, *p.Pid)
	}
	key := fmt.Sprintf("%s %v", p.Cat, p.ID)
	switch p.Phase {
	case "X":
		if p.Dur == nil || *p.Dur < 0 {
			return fmt.Errorf("slice %q has no duration", *p.Name)
		}
		v.slices[at] = append(v.slices[at], span{p.nanos(), p.nanos() + int64(math.Round(*p.Dur*1000)), *p.Name})
	case "i":
		if p.Scope != "t" && p.Scope != "p" && p.Scope != "g" {
			return fmt.Errorf("mark %q has the scope %q; legal are t, p and g", *p.Name, p.Scope)
		}
	case "b", "e", "n":
		if p.ID == nil || p.Cat == "" {
			return fmt.Errorf("%q lacks an id or a category", *p.Name)
		}
		since, open := v.open[key]
		switch {
		case p.Phase == "b" && open:
			return fmt.Errorf("%q begins, and has begun before under %s", *p.Name, key)
		case p.Phase != "b" && !open:
			return fmt.Errorf("%q of %s has not begun", *p.Name, key)
		case p.Phase == "b":
			v.open[key] = p.nanos()
		case p.nanos() < since:
			return fmt.Errorf("%q of %s is before its beginning", *p.Name, key)
		case p.Phase == "e":
			delete(v.open, key)
		}
	case "s", "f":
		f := v.flows[key]
		if f == nil {
			f = &flow{}
			v.flows[key] = f
		}
		switch {
		case p.ID == nil:
			return fmt.Errorf("arrow %q has no id", *p.Name)
		case p.Phase == "s" && f.from == nil:
			f.from = p
		case p.Phase == "f" && f.to == nil && p.Bind == "e":
			f.to = p
		case p.Phase == "f" && p.Bind != "e":
			return fmt.Errorf("the end of arrow %s is not bound to the slice around it (bp)", key)
		default:
			return fmt.Errorf("arrow %s has two ends of one kind", key)
		}
	default:
		return fmt.Errorf("phase %q; this program writes X, i, b, e, n, s, f and M", p.Phase)
	}
	return nil
}

func (v *verifier) end() error {
	for key := range v.open {
		return fmt.Errorf("%s begins and does not end", key)
	}
	for at, l := range v.slices {
		slices.SortStableFunc(l, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to)) })
		var stack []span
		for _, s := range l {
			for len(stack) > 0 && stack[len(stack)-1].to <= s.from {
				stack = stack[:len(stack)-1]
			}
			if n := len(stack); n > 0 && s.to > stack[n-1].to {
				return fmt.Errorf("on thread %d of process %d, slice %q from %d to %d ns ends after %q, in which it begins, from %d to %d ns",
					at.tid, at.pid, s.name, s.from, s.to, stack[n-1].name, stack[n-1].from, stack[n-1].to)
			}
			stack = append(stack, s)
		}
	}
	for key, f := range v.flows {
		switch {
		case f.from == nil || f.to == nil:
			return fmt.Errorf("arrow %s has one end", key)
		case f.to.nanos() < f.from.nanos():
			return fmt.Errorf("arrow %s ends before it begins", key)
		}
		for _, p := range []*parsed{f.from, f.to} {
			if !v.inSlice(p) {
				return fmt.Errorf("arrow %s has an end at %d ns on thread %d of process %d, where there is no slice", key, p.nanos(), *p.Tid, *p.Pid)
			}
		}
	}
	return nil
}

// inSlice reports whether p's time is in a slice of its thread. The slices are sorted, and nested.
func (v *verifier) inSlice(p *parsed) bool {
	l := v.slices[thread{*p.Pid, *p.Tid}]
	at := p.nanos()
	n, _ := slices.BinarySearchFunc(l, at+1, func(s span, t int64) int { return cmp.Compare(s.from, t) })
	for n--; n >= 0; n-- {
		if l[n].to >= at {
			return true
		}
	}
	return false
}
