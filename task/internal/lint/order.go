// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"weft/internal/chain"
	"weft/internal/race"
	"weft/task/internal/addrmap"
)

// use is what a task declares of an object, or of a range.
type use struct {
	lo, hi uintptr
	slice  bool
	mode   chain.Mode // In, InOut, Concurrent, Commutative or Reduce
	weak   bool
	access chain.Access // until the use is in its chains
	runs   []*run
	left   []*part // of ranges: of runs of which a part is given up, what is not
}

// run is a run of neighbours in a chain that go together: one writer, or readers, or a group. All its tasks have all its bytes.
type run struct {
	lo, hi uintptr
	access chain.Access // one of its tasks': keeps the memory, so that a chain's addresses serve nothing else
	mode   chain.Mode
	prevs  []*run     // the runs before it; none if all that they know is in enter
	same   *run       // of ranges: the earlier neighbours that go together with it, and have more bytes
	enter  race.Clock // what has come before it, of which the runs were cut off
	out    race.Clock // released by its tasks
	heirs  []*run     // whose same it is
	parts  []*part    // of its tasks that have given up a part of its bytes
	object bool       // it is about one object, as a whole
	subs   []*Record  // its tasks with children that have accesses
	waits  []*Record  // its tasks with Attrs.Wait
	knows  bool       // of a group: some task of it has come after all that is before it, so what comes after them all needs no more
}

// part is a part of a run that one of its tasks releases by itself.
type part struct {
	run    *run
	lo, hi uintptr
	out    *race.Clock
}

// domain is the chains of the children of one task. It has the rules of package deps: by addresses, until there is a range.
type domain struct {
	ranges bool
	tails  addrmap.Map // by the objects' addresses
	spans  []span      // in their order, apart
}

// span is the end of the chain of some bytes.
type span struct {
	lo, hi uintptr
	tail   *run
}

// declare makes r's uses from a list: one for each object and each range.
func (r *Record) declare(accs []chain.Access) {
list:
	for _, a := range accs {
		lo, hi, slice := a.Memory()
		if lo == hi {
			continue
		}
		mode := a.Mode().Both(a.Mode())
		for _, u := range r.uses {
			if u.lo == lo && !u.slice && !slice {
				u.mode, u.weak, u.hi = u.mode.Both(mode), u.weak && a.IsWeak(), max(u.hi, hi)
				continue list
			}
		}
		r.uses = append(r.uses, &use{lo: lo, hi: hi, slice: slice, mode: mode, weak: a.IsWeak(), access: a})
	}
}

func (u *use) meets(lo, hi uintptr, ranges bool) bool {
	if ranges || u.slice {
		return u.lo < hi && lo < u.hi
	}
	return u.lo == lo
}

