// SPDX-FileCopyrightText: The weft authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"path"
	"strings"

	"weft/internal/event"
	"weft/internal/event/replay"
)

func (t *writer) taskEvent(e *replay.Event) {
	id := key{e.Process, e.A}
	x := t.tasks[id]
	switch e.Kind() {
	case event.Spawned:
		o := t.set.Origin(e.Process, uint32(e.C))
		x = &task{id: id, name: title(o.Label, o.Where), where: o.Where, main: id, loop: e.C>>48&event.SpawnedLoop != 0}
		if p := t.tasks[key{e.Process, e.B}]; p != nil {
			x.main = p.main
		}
		t.tasks[id] = x
		return
	case event.Again:
		if old := t.tasks[key{e.Process, e.B}]; old != nil {
			t.tasks[id] = &task{id: id, name: old.name, where: old.where, main: old.main, loop: true}
			delete(t.tasks, old.id)
		}
		return
	case event.RunFailed:
		p := t.trackOf(e)
		t.put(&entry{Name: "the run has failed", Cat: "run", Phase: "i", Scope: "p", Time: t.now, Pid: p.pid, Tid: p.tid})
		return
	}
	if x == nil {
		return // the record of its beginning was lost
	}
	switch e.Kind() {
	case event.Ready:
		if l := t.trackOf(e).last; e.B != 0 && l.task == e.B {
			x.after = l
		}
	case event.Started, event.Skipped:
		p := t.trackOf(e)
		x.outer, x.from, x.since = p.cur, p, t.now
		p.cur = x
		if x.after.task != 0 {
			t.arrow("dependency", x.after, arrowEnd{at: t.now, p: p})
		}
	case event.Ended:
		p := t.trackOf(e)
		if p.cur != x {
			return
		}
		t.closeSlice(p, x)
		p.cur = x.outer
		x.end = arrowEnd{e.A, max(x.since, t.now-1), p}
		p.last = x.end
		if e.C&event.EndedCompleted != 0 {
			delete(t.tasks, id)
		}
	case event.Released:
		t.trackOf(e).last = x.end
	case event.Completed:
		t.trackOf(e).last = x.end
		if !x.loop {
			delete(t.tasks, id)
		}
	case event.Refused:
		delete(t.tasks, id)
	case event.Blocked:
		p := t.trackOf(e)
		if p.cur != x {
			return
		}
		for y := x; y != nil; y = y.outer { // the tasks below on the stack leave the slot, too
			t.closeSlice(p, y)
		}
		p.cur = nil
		x.cause = event.Reasons[min(int(e.B), len(event.Reasons)-1)]
		x.since = t.now
		t.async("b", "blocked: "+x.cause, "blocked", x)
	case event.Resumed:
		if x.cause == "" {
			return
		}
		t.async("e", "blocked: "+x.cause, "blocked", x)
		x.cause = ""
		p := t.trackOf(e)
		p.cur = x
		for y := x; y != nil; y = y.outer {
			y.since, y.from = t.now, p
		}
	}
}

// closeSlice writes the slice of x that ends now.
func (t *writer) closeSlice(p *track, x *task) {
	args := map[string]any{"task": x.id.id, "spawned at": x.where}
	if r, ok := t.ranks[x.main]; ok {
		args["rank"] = r
	}
	t.slice(p, x.name, "task", x.since, args)
}

// async writes one end of an asynchronous slice of a task.
func (t *writer) async(phase, name, cat string, x *task) {
	t.put(&entry{Name: name, Cat: cat, Phase: phase, Time: t.now, Pid: x.from.pid, Tid: x.from.tid, ID: fmt.Sprintf("task %d.%d", x.id.process, x.id.id),
		Args: map[string]any{"task": x.id.id, "label": x.name}})
}

// title is the name of a slice: the label, or file and line.
func title(label, where string) string {
	if label != "" {
		return label
	}
	if at, _, ok := strings.Cut(where, " ("); ok {
		return path.Base(at)
	}
	return where
}

// closeOpen ends all open slices at the end of the timeline.
func (t *writer) closeOpen() {
	for _, p := range t.tracks {
		if p.parked >= 0 {
			t.slice(p, "parked", "slot", p.parked, nil)
		}
		for x := p.cur; x != nil; x = x.outer {
			t.closeSlice(p, x)
		}
	}
	for _, x := range t.tasks {
		if x.cause != "" {
			t.async("e", "blocked: "+x.cause, "blocked", x)
		}
	}
	for id := range t.requests {
		t.finish(id)
	}
	t.closeWindows()
}
