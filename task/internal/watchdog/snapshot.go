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

// snapshot is what the watchdog saw at one moment. Each task is seen as it was at some time while
// the snapshot was made, not all at the same; what must hold at one time, a cycle, is verified.
type snapshot struct {
	at    time.Time
	limit time.Duration
	seen  []seen // in the order of creation of their parents' lists: parents before children
	kids  map[*Record][]int
	index map[*Record]int
	holds []int // those that have begun, with Commutative accesses
	stuck []int // indices in seen: what waits for too long, and the cycles, each in its order
}

// seen is a task in a snapshot.
type seen struct {
	status
	rec      *Record
	events   []watchEvent
	released []order.Access // by their addresses
	parent   int            // index; -1 if there is none
	task     *order.Task    // its mark is the index
	blockers []blocker

	stuckSince time.Time // of the wait that is too long
	inCycle    bool
}

// behind is a task that another one waits for.
type blocker struct {
	on     int          // index of the task
	access chain.Access // of the task that waits; zero if it waits for the task itself
}

// take looks at all live tasks, which are in shards.
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
	for i := range p.seen { // parents first, and the children of each in their order
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

// look takes what is under the lock of the record, and reports whether the task is alive.
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

// findBehind finds what task i waits for, as far as that is another task.
func (p *snapshot) findBlockers(i int) {
	x := &p.seen[i]
	switch x.state {
	case stateSpawned:
		// Where OnReady has bound events the accesses are there, and the tasks of a loop are
		// ordered by its graph.
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

// behindChildren notes that x waits for all its children.
func (p *snapshot) blockedByChildren(x *seen) {
	for _, k := range p.kids[x.rec] {
		x.blockers = append(x.blockers, blocker{on: k})
	}
}

// plant puts task i, whose parent is there, into its tree. The parts of a loop do not wait for each
// other there.
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

// behindUses notes which tasks i waits for by its accesses: those whose use of the memory is not
// over, and one that has it alone.
func (p *snapshot) blockedByAccesses(i int) {
	x := &p.seen[i]
	declared := map[*order.Entry]chain.Access{} // a strong one, if there is one
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

// given reports whether the task of u has given up all of its bytes from lo to hi.
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

// findStuck finds the tasks that have waited for too long for something that no task gives, and the
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

// waitsOutside reports whether x waits for something that is no task, and does not end by itself,
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

// findCycles finds tasks that wait for each other. Every one of the relations is needed by the task
// that waits, so a task on a cycle never goes on. The relations are read one after the other; that
// they held at one time is verified by versions: if no record on the cycle has changed since it was
// read, each held from the last reading to the first verification.
func (p *snapshot) findCycles() {
	const (
		fresh = iota
		onPath
		finished
	)
	color := make([]uint8, len(p.seen))
	next := make([]int, len(p.seen)) // into behind
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

// addCycle notes that each task of ring waits for the next one, if that is still so.
func (p *snapshot) addCycle(ring []int) {
	for _, i := range ring {
		x := &p.seen[i]
		x.rec.mu.Lock()
		same := x.rec.version == x.version
		x.rec.mu.Unlock()
		if !same || x.inCycle {
			return
		}
	}
	for k, i := range ring {
		x := &p.seen[i]
		x.inCycle, x.stuckSince = true, x.since
		// The relation on the cycle comes first.
		j := slices.IndexFunc(x.blockers, func(b blocker) bool { return b.on == ring[(k+1)%len(ring)] })
		x.blockers[0], x.blockers[j] = x.blockers[j], x.blockers[0]
		p.stuck = append(p.stuck, i)
	}
}
