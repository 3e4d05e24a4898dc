// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"slices"

	"weft/deps"
)

// lintUse is what a task declares of an object, or of a range.
type lintUse struct {
	lo, hi uintptr
	slice  bool
	mode   deps.Mode // In, InOut, Concurrent, Commutative or Reduce
	weak   bool
	runs   []*lintRun
}

// lintRun is a run of neighbours in a chain that go together: one writer, or readers, or a group.
type lintRun struct {
	lo, hi uintptr
	mode   deps.Mode
	prevs  []*lintRun // the runs before it; none if all that they know is in enter
	enter  clock      // what has come before it, of which the runs were cut off
	out    clock      // released by its tasks
	subs   []*linted  // its tasks with children that have accesses
	waits  []*linted  // its tasks with Attrs.Wait
}

// lintDomain is the chains of the children of one task. It has the rules of package deps: by addresses, until there is a range.
type lintDomain struct {
	ranges bool
	tails  addrMap    // by the objects' addresses
	spans  []lintSpan // in their order, apart
}

// lintSpan is the end of the chain of some bytes.
type lintSpan struct {
	lo, hi uintptr
	tail   *lintRun
}

// declare makes r's uses from a list: one for each object.
func (r *linted) declare(accs []deps.Access) {
	for _, a := range accs {
		lo, hi, slice := a.Memory()
		if slice {
			panic("task: lint mode judges accesses to objects only, and this is " + a.String() + ": the race detector would see the runtime's own lists of ranges; use debug mode (WEFT_DEBUG=1) for this program")
		}
		if lo == hi {
			continue
		}
		mode := a.Mode().Both(a.Mode())
		if i := slices.IndexFunc(r.uses, func(u *lintUse) bool { return u.lo == lo && !u.slice && !slice }); i >= 0 {
			u := r.uses[i]
			u.mode, u.weak, u.hi = u.mode.Both(mode), u.weak && a.IsWeak(), max(u.hi, hi)
			continue
		}
		r.uses = append(r.uses, &lintUse{lo: lo, hi: hi, slice: slice, mode: mode, weak: a.IsWeak()})
	}
}

func (u *lintUse) meets(lo, hi uintptr, ranges bool) bool {
	if ranges || u.slice {
		return u.lo < hi && lo < u.hi
	}
	return u.lo == lo
}

// enter puts r's uses at the ends of the chains of its parent's children. +checklocks:r.l.mu
func (r *linted) enter() {
	p := r.parent
	if p.dom == nil {
		p.dom = new(lintDomain)
		for _, u := range p.uses {
			p.dom.ranges = p.dom.ranges || u.slice
			for _, x := range u.runs {
				x.subs = append(x.subs, p)
			}
		}
	}
	d := p.dom
	for _, u := range r.uses {
		if u.slice && !d.ranges {
			d.makeRanges()
		}
	}
	for _, u := range r.uses {
		if d.ranges {
			d.addRange(u)
		} else {
			tail, _ := d.tails.get(u.lo).(*lintRun)
			x := joinRun(tail, u, u.lo, u.hi)
			d.tails.set(u.lo, x)
			u.runs = append(u.runs, x)
		}
		if r.wait {
			for _, x := range u.runs {
				x.waits = append(x.waits, r)
			}
		}
	}
}

// joinRun returns the run that u is in, behind tail: that itself, or a new one.
func joinRun(tail *lintRun, u *lintUse, lo, hi uintptr) *lintRun {
	if tail != nil && tail.mode == u.mode && u.mode != deps.ModeInOut {
		tail.hi = max(tail.hi, hi)
		return tail
	}
	x := &lintRun{lo: lo, hi: hi, mode: u.mode}
	if tail != nil {
		x.prevs = []*lintRun{tail}
	}
	return x
}

// addRange puts u at the end of the chains of all its bytes.
func (d *lintDomain) addRange(u *lintUse) {
	var list []lintSpan
	at := u.lo
	add := func(lo, hi uintptr, tail *lintRun) {
		x := joinRun(tail, u, lo, hi)
		u.runs = append(u.runs, x)
		list = append(list, lintSpan{lo, hi, x})
	}
	for _, s := range d.spans {
		if s.hi <= u.lo || u.hi <= s.lo {
			list = append(list, s)
			continue
		}
		if s.lo < u.lo {
			list = append(list, lintSpan{s.lo, u.lo, s.tail})
		}
		if at < s.lo {
			add(at, s.lo, nil)
		}
		add(max(s.lo, u.lo), min(s.hi, u.hi), s.tail)
		at = min(s.hi, u.hi)
		if u.hi < s.hi {
			list = append(list, lintSpan{u.hi, s.hi, s.tail})
		}
	}
	if at < u.hi {
		add(at, u.hi, nil)
	}
	slices.SortFunc(list, func(a, b lintSpan) int { return cmp.Compare(a.lo, b.lo) })
	d.spans = list
}

