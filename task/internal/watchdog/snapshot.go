// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package watchdog

import (
	"cmp"
	"slices"
	"time"

	"weft/internal/chain"
)

// snapshot is what the watchdog saw at one moment. Each task is seen as it was at some time while the snapshot was made, not all at the
// same; what must hold at one time, a cycle, is verified.
type snapshot struct {
	at    time.Time
	limit time.Duration
	seen  []seen // in the order of creation of their parents' lists: parents before children
	kids  map[*Record][]int
	place map[*Record]int
	stuck []int // indices in seen: what waits for too long, and the cycles, each in its order
}

// seen is a task in a snapshot.
type seen struct {
	rec     *Record
	state   watchState
	since   time.Time
	version uint64
	waits   Wait
	site    uintptr
	events  []watchEvent
	given   []chain.Access
	wants   bool
	parent  int // index; -1 if there is none
	behind  []behind

	stuckSince time.Time // of the wait that is too long
	inCycle    bool
}

// behind is a task that another one waits for.
type behind struct {
	on     int          // index of the task
	access chain.Access // of the task that waits; zero if it waits for the task itself
}

// take looks at all live tasks, which are in shards.
func take(shards []watchShard, limit time.Duration) *snapshot {
	p := &snapshot{limit: limit, kids: map[*Record][]int{}, place: map[*Record]int{}}
	for i := range shards {
		sh := &shards[i]
		sh.mu.Lock()
		for r := sh.first; r != nil; r = r.next {
			p.seen = append(p.seen, seen{rec: r})
		}
		sh.mu.Unlock()
	}
	n := 0
	for i := range p.seen {
		x := &p.seen[i]
		if x.look() {
			p.seen[n] = *x
			n++
		}
	}
	p.seen = p.seen[:n]
	p.at = time.Now()
	slices.SortFunc(p.seen, func(a, b seen) int {
		return cmp.Or(cmp.Compare(a.rec.depth, b.rec.depth), a.rec.born.Compare(b.rec.born), cmp.Compare(a.rec.id, b.rec.id))
	})
	for i := range p.seen {
		p.place[p.seen[i].rec] = i
	}
	for i := range p.seen {
		x := &p.seen[i]
		x.parent = -1
		if at, ok := p.place[x.rec.parent]; ok {
			x.parent = at
		}
		p.kids[x.rec.parent] = append(p.kids[x.rec.parent], i)
	}
	for _, l := range p.kids {
		slices.SortFunc(l, func(a, b int) int { return cmp.Compare(p.seen[a].rec.seq, p.seen[b].rec.seq) })
	}
	for i := range p.seen {
		p.findBehind(i)
	}
	p.findStuck()
	return p
}

// look takes what is under the lock of the record, and reports whether the task is alive.
func (x *seen) look() bool {
	r := x.rec
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state == stateOver {
		return false
	}
	x.state, x.since, x.version, x.waits, x.site = r.state, r.since, r.version, r.waits, r.site
	x.events, x.given, x.wants = nil, slices.Clone(r.given), r.wants
	for _, e := range r.events {
		x.events = append(x.events, *e)
	}
	return true
}

// findBehind finds what task i waits for, as far as that is another task.
func (p *snapshot) findBehind(i int) {
	x := &p.seen[i]
	switch x.state {
	case stateSpawned:
		if len(x.events) > 0 {
			return // the accesses are there, and OnReady has bound events
		}
		for _, a := range x.rec.accs {
			if a.IsWeak() {
				continue
			}
			on := p.blocker(i, a)
			if on < 0 && a.Mode() == chain.ModeCommutative {
				on = p.holder(i, a)
			}
			if on >= 0 {
				x.behind = append(x.behind, behind{on: on, access: a})
			}
		}
	case stateWaiting:
		if on, ok := p.place[x.waits.On]; ok && x.waits.On != nil {
			x.behind = append(x.behind, behind{on: on})
		}
		if x.waits.Children {
			p.behindChildren(x)
		}
	case stateReturned: // with Attrs.Wait
		if len(x.events) == 0 {
			p.behindChildren(x)
		}
	case stateGiven:
		p.behindChildren(x)
	}
}

// behindChildren notes that x waits for all its children.
func (p *snapshot) behindChildren(x *seen) {
	for _, k := range p.kids[x.rec] {
		x.behind = append(x.behind, behind{on: k})
	}
}

