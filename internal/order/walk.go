// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

// implied reports whether u has w if its task has started.
func (u *Entry) implied(w condition) bool {
	return u.waits() && (w == u.needs() || u.needs() == mayWrite)
}

// walk is one walk of the tree.
type walk struct {
	*walks
	number   uint64
	released func(u *Entry, lo, hi uintptr) bool
	todo     []step
}

func (t *Task) walk(released func(u *Entry, lo, hi uintptr) bool) *walk {
	w := &walk{walks: t.walks, released: released}
	w.last++
	w.number = w.last
	w.todo, w.walks.todo = w.walks.todo[:0], nil
	return w
}

// Before calls released for each entry that t waits for, or has waited for, with the bytes in
// question. Where released returns true, the walk goes on to the entries before it. So released
// returns whether the task of u has given these bytes up, or always true to visit all that t ever
// has to wait for.
func (t *Task) Before(released func(u *Entry, lo, hi uintptr) bool) { t.before(t.Entries, released) }

// Before is Task.Before for the entries that u's task waits for because of u.
func (u *Entry) Before(released func(u *Entry, lo, hi uintptr) bool) {
	u.Task.before([]*Entry{u}, released)
}

func (t *Task) before(entries []*Entry, released func(u *Entry, lo, hi uintptr) bool) {
	if len(entries) == 0 {
		return
	}
	w := t.walk(released)
	for _, u := range entries {
		if u.waits() {
			w.next(u, u.needs(), u.Lo, u.Hi, false)
		}
	}
	w.all()
}

// Below calls released for the entries of the bytes [lo, hi) of the children of u's task, and of
// their children.
func (u *Entry) Below(lo, hi uintptr, released func(u *Entry, lo, hi uintptr) bool) {
	w := u.Task.walk(released)
	w.children(u, isOver, lo, hi)
	w.all()
}

// next adds a step, for those of the bytes that u has, unless the walk has taken it.
func (w *walk) next(u *Entry, cond condition, lo, hi uintptr, afterRun bool) {
	s := step{u, cond, afterRun, max(lo, u.Lo), min(hi, u.Hi)}
	if u.whole {
		s.lo, s.hi = u.Lo, u.Hi
	}
	if u.walk != w.number {
		u.walk, u.was = w.number, u.was[:0]
	}
	for _, was := range u.was {
		if was == s {
			return
		}
	}
	u.was = append(u.was, s)
	w.todo = append(w.todo, s)
}

func (w *walk) all() {
	for len(w.todo) > 0 {
		last := len(w.todo) - 1
		s := w.todo[last]
		w.todo[last] = step{} // keeps nothing
		w.todo = w.todo[:last]
		w.take(s)
	}
	w.walks.todo = w.todo
}

// take applies the rule of the package comment for s.
func (w *walk) take(s step) {
	u := s.entry
	switch s.cond {
	case mayRead:
		w.before(s, passesRead)
	case mayWrite, mayJoin:
		w.before(s, isOver)
	case passesRead:
		if u.needs() == mayRead {
			w.next(u, mayRead, s.lo, s.hi, s.afterRun)
			break
		}
		w.afterRelease(s, mayRead)
	case isOver:
		w.afterRelease(s, mayWrite)
	}
}

// before asks the predecessors of s, or else the parent's access. The predecessors of a Run precede
// each reader and each run member in it. If a member of the run has started, a question from after
// the run goes no further than to the run.
func (w *walk) before(s step, cond condition) {
	u, x := s.entry, s.entry.Run
	if u.at > 0 && s.cond != mayJoin && (s.cond != mayRead || u.needs() != mayRead) {
		w.next(x.entries[u.at-1], cond, s.lo, s.hi, s.afterRun)
		return
	}
	known := s.afterRun && x.started
	for _, p := range x.prevs {
		switch last := p.last(); {
		case u.joins(last) && s.cond == mayJoin:
			w.next(last, mayJoin, s.lo, s.hi, s.afterRun)
		case u.joins(last):
			w.next(last, cond, s.lo, s.hi, s.afterRun)
		case !known:
			w.next(last, cond, s.lo, s.hi, true)
		}
	}
	if x.prevs != nil {
		return
	}
	u.up(s.lo, s.hi, func(up *Entry, lo, hi uintptr) {
		cond, one := s.cond, u.joins(up)
		switch {
		case known && !one:
			return
		case cond == mayJoin && !one:
			cond = mayWrite
		}
		if !up.Holds() && !up.implied(cond) {
			w.next(up, cond, lo, hi, false)
		}
	})
}

// afterRelease is the common part of passesRead and isOver: the task has given the bytes up, its
// children have, and the tokens have come.
func (w *walk) afterRelease(s step, need condition) {
	u := s.entry
	if !w.released(u, s.lo, s.hi) {
		return
	}
	covered := w.children(u, s.cond, s.lo, s.hi)
	if (!covered || u.Holds()) && !u.implied(need) {
		w.next(u, need, s.lo, s.hi, s.afterRun)
	}
}

// children asks the last entries of the children of u's task, and reports whether these have all of
// the bytes, so that they wait for what u needs.
func (w *walk) children(u *Entry, cond condition, lo, hi uintptr) (all bool) {
	left := hi - lo
	for _, c := range u.Task.dom.meets(u, lo, hi) {
		for _, x := range c.last {
			w.next(x.last(), cond, max(lo, c.lo), min(hi, c.hi), true)
		}
		left -= min(hi, c.hi) - max(lo, c.lo)
	}
	return left == 0
}
