// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package collect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weft/internal/event"
	"weft/internal/event/replay"
	"weft/observe/internal/graph"
	"weft/observe/internal/taskprof"
)

func (k *kept) hasRoom() bool { return len(k.tasks) < k.max }

// keep adds a task that is over, if there is room, and reports whether there was.
func (k *kept) keep(t *live, x taskprof.Times) bool {
	if k.max == 0 {
		return false
	}
	if !k.hasRoom() {
		k.leftOut += int(t.weight)
		return false
	}
	k.tasks = append(k.tasks, t)
	k.times = append(k.times, x)
	k.byID[t.id] = t
	return true
}

// bound stores which task waits for a request.
func (k *kept) bound(request, task uint64) {
	if k.hasRoom() {
		k.senders[request] = task
	}
}

// message pairs the sends and receives of the same messages: among messages with the same
// replay.Message, the first send with the first receive, and so on.
func (k *kept) message(s *event.Source, r *event.Record) {
	if !k.hasRoom() {
		return
	}
	e := &replay.Event{Record: *r, Source: *s}
	switch r.Kind() {
	case event.SendPosted:
		if got, ok := replay.Pair(k.sends, k.recvs, replay.MessageOf(e), r.A); ok {
			k.pairs = append(k.pairs, [2]uint64{r.A, got})
		}
	case event.Matched:
		if sent, ok := replay.Pair(k.recvs, k.sends, replay.MessageOf(e), r.A); ok {
			k.pairs = append(k.pairs, [2]uint64{sent, r.A})
		}
	}
}

// Graph returns the graph of the kept tasks, with edges from their accesses.
func (c *Collector) Graph() *graph.Graph {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, clock, rate := &c.graph, c.rec.Clock(), c.rateLocked()
	order := make([]int, len(k.tasks))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, k.compare())
	since := func(ticks int64) time.Duration { return time.Duration(clock.Span(ticks - c.begun)) }
	g := &graph.Graph{Notes: c.notesLocked()}
	if k.leftOut > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("Only the first %d tasks were kept; %d more are left out.", len(k.tasks), k.leftOut))
	}
	if n := len(c.live); n > 0 {
		g.Notes = append(g.Notes, fmt.Sprintf("%d tasks were not over.", n))
	}
	tasks := make([]*live, 0, len(order))
	spawns := map[uint64][]int64{} // by parent
	for _, t := range k.tasks {
		if t.round == 0 { // later rounds are spawned by the loop
			spawns[t.parent] = append(spawns[t.parent], t.spawned)
		}
	}
	for _, i := range order {
		t, x := k.tasks[i], k.times[i]
		x.Scale(rate)
		tasks = append(tasks, t)
		label, site := c.nameLocked(t.spec)
		n := graph.Node{
			ID: t.id, Label: label, Site: site, Rank: c.ranks[k.root(t.id)],
			Spawned: since(t.spawned), Started: since(t.started), Done: since(max(t.ended, t.released)), Run: x.Run, Bound: x.Comm,
		}
		for _, s := range t.waitsOver(spawns[t.id]) {
			n.Stops = append(n.Stops, graph.Stop{At: since(s.at), Run: min(x.Run, max(0, time.Duration(clock.Span(s.run))))})
		}
		g.Nodes = append(g.Nodes, n)
	}
	g.Edges = edges(tasks, k.byID)
	for _, p := range k.pairs {
		from, to := k.senders[p[0]], k.senders[p[1]]
		if from != to && k.byID[from] != nil && k.byID[to] != nil {
			g.Edges = append(g.Edges, graph.Edge{From: from, To: to, Kind: graph.Message})
		}
	}
	return g
}

// compare returns an order of tasks in which the children of each task are in the order of their
// accesses: by their spawns; in a loop by round, and in a round by the spawns of the recorded
// tasks.
func (k *kept) compare() func(a, b int) int {
	begun := map[uint64]int64{} // loops, by the first spawn
	for _, t := range k.tasks {
		if t.loop != nil && (begun[t.parent] == 0 || t.loop.spawned < begun[t.parent]) {
			begun[t.parent] = t.loop.spawned
		}
	}
	key := func(i int) (first, second int64, round uint64) {
		t := k.tasks[i]
		if t.loop == nil {
			return t.spawned, 0, 0
		}
		return begun[t.parent], t.loop.spawned, t.round
	}
	return func(a, b int) int {
		a1, a2, ar := key(a)
		b1, b2, br := key(b)
		return cmp.Or(cmp.Compare(a1, b1), cmp.Compare(ar, br), cmp.Compare(a2, b2), cmp.Compare(k.tasks[a].id, k.tasks[b].id))
	}
}

// root returns the main task of a task's run, or the last ancestor that is known.
func (k *kept) root(id uint64) uint64 {
	for t := k.byID[id]; t != nil && t.parent != 0; t = k.byID[id] {
		id = t.parent
	}
	return id
}

// nameLocked returns the label and position of an origin. +checklocks:c.mu
func (c *Collector) nameLocked(spec uint32) (label, site string) {
	o := c.rec.Names().Origin(spec)
	site = o.Where()
	if label = o.Label; label == "" {
		label = shortName(event.Where(o.Body))
	}
	return label, site
}

// A wait for children ends a part of a body. The graph needs the time of this end, and how long the
// body had run until then. The events with this information have several sources if the body has
// changed its slot, and arrive in any order. They are kept as marks, and evaluated when the graph
// is made.

const (
	acts    uint8 = iota // the body spawns, blocks or ends, so it is in no wait for children
	leaves               // the body stops running: another body begins on top, or it is blocked
	returns              // the body continues
	// the body continues in a wait, after a body on top; the wait may be over
	endsOnTop
	waits // the body is blocked in a wait, which is over when the body returns
)

// stop is the end of a wait, in ticks.
type stop struct {
	at  int64
	run int64 // how long the body had run until then
}

// mark adds a mark for the graph. +checklocks:c.mu
func (c *Collector) mark(t *live, at int64, what uint8) {
	if c.graph.hasRoom() {
		t.marks = append(t.marks, mark{at, what})
	}
}

// waitsOver returns the ends of the waits in a body that is over, in order. spawns are the times at
// which the body spawned tasks. A wait in which the body ran other bodies on top ends with the last
// of them before the body acts.
func (t *live) waitsOver(spawns []int64) (list []stop) {
	marks := append(slices.Clone(t.marks), mark{t.ended, acts})
	for _, at := range spawns {
		marks = append(marks, mark{at, acts})
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return cmp.Compare(a.at, b.at) })
	run, running := -t.started, 1 // like live.run and live.running
	// the end of the last body on top; zero if the body has acted since then
	var onTop stop
	waiting := false
	add := func(s stop) {
		if n := len(list); n > 0 {
			s.run = max(s.run, list[n-1].run) // clocks differ
		}
		list = append(list, s)
	}
	for _, m := range marks {
		switch m.what {
		case acts:
			if onTop.at != 0 {
				add(onTop)
			}
			onTop = stop{}
		case leaves, waits:
			run += m.at
			running--
			waiting = m.what == waits
		case returns, endsOnTop:
			run -= m.at
			running++
			now := stop{m.at, run}
			if running > 0 {
				now.run += m.at
			}
			switch {
			case m.what == endsOnTop:
				onTop = now
			case waiting:
				add(now)
				onTop = stop{}
			}
			waiting = false
		}
	}
	return list
}
