// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"maps"
	"slices"

	"weft/internal/event"
	"weft/internal/event/replay"
	"weft/internal/names"
)

func (t *writer) messageEvent(e *replay.Event) {
	p := t.trackOf(e)
	id := key{e.Process, e.A}
	peer, tag := int(int32(uint32(e.B))), int32(uint32(e.B>>32))
	bytes, comm := e.C&(1<<40-1), e.C>>40
	switch e.Kind() {
	case event.SendPosted:
		name := fmt.Sprintf("send to %d", peer)
		here := t.mark(p, name, map[string]any{"tag": tag, "bytes": bytes, "communicator": comm})
		t.begin(id, p, name)
		if there, ok := replay.Pair(t.sent, t.matched, replay.MessageOf(e), here); ok {
			t.arrow("message", here, there)
		}
	case event.RecvPosted:
		name := fmt.Sprintf("receive from %d", peer)
		if peer < 0 {
			name = "receive from any"
		}
		t.begin(id, p, name)
	case event.Matched:
		here := t.mark(p, fmt.Sprintf("from %d", peer), map[string]any{"tag": tag, "bytes": bytes, "communicator": comm})
		if there, ok := replay.Pair(t.matched, t.sent, replay.MessageOf(e), here); ok {
			t.arrow("message", there, here)
		}
	case event.CollectiveBegun:
		t.collectiveBegins(e, id, p)
	case event.RequestDone:
		t.collectiveEnds(id, p, e.B&event.EndedFailed != 0)
		t.finish(id)
	case event.Bound:
		if r := t.requests[id]; r != nil {
			t.put(&entry{Name: r.name, Cat: "request", Phase: "n", Time: t.now, Pid: r.p.pid, Tid: r.p.tid, ID: id.text(), Args: map[string]any{"bound to task": e.B}})
		}
	default:
		t.windowEvent(e)
	}
}

// mark writes the shortest slice that an arrow can be bound to, and returns its end of an arrow.
func (t *writer) mark(p *track, name string, args map[string]any) arrowEnd {
	at := max(t.now, p.mark+2)
	p.mark = at
	t.put(&entry{Name: name, Cat: "message", Phase: "X", Time: at, Dur: new(micros(1)), Pid: p.pid, Tid: p.tid, Args: args})
	return arrowEnd{at: at, p: p}
}

// begin opens the asynchronous slice of a request. A request with the number 0 has none.
func (t *writer) begin(id key, p *track, name string) {
	if id.id == 0 {
		return
	}
	t.requests[id] = &request{name, p}
	t.put(&entry{Name: name, Cat: "request", Phase: "b", Time: t.now, Pid: p.pid, Tid: p.tid, ID: id.text()})
}

func (t *writer) finish(id key) {
	r := t.requests[id]
	if r == nil {
		return
	}
	delete(t.requests, id)
	t.put(&entry{Name: r.name, Cat: "request", Phase: "e", Time: t.now, Pid: r.p.pid, Tid: r.p.tid, ID: id.text()})
}

// A collective is an asynchronous slice at each rank, as other requests are, with a mark at either
// end. When all ranks are done, or at the end of the timeline, an arrow is drawn to the end at each
// rank, from the latest beginning among the ranks that it had to wait for. So the arrows of a
// collective come from the rank that was late.

func (t *writer) collectiveBegins(e *replay.Event, id key, p *track) {
	of := event.Collective(e.B)
	t.begin(id, p, of.Name)
	k := collectiveKey{e.Process, e.Source.Location.Group, e.C >> 40, e.C & (1<<40 - 1)}
	if k.group == replay.JobGroup {
		k.process = -1
	}
	g := t.collectives[k]
	if g == nil {
		g = &collective{Collective: of, root: int(int32(uint32(e.B))), size: int(e.B >> 40), rank: map[int]int{}, from: map[int]arrowEnd{}, to: map[int]arrowEnd{}}
		t.collectives[k] = g
	}
	g.from[e.Source.Location.Index] = t.mark(p, of.Name, map[string]any{"communicator": k.comm, "number": k.number, "ranks": g.size})
	g.rank[e.Source.Location.Index] = int(int32(uint32(e.B)))
	t.parts[id] = collectivePart{k, e.Source.Location.Index}
}

func (t *writer) collectiveEnds(id key, p *track, failed bool) {
	j, ok := t.parts[id]
	if !ok {
		return
	}
	delete(t.parts, id)
	g := t.collectives[j.key]
	if failed {
		t.mark(p, g.Name+" failed", nil) // no arrow leads to it
	} else {
		g.to[j.rank] = t.mark(p, g.Name+" over", nil)
	}
	if g.done++; g.done >= g.size {
		t.draw(g)
		delete(t.collectives, j.key)
	}
}

// waitsFor reports whether rank r cannot be done in g before rank s has begun.
func (g *collective) waitsFor(r, s int) bool {
	switch g.Flow {
	case names.FromRoot:
		return s == g.root
	case names.ToRoot:
		return r == g.root
	case names.Upward:
		return g.rank[s] < g.rank[r]
	}
	return true
}

// draw writes the arrows of a collective.
func (t *writer) draw(g *collective) {
	for _, r := range slices.Sorted(maps.Keys(g.to)) {
		to := g.to[r]
		last, found := arrowEnd{}, false
		for _, s := range slices.Sorted(maps.Keys(g.from)) {
			if from := g.from[s]; s != r && g.waitsFor(r, s) && (!found || from.at > last.at) {
				last, found = from, true
			}
		}
		// No arrow if the clocks contradict it, or if this rank itself was last.
		if found && last.at <= to.at && last.at >= g.from[r].at {
			t.arrow("collective", last, to)
		}
	}
}