// makeRanges makes the chains of objects those of their bytes. Where objects overlap, their chains are joined.
func (d *lintDomain) makeRanges() {
	d.ranges = true
	d.tails.all(func(v any) bool {
		tail := v.(*lintRun)
		u := &lintUse{lo: tail.lo, hi: tail.hi, mode: deps.ModeInOut}
		d.addRange(u)
		for _, x := range u.runs {
			x.prevs = append(x.prevs, tail)
		}
		return true
	})
	d.tails = addrMap{}
}

// search collects the clocks that somebody has to acquire.
type search struct {
	clocks []*clock
	met    map[searched]bool
}

type searched struct {
	x      *lintRun
	reader bool
}

// before returns the clocks of all that r's strong accesses wait for. +checklocks:r.l.mu
func (r *linted) before() []*clock {
	s := search{met: map[searched]bool{}}
	for _, u := range r.uses {
		if u.weak || u.mode == deps.ModeReduce { // who takes part in a reduction does not wait
			continue
		}
		reader := u.mode == deps.ModeIn
		for _, x := range u.runs {
			if u.mode == deps.ModeCommutative {
				s.back(x, reader)
			}
			s.over(x, reader)
		}
		s.above(r.parent, u.lo, u.hi, u.slice, reader)
	}
	return s.clocks
}

// over collects what comes before run x.
func (s *search) over(x *lintRun, reader bool) {
	s.clocks = append(s.clocks, &x.enter)
	for _, p := range x.prevs {
		s.back(p, reader)
	}
}

// back collects what run x and those before it have done: for a reader, what has written.
func (s *search) back(x *lintRun, reader bool) {
	if s.met[searched{x, reader}] || s.met[searched{x, false}] {
		return
	}
	s.met[searched{x, reader}] = true
	if !reader || x.mode != deps.ModeIn {
		s.clocks = append(s.clocks, &x.out)
		for _, w := range x.waits {
			s.clocks = append(s.clocks, &w.kids)
		}
		for _, p := range x.subs {
			p.dom.ends(x.lo, x.hi, func(tail *lintRun) { s.back(tail, reader) })
		}
	}
	s.over(x, reader)
}

// ends calls f for the ends of the chains that meet these bytes.
func (d *lintDomain) ends(lo, hi uintptr, f func(*lintRun)) {
	if !d.ranges {
		d.tails.all(func(v any) bool {
			if x := v.(*lintRun); x.lo < hi && lo < x.hi {
				f(x)
			}
			return true
		})
		return
	}
	for _, x := range d.spans {
		if x.lo < hi && lo < x.hi {
			f(x.tail)
		}
	}
}

// above collects what the weak accesses of p, and of those above it, wait for: a child waits in their place.
func (s *search) above(p *linted, lo, hi uintptr, slice, reader bool) {
	if p == nil {
		return
	}
	for _, u := range p.uses {
		if !u.meets(lo, hi, slice) {
			continue
		}
		reader := reader || u.mode == deps.ModeIn
		if u.weak {
			for _, x := range u.runs {
				if u.mode == deps.ModeCommutative {
					s.back(x, reader)
				}
				s.over(x, reader)
			}
		}
		s.above(p.parent, lo, hi, slice, reader)
	}
}

// cut drops the runs before those that r alone is in as a writer, and before the weak ones above that it has to itself: r, whose body is the
// caller, has acquired all that they know. It returns the clocks that are to know it in their place. +checklocks:r.l.mu
func (r *linted) cut() (know []*clock) {
	for _, u := range r.uses {
		if u.weak || u.mode != deps.ModeInOut {
			continue
		}
		for _, x := range u.runs {
			x.prevs = nil
		}
		for p := r.parent; p != nil; p = p.parent {
			i := slices.IndexFunc(p.uses, func(own *lintUse) bool {
				return own.weak && own.mode == deps.ModeInOut && own.lo == u.lo && own.hi == u.hi && own.slice == u.slice
			})
			if i < 0 {
				break
			}
			for _, x := range p.uses[i].runs {
				if x.prevs != nil {
					x.prevs = nil
					know = append(know, &x.enter)
				}
			}
		}
	}
	return know
}

// after returns the clocks of all that r's strong accesses hold, and have not given up. +checklocks:r.l.mu
func (r *linted) after() (clocks []*clock) {
	for _, u := range r.uses {
		if !u.weak || u.mode == deps.ModeReduce {
			for _, x := range u.runs {
				clocks = append(clocks, &x.out)
			}
		}
	}
	return clocks
}

// lintRelease notes that t's body gives an access up: what it does with the object later comes before nothing.
func (t *Task) lintRelease(a deps.Access) {
	r := t.linted()
	if r == nil {
		return
	}
	lo, hi, slice := a.Memory()
	var clocks []*clock
	r.l.lock()
	for _, u := range r.uses {
		if u.weak || lo == hi || !u.meets(lo, hi, slice) {
			continue
		}
		u.runs = slices.DeleteFunc(slices.Clone(u.runs), func(x *lintRun) bool {
			ours := x.lo < hi && lo < x.hi || x.lo == lo
			if ours {
				clocks = append(clocks, &x.out)
			}
			return ours && lo <= x.lo && x.hi <= hi
		})
	}
	r.l.unlock()
	for _, c := range clocks {
		release(c)
	}
}
