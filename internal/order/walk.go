// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package order

// implied: since u's task has started, u has what it may.
func (u *Entry) implied(w condition) bool {
	return u.waits() && (w == u.needs() || u.needs() == mayWrite)
}

// walk is one way along the tree.
type walk struct {
	*walks
	number   uint64
	released func(u *Entry, lo, hi uintptr) bool
	todo     []step
}

func (t *Task) walk(given func(u *Entry, lo, hi uintptr) bool) *walk {
	w := &walk{walks: t.walks, released: given}
	w.last++
	w.number = w.last
	w.todo, w.walks.todo = w.walks.todo[:0], nil
	return w
}

// Before calls given for the uses that t waits for, or has waited for, with the bytes in question,
// and where it returns true, for those that come before them. So given returns whether the task of
// u has given these bytes up, or true to hear of all that t has to wait for whenever that is.
func (t *Task) Before(given func(u *Entry, lo, hi uintptr) bool) { t.before(t.Entries, given) }

// Before is Task.Before for what u's task waits for by u.
func (u *Entry) Before(given func(u *Entry, lo, hi uintptr) bool) { u.Task.before([]*Entry{u}, given) }

func (t *Task) before(uses []*Entry, given func(u *Entry, lo, hi uintptr) bool) {
	if len(uses) == 0 {
		return
	}
	w := t.walk(given)
	for _, u := range uses {
		if u.waits() {
			w.next(u, u.needs(), u.Lo, u.Hi, false)
		}
	}
	w.all()
}

// Below calls given for the uses of the bytes by the children of u's task, and by theirs.
func (u *Entry) Below(lo, hi uintptr, given func(u *Entry, lo, hi uintptr) bool) {
	w := u.Task.walk(given)
	w.children(u, isOver, lo, hi)
	w.all()
}

// next adds a step to what is to be looked at, for those of the bytes that u has.
func (w *walk) next(u *Entry, what condition, lo, hi uintptr, behind bool) {
	s := step{u, what, behind, max(lo, u.Lo), min(hi, u.Hi)}
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

// take follows the line of the package comment that s is about.
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

// before asks what comes before, or else the parent. What is before a run is before each reader and
// each member of a group in it. Where a member of the group has started, what comes after them all
// asks no further than to the group.
func (w *walk) before(s step, what condition) {
	u, x := s.entry, s.entry.Run
	if u.at > 0 && s.cond != mayJoin && (s.cond != mayRead || u.needs() != mayRead) {
		w.next(x.entries[u.at-1], what, s.lo, s.hi, s.afterRun)
		return
	}
	known := s.afterRun && x.started
	for _, p := range x.prevs {
		switch last := p.last(); {
		case u.joins(last) && s.cond == mayJoin:
			w.next(last, mayJoin, s.lo, s.hi, s.afterRun)
		case u.joins(last):
			w.next(last, what, s.lo, s.hi, s.afterRun)
		case !known:
			w.next(last, what, s.lo, s.hi, true)
		}
	}
	if x.prevs != nil {
		return
	}
	u.up(s.lo, s.hi, func(up *Entry, lo, hi uintptr) {
		what, one := s.cond, u.joins(up)
		switch {
		case known && !one:
			return
		case what == mayJoin && !one:
			what = mayWrite
		}
		if !up.Holds() && !up.implied(what) {
			w.next(up, what, lo, hi, false)
		}
	})
}

// gives is what passesRead and isOver have in common: the task has given the bytes up, its children
// have, and the tokens have come.
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

// children asks the last uses by the children of u's task, and reports whether they have all of the
// bytes, so that they wait for what u needs.
func (w *walk) children(u *Entry, what condition, lo, hi uintptr) (all bool) {
	left := hi - lo
	for _, c := range u.Task.dom.meets(u, lo, hi) {
		for _, x := range c.last {
			w.next(x.last(), what, max(lo, c.lo), min(hi, c.hi), true)
		}
		left -= min(hi, c.hi) - max(lo, c.lo)
	}
	return left == 0
}
