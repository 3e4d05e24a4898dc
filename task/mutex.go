// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package task

import "weft/internal/race"

func (q *waiters) add(w *waiter) {
	w.queued = true
	if w.prev = q.last; w.prev == nil {
		q.first = w
	} else {
		w.prev.next = w
	}
	q.last = w
}

func (q *waiters) remove(w *waiter) {
	w.queued = false
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// Lock locks m for t, whose body is the caller. While another task holds m, Lock waits without a
// slot. If the run fails or is cancelled while t would have to wait, Lock returns the run's error,
// and t does not hold m. A free Mutex is locked even then, so that bodies can clean up.
//
// Lock panics if t holds m already, or if t runs on the stack of m's holder, inside a wait of the
// holder: both would wait for ever.
func (m *Mutex) Lock(t *Task) error {
	t.enter("Lock")
	m.mu.Lock()
	if m.holder == nil {
		m.holder = t
		m.mu.Unlock()
		m.taken(t)
		return nil
	}
	onStack := m.holder == t
	for o := t.slot.outer; o != nil && !onStack; o = o.outer {
		onStack = o == m.holder
	}
	if onStack {
		defer m.mu.Unlock()
		if m.holder == t {
			panic("task: Lock of a Mutex that " + t.name() + " has already")
		}
		panic("task: Lock of a Mutex by " + t.name() + ", which runs in a wait of " + m.holder.name() + ", which has it: neither could go on")
	}
	if err := t.run.cause(); err != nil {
		m.mu.Unlock()
		return err
	}
	w := &waiter{t: t}
	m.queue.add(w)
	// the holder is alive while mu is locked
	x := waiting{op: opLock, lock: m, on: m.holder.notes()}
	m.mu.Unlock()

	if err := t.blockOn(&w.word, x); err != nil {
		m.mu.Lock()
		if w.queued {
			m.queue.remove(w)
			m.mu.Unlock()
		} else { // t has become the holder at the same time
			m.passAndUnlock() //bug:late
		}
		return err
	}
	m.taken(t)
	return nil
}

// heldBy returns the holder, nil if there is none. The holder may end before the caller uses it.
func (m *Mutex) heldBy() *Task {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holder
}

// TryLock locks m for t if no task holds it, and reports whether it did.
func (m *Mutex) TryLock(t *Task) bool {
	t.enter("TryLock")
	m.mu.Lock()
	ok := m.holder == nil
	if ok {
		m.holder = t
	}
	m.mu.Unlock()
	if ok {
		m.taken(t)
	}
	return ok
}

// Unlock gives m to the task that has waited longest, if any waits. It panics if t
// does not hold m. A body that ends without Unlock ends the run, with [ErrLocked], and
// m passes to the next task.
func (m *Mutex) Unlock(t *Task) {
	t.enter("Unlock")
	m.mu.Lock()
	if h := m.holder; h != t {
		holder := "nobody has it"
		if h != nil {
			holder = h.name() + " has it"
		}
		m.mu.Unlock()
		panic("task: Unlock of a Mutex by " + t.name() + ", but " + holder)
	}
	p := &t.more.held
	for *p != m {
		p = &(*p).next
	}
	*p, m.next = m.next, nil
	t.holds.Add(-1)
	m.passAndUnlock()
}

// Critical runs f with m locked, and unlocks m however f ends. It returns f's error. If Lock fails,
// it returns Lock's error and does not run f.
func (t *Task) Critical(m *Mutex, f func() error) error {
	mustCall("Critical", "with", f != nil)
	if err := m.Lock(t); err != nil {
		return err
	}
	defer m.Unlock(t)
	return f()
}

// taken notes that t holds m. A held Mutex counts as an event of t, so that bodyOverRarely, which
// checks for events, finds a body that ends with a locked Mutex.
func (m *Mutex) taken(t *Task) {
	race.Acquire(&m.queue)
	r := t.rare()
	m.next, r.held = r.held, m
	t.addEvent()
}

// passAndUnlock passes m to the next task and unlocks mu. Precondition: mu is locked, and the
// caller acts for the holder.
//
// +checklocksrelease:m.mu
func (m *Mutex) passAndUnlock() {
	race.Release(&m.queue)
	w := m.queue.first
	if w == nil {
		m.holder = nil
		m.mu.Unlock()
		return
	}
	m.queue.remove(w)
	m.holder = w.t //bug:holder
	m.mu.Unlock()
	w.t.unblock(&w.word) // touches w.t only if that is blocked on this word
}

// dropLocks ends the run, and unlocks what is locked, if t's body has ended with a locked Mutex.
func (t *Task) dropLocks() {
	if t.more == nil || t.more.held == nil {
		return
	}
	t.run.fail(t.wrap(ErrLocked, nil, nil))
	for m := t.more.held; m != nil; m = t.more.held {
		t.more.held, m.next = m.next, nil
		t.holds.Add(-1)
		m.mu.Lock()
		m.passAndUnlock()
	}
}

// locksInVain reports whether tasks of this runtime wait for a Mutex that, as far as can be known,
// will never be unlocked. Its holder is in a cycle of tasks that wait for each other's Mutexes, or
// waits for tasks, and no task waits for anything but tasks. A holder in Blocking, for example, may
// return.
func (rt *Runtime) locksInVain() bool {
	all := map[*Task]waiting{} // of all runtimes, which may share a Mutex
	var lockers []*Task
	others := false // some task waits for something other than tasks
	eachParked(func(k *parked) {
		if k.t == nil {
			return
		}
		race.Acquire(&k.clock)
		for t := k.t; t != nil; t = t.outer {
			// the tasks beneath it on the stack cannot go on before it does
			all[t] = k.what
		}
		switch k.what.op {
		case opLock:
			if k.t.run.rt == rt {
				lockers = append(lockers, k.t)
			}
		case opWait, opWaitOn, opChild, opThrottled, opJoin:
		default:
			others = true
		}
	})
	for _, t := range lockers {
		x, seen := all[t]
		steps := 0
		for ; x.op == opLock && steps <= len(all); steps++ {
			x, seen = all[x.lock.heldBy()]
		}
		if steps > len(all) || seen && !others {
			return true
		}
	}
	return false
}
