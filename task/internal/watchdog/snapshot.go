// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"cmp"
	"slices"
	"time"

	"weft/internal/chain"
	"weft/internal/order"
)

// snapshot is what a check has read. Each task is read at another time while the snapshot is made.
// The relations of a cycle must have held at one time; findCycles verifies that.
type snapshot struct {
	at    time.Time
	limit time.Duration
	seen  []seen            // by depth and creation: parents before children
	kids  map[*Record][]int // in seen, in order of creation
	index map[*Record]int   // in seen
	holds []int             // tasks that have begun, with Commutative accesses
	stuck []int             // tasks that have waited too long, and the cycles, each in its order
}

// seen is a task in a snapshot.
type seen struct {
	status
	rec      *Record
	events   []watchEvent
	released []order.Access // early, sorted by address
	parent   int            // index; -1 if there is none
	task     *order.Task    // its mark is the index
	blockers []blocker

	stuckSince time.Time // the begin of the wait that is too long
	inCycle    bool
}

// blocker is a task that another task waits for.
type blocker struct {
	on     int          // index of the task
	access chain.Access // of the waiting task; zero if it waits for the end of the blocker
}

// take reads all live tasks from shards.
func take(shards []watchShard, limit time.Duration) *snapshot {
	p := &snapshot{limit: limit, kids: map[*Record][]int{}, index: map[*Record]int{}}
	for i := range shards {
		sh := &shards[i]
		sh.mu.Lock()
		for r := sh.first; r != nil; r = r.next {
			p.seen = append(p.seen, seen{rec: r})
		}
		sh.mu.Unlock()
	}
	n := 0
	for _, x := range p.seen {
		if x.read() {
			p.seen[n] = x
			n++
		}
	}
	p.seen = p.seen[:n]
	p.at = time.Now()
	slices.SortFunc(p.seen, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.rec.depth, b.rec.depth), a.rec.born.Compare(b.rec.born), cmp.Compare(a.rec.id, b.rec.id))
	})
	for i := range p.seen {
		p.index[p.seen[i].rec] = i
	}
	for i := range p.seen {
		x := &p.seen[i]
		x.parent = -1
		if at, ok := p.index[x.rec.parent]; ok {
			x.parent = at
		}
		p.kids[x.rec.parent] = append(p.kids[x.rec.parent], i)
	}
	for _, l := range p.kids {
		slices.SortFunc(l, func(a, b int) int { return cmp.Compare(p.seen[a].rec.seq, p.seen[b].rec.seq) })
	}
	for i := range p.seen { // parents first, and the children of each in order of creation
		if p.seen[i].parent < 0 {
			p.addToTree(i)
		}
		for _, k := range p.kids[p.seen[i].rec] {
			p.addToTree(k)
		}
	}
	for i := range p.seen {
		p.findBlockers(i)
	}
	p.findStuck()
	return p
}

// read copies the fields under the record's lock, and reports whether the task is alive.
func (x *seen) read() bool {
	r := x.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stateOver {
		return false
	}
	x.status, x.events, x.released = r.status, nil, order.List(r.released)
	slices.SortFunc(x.released, func(a, b order.Access) int { return cmp.Compare(a.Lo, b.Lo) })
	for _, e := range r.events {
		x.events = append(x.events, *e)
	}
	return true
}

// findBlockers finds the tasks that task i waits for.
func (p *snapshot) findBlockers(i int) {
	x := &p.seen[i]
	switch x.state {
	case stateSpawned:
		// If OnReady has bound events, the task has its accesses. The tasks of a recorded loop are
		// ordered by the loop's graph.
		if len(x.events) == 0 && !x.rec.loop {
			p.blockedByAccesses(i)
		}
	case stateWaiting:
		if on, ok := p.index[x.waits.On]; ok && x.waits.On != nil {
			x.blockers = append(x.blockers, blocker{on: on})
		}
		if x.waits.Children {
			p.blockedByChildren(x)
		}
	case stateReturned, stateReleased: // the first with Attrs.Wait
		if x.state == stateReleased || len(x.events) == 0 {
			p.blockedByChildren(x)
		}
	}
}

// blockedByChildren notes that x waits for all its children.
func (p *snapshot) blockedByChildren(x *seen) {
	for _, k := range p.kids[x.rec] {
		x.blockers = append(x.blockers, blocker{on: k})
	}
}

// addToTree puts task i, whose parent is in a tree, into that tree. Tasks of a recorded loop do not
// wait for each other there.
func (p *snapshot) addToTree(i int) {
	x := &p.seen[i]
	up := new(order.Task)
	if x.parent >= 0 && !x.rec.loop {
		up = p.seen[x.parent].task
	}
	if x.rec.ranges {
		up.Ranges()
	}
	x.task = up.Child(order.List(x.rec.accs))
	x.task.Mark = i
	if x.state != stateSpawned && slices.ContainsFunc(x.task.Entries, (*order.Entry).Holds) {
		p.holds = append(p.holds, i)
	}
}