// enter puts r's uses at the ends of the chains of its parent's children. +checklocks:r.l.mu
func (r *Record) enter() {
	p := r.parent
	if p.dom == nil {
		p.dom = new(domain)
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
	if d.ranges {
		r.uses = apiece(r.uses)
	}
	for _, u := range r.uses {
		if d.ranges {
			d.addRange(u)
		} else {
			tail, _ := d.tails.Get(u.lo).(*run)
			x := joinObject(tail, u)
			d.tails.Set(u.lo, x)
			u.runs = append(u.runs, x)
		}
		if r.wait {
			for _, x := range u.runs {
				x.waits = append(x.waits, r)
			}
		}
	}
}

// forget drops the chains of r's children that nobody comes behind any more: these children are over, and r's body has
// waited for them, or is over itself. What it spawns from now on comes after them by the spawn. Others look only at
// memory that r has declared. +checklocks:r.l.mu
func (r *Record) forget() {
	d := r.dom
	if d == nil {
		return
	}
	declared := func(lo, hi uintptr) bool {
		for _, u := range r.uses {
			if u.lo < hi && lo < u.hi {
				return true
			}
		}
		return false
	}
	old, spans := d.tails, d.spans
	d.tails, d.spans = addrmap.Map{}, nil
	old.All(func(v any) bool {
		if x := v.(*run); declared(x.lo, x.hi) {
			d.tails.Set(x.lo, x)
		}
		return true
	})
	for _, s := range spans {
		if declared(s.lo, s.hi) {
			d.spans = append(d.spans, s)
		}
	}
}

// joinObject returns the run that u is in, behind tail: that itself, or a new one.
func joinObject(tail *run, u *use) *run {
	if tail != nil && tail.mode == u.mode && u.mode != chain.ModeInOut {
		tail.hi = max(tail.hi, u.hi)
		return tail
	}
	x := &run{lo: u.lo, hi: u.hi, mode: u.mode, object: true, access: u.access}
	if tail != nil {
		x.prevs = []*run{tail}
	}
	return x
}

// search collects the clocks that somebody has to acquire.
type search struct {
	clocks []*race.Clock
	met    map[searched]bool
}

type searched struct {
	x      *run
	lo, hi uintptr
	reader bool
}

// before returns the clocks of all that r's strong accesses wait for. +checklocks:r.l.mu
func (r *Record) before() []*race.Clock {
	s := search{met: map[searched]bool{}}
	for _, u := range r.uses {
		if u.weak || u.mode == chain.ModeReduce { // who takes part in a reduction does not wait
			continue
		}
		reader := u.mode == chain.ModeIn
		s.behind(u, reader, u.lo, u.hi)
		s.above(r.parent, u.lo, u.hi, u.slice, reader)
	}
	return s.clocks
}

// behind collects what comes before u, as far as that is about the bytes from lo to hi.
func (s *search) behind(u *use, reader bool, lo, hi uintptr) {
	for _, x := range u.runs {
		switch {
		case u.slice && (x.hi <= lo || hi <= x.lo):
		case u.mode == chain.ModeCommutative: // those of the group come in any order
			s.back(x, lo, hi, reader)
			s.over(x, lo, hi, reader)
			for x.same != nil {
				x = x.same
			}
			s.heirs(x, lo, hi)
		default:
			s.over(x, lo, hi, reader)
		}
	}
}

// heirs collects what the runs have done that go together with x and come after it.
func (s *search) heirs(x *run, lo, hi uintptr) {
	for _, y := range x.heirs {
		if y.lo < hi && lo < y.hi {
			s.done(y, max(lo, y.lo), min(hi, y.hi), false)
			s.heirs(y, lo, hi)
		}
	}
}

// over collects what comes before run x, for some of its bytes.
func (s *search) over(x *run, lo, hi uintptr, reader bool) {
	for y := x; y != nil; y = y.same {
		s.clocks = append(s.clocks, &y.enter)
	}
	for _, p := range x.prevs {
		s.back(p, lo, hi, reader)
	}
}

// back collects what run x and those before it have done with these bytes: for a reader, what has written.
func (s *search) back(x *run, lo, hi uintptr, reader bool) {
	if lo, hi = max(lo, x.lo), min(hi, x.hi); x.object {
		lo, hi = x.lo, x.hi
	}
	if s.met[searched{x, lo, hi, reader}] || s.met[searched{x, lo, hi, false}] {
		return
	}
	s.met[searched{x, lo, hi, reader}] = true
	if !reader || x.mode != chain.ModeIn {
		for y := x; y != nil; y = y.same {
			s.done(y, lo, hi, reader)
		}
	}
	if !x.knows {
		s.over(x, lo, hi, reader)
	}
}

// done collects what the tasks of run x have done, and the children of these.
func (s *search) done(x *run, lo, hi uintptr, reader bool) {
	s.clocks = append(s.clocks, &x.out)
	for _, p := range x.parts {
		if p.lo < hi && lo < p.hi {
			s.clocks = append(s.clocks, p.out)
		}
	}
	for _, w := range x.waits {
		s.clocks = append(s.clocks, &w.kids)
	}
	for _, p := range x.subs {
		p.dom.ends(lo, hi, func(tail *run) { s.back(tail, lo, hi, reader) })
	}
}

// ends calls f for the ends of the chains that meet these bytes.
func (d *domain) ends(lo, hi uintptr, f func(*run)) {
	if !d.ranges {
		d.tails.All(func(v any) bool {
			if x := v.(*run); x.lo < hi && lo < x.hi {
				f(x)
			}
			return true
		})
		return
	}
	for i := d.seek(lo); i < len(d.spans) && d.spans[i].lo < hi; i++ {
		f(d.spans[i].tail)
	}
}

// above collects what the weak accesses of p, and of those above it, wait for: a child waits in their place.
func (s *search) above(p *Record, lo, hi uintptr, slice, reader bool) {
	if p == nil {
		return
	}
	for _, u := range p.uses {
		if !u.meets(lo, hi, slice) {
			continue
		}
		reader := reader || u.mode == chain.ModeIn
		lo, hi := lo, hi
		if u.slice {
			lo, hi = max(lo, u.lo), min(hi, u.hi)
		}
		if u.weak {
			s.behind(u, reader, lo, hi)
		}
		s.above(p.parent, lo, hi, slice || u.slice, reader)
	}
}

// cut drops the runs before those that r alone is in as a writer, and before the weak ones above that it has to itself: r, whose body is the
// caller, has acquired all that they know. It returns the clocks that are to know it in their place. +checklocks:r.l.mu
func (r *Record) cut() (know []*race.Clock) {
	for _, u := range r.uses {
		if u.weak || u.mode == chain.ModeReduce {
			continue
		}
		for _, x := range u.runs {
			for _, p := range x.prevs {
				if p.knows && p.object { // all its tasks are over, so nobody asks what is before it
					p.prevs = nil
				}
			}
			x.knows = u.mode == chain.ModeConcurrent || u.mode == chain.ModeCommutative
		}
		if u.mode != chain.ModeInOut {
			continue
		}
		for _, x := range u.runs {
			x.prevs = nil
		}
		for p := r.parent; p != nil; p = p.parent {
			own := p.toItself(u)
			if own == nil {
				break
			}
			for _, x := range own.runs {
				if x.prevs != nil {
					x.prevs = nil
					know = append(know, &x.enter)
				}
			}
		}
	}
	return know
}

// toItself returns the weak access by which p has what u is about to itself; nil if there is none.
func (p *Record) toItself(u *use) *use {
	for _, own := range p.uses {
		if own.weak && own.mode == chain.ModeInOut && own.lo == u.lo && own.hi == u.hi && own.slice == u.slice {
			return own
		}
	}
	return nil
}

// after returns the clocks of all that r's strong accesses hold, and have not given up. +checklocks:r.l.mu
func (r *Record) after() (clocks []*race.Clock) {
	for _, u := range r.uses {
		if !u.weak || u.mode == chain.ModeReduce {
			for _, x := range u.runs {
				clocks = append(clocks, &x.out)
			}
			for _, p := range u.left {
				clocks = append(clocks, p.out)
			}
		}
	}
	return clocks
}

// Release notes that the body of r's task gives an access up: what it does with the object later comes before nothing.
func (r *Record) Release(a chain.Access) {
	if r.off() {
		race.Release(&r.l.world)
		return
	}
	r.l.lock()
	clocks := r.give(a)
	r.l.unlock()
	race.Release(&r.l.world)
	for _, c := range clocks {
		race.Release(c)
	}
}

// give takes what a names out of what r holds, and returns the clocks that r's body is to release
// for it. +checklocks:r.l.mu
func (r *Record) give(a chain.Access) (clocks []*race.Clock) {
	lo, hi, slice := a.Memory()
	for _, u := range r.uses {
		if u.weak || lo == hi || !u.meets(lo, hi, slice) {
			continue
		}
		kept := make([]*run, 0, len(u.runs))
		for _, x := range u.runs {
			switch {
			case !u.slice || lo <= x.lo && x.hi <= hi:
				clocks = append(clocks, &x.out)
			case x.lo < hi && lo < x.hi:
				p := &part{x, x.lo, x.hi, new(race.Clock)}
				x.parts = append(x.parts, p)
				u.left = append(u.left, p)
			default:
				kept = append(kept, x)
			}
		}
		u.runs = kept
		for _, p := range u.left {
			if p.lo < hi && lo < p.hi {
				clocks = append(clocks, u.part(p, max(lo, p.lo), min(hi, p.hi)))
			}
		}
	}
	return clocks
}

// part takes the bytes from lo to hi out of p, and returns the clock that is to be released for them: what u's task does later with the
// rest comes before who uses the rest only. +checklocks:r.l.mu
func (u *use) part(p *part, lo, hi uintptr) *race.Clock {
	given := &part{p.run, lo, hi, new(race.Clock)}
	p.run.parts = append(p.run.parts, given)
	if hi < p.hi {
		right := &part{p.run, hi, p.hi, p.out}
		p.run.parts = append(p.run.parts, right)
		u.left = append(u.left, right)
	}
	p.hi = lo // empty, if there is nothing on the left
	return given.out
}