// blocker returns the task that keeps task i from access a: the nearest one before it whose use of the object is not over
// and does not go together with a; -1 if there is none.
func (p *snapshot) blocker(i int, a chain.Access) int {
	x := &p.seen[i]
	for {
		if x.rec.loop {
			return -1 // the loop's graph orders it
		}
		siblings := p.kids[x.rec.parent]
		at, _ := slices.BinarySearchFunc(siblings, x.rec.seq, func(k int, seq uint64) int { return cmp.Compare(p.seen[k].rec.seq, seq) })
		for k := at - 1; k >= 0; k-- {
			if on := p.user(siblings[k], a); on >= 0 {
				return on
			}
		}
		// What the parent's own access waits for, if the parent need not.
		if x.parent < 0 {
			return -1
		}
		own, ok := x.rec.parent.declares(a)
		if !ok || !own.IsWeak() {
			return -1
		}
		if together(own.Mode(), chain.ModeIn) {
			a = own // a reader waits for writers only
		}
		x = &p.seen[x.parent]
	}
}

// user returns the task, k or one below it, that uses the object of a in a way that a has to wait for; -1 if there is none.
func (p *snapshot) user(k int, a chain.Access) int {
	x := &p.seen[k]
	own, ok := x.rec.declares(a)
	if !ok || together(own.Mode(), a.Mode()) && x.state != stateGiven {
		return -1
	}
	for _, g := range x.given {
		if g.Meets(a) {
			ok = false // but children may still use it
		}
	}
	if ok && x.state != stateGiven {
		return k
	}
	for _, c := range p.kids[x.rec] {
		if on := p.user(c, a); on >= 0 {
			return on
		}
	}
	return -1
}

// holder returns a task that has the object of a as Commutative, while task i wants it; -1 if there is none.
func (p *snapshot) holder(i int, a chain.Access) int {
	for k := range p.seen {
		x := &p.seen[k]
		if x.state == stateSpawned || x.state == stateResting || x.state == stateGiven {
			continue
		}
		if own, ok := x.rec.declares(a); ok && own.Mode() == chain.ModeCommutative && !own.IsWeak() &&
			(!p.isUnder(i, k) || p.wantsJust(i, a) && own == a) &&
			!slices.ContainsFunc(x.given, func(g chain.Access) bool { return g.Meets(a) }) {
			return k
		}
	}
	return -1
}

// wantsJust reports whether a is the object that task i waits for, of those that it takes. Who has an object has it for its descendants, but
// not for one whose parent does not declare it: that one waits for its own ancestor.
func (p *snapshot) wantsJust(i int, a chain.Access) bool {
	for _, x := range p.seen[i].rec.accs {
		if x != a && x.Mode() == chain.ModeCommutative && !x.IsWeak() {
			return false
		}
	}
	return p.seen[i].wants
}

// isUnder reports whether task i is k, or descends from it.
func (p *snapshot) isUnder(i, k int) bool {
	for i >= 0 && i != k {
		i = p.seen[i].parent
	}
	return i == k
}

// declares returns r's access to what a names, as one; false if there is none.
func (r *Record) declares(a chain.Access) (own chain.Access, ok bool) {
	for _, x := range r.accs {
		if !x.Meets(a) {
			continue
		}
		switch {
		case !ok:
			own, ok = x, true
		case own.Mode() != x.Mode() || own.IsWeak() && !x.IsWeak():
			if !x.IsWeak() {
				own = x
			}
		}
	}
	return own, ok
}

// together reports whether neighbours of these modes run without waiting for each other, as far as the chain is concerned.
func together(a, b chain.Mode) bool {
	return a == b && a != chain.ModeInOut && a != chain.ModeOut
}

// findStuck finds the tasks that have waited for too long for something that no task gives, and the cycles.
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

// waitsOutside reports whether x waits for something that is no task, and does not end by itself, and since when.
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

// findCycles finds tasks that wait for each other. Every one of the relations is needed by the task that waits, so a task on a
// cycle never goes on. The relations are read one after the other; that they held at one time is verified by versions: if no record on
// the cycle has changed since it was read, each held from the last reading to the first verification.
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
			if next[i] == len(x.behind) {
				color[i] = finished
				path = path[:len(path)-1]
				continue
			}
			on := x.behind[next[i]].on
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
		j := slices.IndexFunc(x.behind, func(b behind) bool { return b.on == ring[(k+1)%len(ring)] })
		x.behind[0], x.behind[j] = x.behind[j], x.behind[0]
		p.stuck = append(p.stuck, i)
	}
}