// blockedByAccesses notes the tasks that task i waits for by its accesses: earlier tasks that have
// not given the memory up, and a task that holds it exclusively.
func (p *snapshot) blockedByAccesses(i int) {
	x := &p.seen[i]
	declared := map[*order.Entry]chain.Access{} // the strong one, if there is one
	for _, a := range x.rec.accs {
		x.task.Find(order.Of(a), func(u *order.Entry, _, _ uintptr) {
			if old, ok := declared[u]; !ok || old.IsWeak() {
				declared[u] = a
			}
		})
	}
	known := map[blocker]bool{}
	for _, u := range x.task.Entries {
		free := true
		waits := func(by *order.Entry, lo, hi uintptr) bool {
			if p.hasReleased(by, lo, hi) {
				return true
			}
			free = false
			if b := (blocker{by.Task.Mark.(int), declared[u]}); !known[b] {
				known[b] = true
				x.blockers = append(x.blockers, b)
			}
			return false
		}
		if u.Before(waits); !free || !u.Holds() {
			continue
		}
		for _, k := range p.holds {
			p.seen[k].task.Find(u.Access, func(by *order.Entry, lo, hi uintptr) {
				if by.Holds() {
					waits(by, lo, hi)
				}
			})
		}
	}
}

// hasReleased reports whether the task of u has given up all bytes of u from lo to hi.
func (p *snapshot) hasReleased(u *order.Entry, lo, hi uintptr) bool {
	x := &p.seen[u.Task.Mark.(int)]
	if x.state == stateReleased || x.state == stateResting {
		return true
	}
	for _, g := range x.released {
		if from, to := u.Part(g); from <= lo {
			lo = max(lo, to)
		}
	}
	return lo >= hi
}

// findStuck finds the tasks that have waited too long for something that no task provides, and the
// cycles.
func (p *snapshot) findStuck() {
	p.findCycles()
	for i := range p.seen {
		x := &p.seen[i]
		if x.inCycle {
			continue
		}
		if since, ok := x.waitsOutside(p.at); ok && p.at.Sub(since) >= p.limit {
			x.stuckSince = since
			p.stuck = append(p.stuck, i)
		}
	}
}

// waitsOutside reports whether x waits for something that is not a task and does not end by itself,
// and since when.
func (x *seen) waitsOutside(now time.Time) (since time.Time, ok bool) {
	switch x.state {
	case stateWaiting:
		if w := x.waits; w.Children || w.Passes || w.On != nil || w.Due.After(now) {
			return since, false
		}
		return x.since, true
	case stateReturned, stateSpawned:
		for _, e := range x.events {
			if !ok || e.since.Before(since) {
				since, ok = e.since, true
			}
		}
	}
	return since, ok
}

// findCycles finds tasks that wait for each other. A waiting task needs all its blockers, so a task
// on a cycle never continues. The relations are read one after the other. Versions verify that they
// held at one time: if no record on the cycle has changed since it was read, each relation held
// from the last reading to the first verification.
func (p *snapshot) findCycles() {
	const (
		fresh = iota
		onPath
		finished
	)
	color := make([]uint8, len(p.seen))
	next := make([]int, len(p.seen)) // the next blocker of each task
	var path []int
	for start := range p.seen {
		if color[start] != fresh {
			continue
		}
		path = append(path[:0], start)
		color[start] = onPath
		for len(path) > 0 {
			i := path[len(path)-1]
			x := &p.seen[i]
			if next[i] == len(x.blockers) {
				color[i] = finished
				path = path[:len(path)-1]
				continue
			}
			on := x.blockers[next[i]].on
			next[i]++
			switch color[on] {
			case fresh:
				color[on] = onPath
				path = append(path, on)
			case onPath:
				p.addCycle(path[slices.Index(path, on):])
			}
		}
	}
}

// addCycle notes that each task of cycle waits for the next one, unless a record has changed.
func (p *snapshot) addCycle(cycle []int) {
	for _, i := range cycle {
		x := &p.seen[i]
		x.rec.mu.Lock()
		same := x.rec.version == x.version
		x.rec.mu.Unlock()
		if !same || x.inCycle {
			return
		}
	}
	for k, i := range cycle {
		x := &p.seen[i]
		x.inCycle, x.stuckSince = true, x.since
		// The blocker on the cycle comes first.
		j := slices.IndexFunc(x.blockers, func(b blocker) bool { return b.on == cycle[(k+1)%len(cycle)] })
		x.blockers[0], x.blockers[j] = x.blockers[j], x.blockers[0]
		p.stuck = append(p.stuck, i)
	}
}
