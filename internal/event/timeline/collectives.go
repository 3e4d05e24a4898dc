// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"maps"
	"slices"

	"weft/internal/event"
	"weft/internal/event/replay"
)

// A collective is an asynchronous slice at each rank, as other requests are, with a mark at either end. When all ranks are done, or at the end of the
// timeline, an arrow is drawn to the end at each rank, from the beginning at the rank that came last of those that it had to wait for. So arrows of one
// collective lead to the one who is late.

// The collectives in which ranks wait for some others only, by event.Collectives.
const (
	ofBcast   = 2
	ofReduce  = 3
	ofScan    = 5
	ofGather  = 6
	ofScatter = 7
)

func (t *writer) collectiveBegins(e *replay.Event, id key, p *place) {
	kind := int(e.B >> 32 & 0xff)
	name := "collective"
	if kind < len(event.Collectives) {
		name = event.Collectives[kind]
	}
	t.begin(id, p, name)
	k := gatheringKey{e.Process, e.Source.Place.Group, e.C >> 40, e.C & (1<<40 - 1)}
	if k.group == replay.JobGroup {
		k.process = -1
	}
	g := t.gatherings[k]
	if g == nil {
		g = &gathering{name: name, kind: kind, root: int(int32(uint32(e.B))), size: int(e.B >> 40), rank: map[int]int{}, from: map[int]arrival{}, to: map[int]arrival{}}
		t.gatherings[k] = g
	}
	at := t.mark(p, name, map[string]any{"communicator": k.comm, "number": k.number, "ranks": g.size})
	g.from[e.Source.Place.Index] = arrival{at, p}
	g.rank[e.Source.Place.Index] = int(int32(uint32(e.B)))
	t.joined[id] = joined{k, e.Source.Place.Index}
}

func (t *writer) collectiveEnds(id key, p *place, failed bool) {
	j, ok := t.joined[id]
	if !ok {
		return
	}
	delete(t.joined, id)
	g := t.gatherings[j.key]
	what := " over"
	if failed {
		what = " failed"
	} else {
		g.to[j.rank] = arrival{t.mark(p, g.name+what, nil), p}
	}
	if g.done++; g.done >= g.size {
		t.draw(g)
		delete(t.gatherings, j.key)
	}
}

// waitsFor reports whether, in g, rank r cannot be done before rank s has begun.
func (g *gathering) waitsFor(r, s int) bool {
	switch g.kind {
	case ofBcast, ofScatter:
		return s == g.root
	case ofReduce, ofGather:
		return r == g.root
	case ofScan:
		return g.rank[s] < g.rank[r]
	}
	return true
}

// draw draws the arrows of a collective.
func (t *writer) draw(g *gathering) {
	for _, r := range slices.Sorted(maps.Keys(g.to)) {
		to := g.to[r]
		last, found := arrival{}, false
		for _, s := range slices.Sorted(maps.Keys(g.from)) {
			if from := g.from[s]; s != r && g.waitsFor(r, s) && (!found || from.at > last.at) {
				last, found = from, true
			}
		}
		// None if the clocks say otherwise, or if it was this rank that came last.
		if found && last.at <= to.at && last.at >= g.from[r].at {
			t.arrow("collective", ending{at: last.at, pid: last.p.pid, tid: last.p.tid}, to.at, to.p)
		}
	}
}
